#include "plugins/isolation/relay.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace gradus {

namespace {

constexpr std::size_t kPiece = std::size_t{64} * 1024;

void makeReady(int socket) {
    const int yes = 1;
    ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) | O_NONBLOCK);
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

bool comesAgain() { return errno == EAGAIN || errno == EINTR; }

void closeHard(int socket) {
    const linger now{1, 0};
    ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

}  // namespace

Relay::Relay(FileDescriptor inside, FileDescriptor outside) : inside_(std::move(inside)), outside_(std::move(outside)) {
    makeReady(inside_.get());
    makeReady(outside_.get());
}

// One that is cut off was not said to the end.
Relay::~Relay() {
    if (!inside_ || (outward_.told && inward_.told)) return;
    reset();
}

Relay::Interest Relay::interest() const {
    const auto wants = [](const Direction& from, const Direction& into) -> std::uint32_t {
        std::uint32_t events = 0;
        if (!from.ended && !from.holds()) events |= EPOLLIN;
        if (into.holds()) events |= EPOLLOUT;
        return events;
    };
    return {wants(outward_, inward_), wants(inward_, outward_)};
}

// A bounded amount in one go: the others wait as well.
bool Relay::move(int from, int to, Direction& direction) {
    for (int rounds = 0; rounds < 8; ++rounds) {
        if (!direction.holds() && !direction.ended) {
            direction.bytes.resize(kPiece);
            const ssize_t got = ::recv(from, direction.bytes.data(), kPiece, 0);
            direction.bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
            direction.sent = 0;
            if (got < 0) return comesAgain();
            direction.ended = got == 0;
        }
        if (direction.holds()) {
            const ssize_t put = ::send(to, direction.bytes.data() + direction.sent,
                                       direction.bytes.size() - direction.sent, MSG_NOSIGNAL);
            if (put < 0) return comesAgain();
            direction.sent += static_cast<std::size_t>(put);
        }
        if (direction.ended && !direction.holds()) {
            if (!direction.told && ::shutdown(to, SHUT_WR) != 0 && errno != ENOTCONN) return false;
            direction.told = true;
            return true;
        }
    }
    return true;
}

bool Relay::pass() {
    if (!move(inside_.get(), outside_.get(), outward_) || !move(outside_.get(), inside_.get(), inward_)) {
        reset();
        return false;
    }
    return !(outward_.told && inward_.told);
}

void Relay::reset() {
    if (broken_) return;
    broken_ = true;
    closeHard(inside_.get());
    closeHard(outside_.get());
}

}  // namespace gradus
