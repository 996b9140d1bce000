#include "plugins/isolation/jail/channel.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace gradus {

namespace {

constexpr std::size_t kMostDescriptors = 128;

void attach(msghdr& message, std::vector<char>& control, const std::vector<int>& descriptors) {
    if (descriptors.empty()) return;
    const std::size_t bytes = descriptors.size() * sizeof(int);
    control.assign(CMSG_SPACE(bytes), '\0');
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(header), descriptors.data(), bytes);
}

void take(msghdr& message, std::vector<Descriptor>& descriptors) {
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
            descriptors.emplace_back(fd);
        }
    }
}

bool receiveExactly(int socket, std::string& bytes, std::vector<Descriptor>& descriptors) {
    std::size_t filled = 0;
    std::vector<char> control(CMSG_SPACE(kMostDescriptors * sizeof(int)));
    while (filled < bytes.size()) {
        iovec part{bytes.data() + filled, bytes.size() - filled};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
        if (got < 0 && errno == EINTR) continue;
        if (got > 0) take(message, descriptors);
        if (got == 0) errno = filled == 0 ? 0 : EPROTO;
        if (got <= 0) return false;
        filled += static_cast<std::size_t>(got);
    }
    return true;
}

}  // namespace

bool sendFrame(int socket, JailMessage kind, std::string_view body, const std::vector<int>& descriptors) {
    if (body.size() > kJailFrameCap || descriptors.size() > kMostDescriptors) {
        errno = EMSGSIZE;
        return false;
    }
    std::string bytes = encodeHeader(kind, body.size());
    bytes += body;
    std::size_t sent = 0;
    while (sent < bytes.size()) {
        iovec part{bytes.data() + sent, bytes.size() - sent};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        std::vector<char> control;
        if (sent == 0) attach(message, control, descriptors);
        const ssize_t put = ::sendmsg(socket, &message, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return false;
        sent += static_cast<std::size_t>(put);
    }
    return true;
}

std::optional<JailFrame> receiveFrame(int socket) {
    JailFrame frame;
    std::string bytes(kJailHeaderBytes, '\0');
    if (!receiveExactly(socket, bytes, frame.descriptors)) return std::nullopt;
    const std::optional<JailHeader> header = decodeHeader(bytes);
    if (!header) {
        errno = EPROTO;
        return std::nullopt;
    }
    frame.kind = header->kind;
    frame.body.assign(header->length, '\0');
    if (!receiveExactly(socket, frame.body, frame.descriptors)) return std::nullopt;
    return frame;
}

}  // namespace gradus
