#include "plugins/host/input_relay.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace gradus {

namespace {

// A pipe that nobody reads answers a write with a signal as well, which is this whole process's end where nobody said
// otherwise. It goes to the writing thread: held back there, and taken away if it came of this write.
ssize_t writeQuietly(int fd, const std::string& bytes) {
    sigset_t pipe;
    ::sigemptyset(&pipe);
    ::sigaddset(&pipe, SIGPIPE);
    sigset_t pending;
    ::sigpending(&pending);
    sigset_t before;
    ::pthread_sigmask(SIG_BLOCK, &pipe, &before);
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    const int error = errno;
    constexpr timespec kAtOnce{0, 0};
    if (put < 0 && error == EPIPE && ::sigismember(&pending, SIGPIPE) == 0)
        while (::sigtimedwait(&pipe, nullptr, &kAtOnce) < 0 && errno == EINTR) continue;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    errno = error;
    return put;
}

bool comesAgain(int error) { return error == EAGAIN || error == EINTR; }

}  // namespace

InputRelay::InputRelay(int source, FileDescriptor sink) : source_(source), sink_(std::move(sink)) {
    ::fcntl(sink_.get(), F_SETFL, O_NONBLOCK);  // of this end alone: the command's blocks
}

// The source waits while something is still to be written, so that a command that does not read costs one piece. The
// sink is always listened to: it says when nobody reads it any more.
InputRelay::Wanted InputRelay::wanted() const {
    if (!sink_) return {};
    if (bytes_.empty()) return {{source_, POLLIN, 0}, {sink_.get(), 0, 0}};
    return {{-1, 0, 0}, {sink_.get(), POLLOUT, 0}};
}

void InputRelay::pass(short source, short sink) {
    if (!sink_) return;
    if ((sink & POLLERR) != 0) {
        sink_ = FileDescriptor();
        return;
    }
    if (source != 0) take();
    if (!bytes_.empty()) give();
    if (bytes_.empty() && sourceEnded_) sink_ = FileDescriptor();
}

void InputRelay::take() {
    constexpr std::size_t kPiece = 65536;
    bytes_.resize(kPiece);
    const ssize_t got = ::read(source_, bytes_.data(), bytes_.size());
    if (got <= 0 && (got == 0 || !comesAgain(errno))) sourceEnded_ = true;
    bytes_.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
}

void InputRelay::give() {
    const ssize_t put = writeQuietly(sink_.get(), bytes_);
    if (put >= 0)
        bytes_.erase(0, static_cast<std::size_t>(put));
    else if (!comesAgain(errno))
        sink_ = FileDescriptor();
}

}  // namespace gradus
