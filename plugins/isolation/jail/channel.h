#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/isolation/jail/protocol.h"
#include "plugins/isolation/jail/system.h"

namespace gradus {

struct JailFrame {
    JailMessage kind = JailMessage::kFailed;
    std::string body;
    std::vector<Descriptor> descriptors;
};

/// Sends one frame whole, with descriptors riding on its first byte. False (with errno) if the other side is gone.
bool sendFrame(int socket, JailMessage kind, std::string_view body, const std::vector<int>& descriptors = {});

/// The next frame; nothing at the end of the stream (errno 0), after a fault, or for bytes that are not ours (EPROTO).
std::optional<JailFrame> receiveFrame(int socket);

}  // namespace gradus
