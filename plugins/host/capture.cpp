#include "plugins/host/capture.h"

#include <algorithm>

namespace gradus {

void Capture::append(std::string_view bytes) {
    bytes_ += bytes.size();
    const std::size_t room = std::min(bytes.size(), budget_.head - head_.size());
    head_.append(bytes.substr(0, room));
    bytes.remove_prefix(room);
    if (bytes.size() > budget_.tail) bytes.remove_prefix(bytes.size() - budget_.tail);
    const std::size_t growth = std::min(bytes.size(), budget_.tail - ring_.size());
    ring_.append(bytes.substr(0, growth));
    bytes.remove_prefix(growth);
    while (!bytes.empty()) {
        const std::size_t piece = std::min(bytes.size(), ring_.size() - next_);
        ring_.replace(next_, piece, bytes.substr(0, piece));
        next_ = (next_ + piece) % ring_.size();
        bytes.remove_prefix(piece);
    }
}

CapturedStream Capture::take() {
    CapturedStream stream;
    stream.bytes = bytes_;
    stream.head = std::move(head_);
    stream.tail = ring_.substr(next_) + ring_.substr(0, next_);
    stream.truncated = bytes_ > stream.head.size() + stream.tail.size();
    return stream;
}

}  // namespace gradus
