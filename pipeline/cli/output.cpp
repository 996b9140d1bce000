#include "pipeline/cli/output.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "store/model/error.h"

namespace gradus {

namespace {

constexpr std::size_t kBlock = 65536;

// A pipe or terminal that someone else made non-blocking: we share the open file with them.
bool waitUntilWritable(int descriptor) {
    pollfd waited{.fd = descriptor, .events = POLLOUT, .revents = 0};
    return poll(&waited, 1, -1) >= 0 || errno == EINTR;
}

void writeFully(int descriptor, std::string_view bytes, std::string_view name) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
        if (written < 0 && (errno == EINTR || (errno == EAGAIN && waitUntilWritable(descriptor)))) continue;
        if (written < 0 && errno == EPIPE) throw ReaderGone{};
        if (written < 0) throw Error(ErrorCode::kInfrastructure, "writing to {}: {}", name, errnoText(errno));
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
}

}  // namespace

DescriptorSink::DescriptorSink(int descriptor, std::string_view name, Buffering buffering)
    : descriptor_(descriptor), name_(name), buffering_(buffering) {}

void DescriptorSink::write(std::string_view bytes) {
    held_ += bytes;
    if (buffering_ == Buffering::kNone || held_.size() >= kBlock) flush();
}

void DescriptorSink::flush() {
    // Taken out first: bytes that could not be written are not tried again by a later flush.
    const std::string bytes = std::exchange(held_, {});
    writeFully(descriptor_, bytes, name_);
}

void MessageSink::write(std::string_view bytes) {
    try {
        sink_.write(bytes);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): dropped on purpose, see the declaration
    } catch (const ReaderGone&) {
    }
}

}  // namespace gradus
