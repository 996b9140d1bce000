#include "plugins/isolation/jail/call_listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "plugins/isolation/jail/channel.h"

namespace gradus {

namespace {

constexpr std::uint64_t kMilli = 1'000'000;
constexpr std::uint64_t kExactly = 1000;  // beyond, "at least"
constexpr std::size_t kMostDestinations = 64;
constexpr std::size_t kMostWaiting = 256;
// A loop of refused calls would keep the supervisor busy, which no limit of the sandbox's counts: the first ones are
// answered at once, then so many a second.
constexpr std::int64_t kBudget = 20'000;
constexpr std::int64_t kRefillPerMilli = 2;
constexpr std::uint64_t kPause = 20 * kMilli;
// An event loop asks not to wait, but what became of a connection is mostly known soon.
constexpr std::uint64_t kAsynchronous = 200 * kMilli;

sockaddr_in unmapped(const sockaddr_in6& address) {
    sockaddr_in inner{};
    inner.sin_family = AF_INET;
    inner.sin_port = address.sin6_port;
    std::memcpy(&inner.sin_addr, address.sin6_addr.s6_addr + 12, sizeof inner.sin_addr);
    return inner;
}

// What the kernel itself takes for this machine.
bool isOwn(const sockaddr_in& address) {
    const std::uint32_t number = ntohl(address.sin_addr.s_addr);
    return number >> 24 == 127 || number == INADDR_ANY;
}

bool isOwn(const sockaddr_in6& address) {
    return IN6_IS_ADDR_LOOPBACK(&address.sin6_addr) || IN6_IS_ADDR_UNSPECIFIED(&address.sin6_addr);
}

std::string addressText(int family, const void* address) {
    char text[INET6_ADDRSTRLEN] = "";
    ::inet_ntop(family, address, text, sizeof text);
    return text;
}

pid_t processOf(int proc, pid_t thread) {
    const std::string status = readTextAt(proc, std::to_string(thread) + "/status").value_or("");
    return static_cast<pid_t>(keyedNumber(status, "Tgid:").value_or(static_cast<std::uint64_t>(thread)));
}

Descriptor openProcess(int proc, pid_t thread) {
    Descriptor direct(static_cast<int>(::syscall(SYS_pidfd_open, thread, 0)));
    if (direct) return direct;
    return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, processOf(proc, thread), 0)));
}

/// Of the socket that the call is about, as far as it can be looked at.
struct SocketKind {
    int type = SOCK_STREAM;
    bool nonBlocking = false;
};

// A stream that is connected may wait for its peer when the last descriptor of it is closed, for as long as its owner
// set; which may be this one, if the owner closes his in just that moment.
void neverLinger(int socket) {
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return;
    const linger off{0, 0};
    ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &off, sizeof off);
}

SocketKind kindOf(int proc, const seccomp_notif& notice) {
    SocketKind kind;
    const Descriptor process = openProcess(proc, static_cast<pid_t>(notice.pid));
    const Descriptor socket(
        process ? static_cast<int>(::syscall(SYS_pidfd_getfd, process.get(), static_cast<int>(notice.data.args[0]), 0))
                : -1);
    if (!socket) return kind;
    socklen_t length = sizeof kind.type;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_TYPE, &kind.type, &length);
    kind.nonBlocking = (::fcntl(socket.get(), F_GETFL) & O_NONBLOCK) != 0;
    neverLinger(socket.get());
    return kind;
}

}  // namespace

/// The address that a call names, copied: the command may change its own meanwhile.
struct CallListener::Caller {
    sockaddr_storage address{};
    std::size_t length = 0;
    bool datagram = false;  ///< the call is sendto
};

CallListener::CallListener(Descriptor listener, const std::vector<JailRoute>& routes, int broker, bool connections,
                           int proc)
    : listener_(std::move(listener)),
      routes_(&routes),
      broker_(broker),
      connections_(connections),
      proc_(proc),
      budget_(kBudget),
      refilledNanos_(bootNanos()) {
    // Whoever is woken runs where the other slept: seven times cheaper (Linux 6.6). Older ones do without.
    constexpr unsigned long kSetFlags = SECCOMP_IOW(4, __u64);
    constexpr unsigned long kSyncWakeUp = 1;
    if (listener_) ::ioctl(listener_.get(), kSetFlags, kSyncWakeUp);
}

std::array<pollfd, 3> CallListener::wanted() const {
    return {pollfd{pausing_ ? -1 : listener_.get(), POLLIN, 0}, pollfd{listener_ ? broker_ : -1, POLLIN, 0},
            pollfd{timer_.get(), POLLIN, 0}};
}

void CallListener::pass(const std::array<pollfd, 3>& events) {
    if (events[1].revents != 0) hearBroker();
    if (events[2].revents != 0) tick();
    if ((events[0].revents & POLLIN) != 0)
        hear();
    else if (events[0].revents != 0)
        listener_.reset();  // nobody is left who could ask
}

// What is there now, but not without end: others want to be heard as well.
void CallListener::hear() {
    for (int most = 64; most > 0 && !pausing_ && listener_; --most) {
        seccomp_notif notice{};
        if (::ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_RECV, &notice) != 0) return;  // killed while it waited
        judge(notice);
        pollfd more{listener_.get(), POLLIN, 0};
        if (::poll(&more, 1, 0) <= 0 || (more.revents & POLLIN) == 0) return;
    }
}

void CallListener::judge(const seccomp_notif& notice) {
    const auto number = static_cast<std::uint32_t>(notice.data.nr);
    const bool isConnect = number == SYS_connect;
    if (!connections_ || (!isConnect && number != SYS_sendto)) {
        Count& count = calls_[number];
        count.exact = count.times < kExactly;
        if (count.exact) ++count.times;
        refuse(notice, EPERM);
        return;
    }
    Caller caller;
    caller.datagram = !isConnect;
    const std::uint64_t place = notice.data.args[isConnect ? 1 : 4];
    caller.length = std::min<std::size_t>(notice.data.args[isConnect ? 2 : 5] & 0xffffffff, sizeof caller.address);
    const iovec ours{&caller.address, caller.length};
    // NOLINTNEXTLINE(performance-no-int-to-ptr): it is an address, though of another process.
    const iovec theirs{reinterpret_cast<void*>(place), caller.length};
    const ssize_t got = ::process_vm_readv(static_cast<pid_t>(notice.pid), &ours, 1, &theirs, 1, 0);
    // What cannot be read the kernel judges: it finds the same fault, or an address that leads nowhere.
    if (got != static_cast<ssize_t>(caller.length)) return letGo(notice.id);
    judgeAddress(notice, caller);
}

void CallListener::judgeAddress(const seccomp_notif& notice, const Caller& caller) {
    const sa_family_t family = caller.address.ss_family;
    const bool isV4 = family == AF_INET && caller.length >= sizeof(sockaddr_in);
    const bool isV6 = family == AF_INET6 && caller.length >= offsetof(sockaddr_in6, sin6_scope_id);
    if (!isV4 && !isV6) return letGo(notice.id);  // of this machine, or no address at all
    sockaddr_in v4{};
    sockaddr_in6 v6{};
    if (isV4) std::memcpy(&v4, &caller.address, sizeof v4);
    if (isV6) std::memcpy(&v6, &caller.address, offsetof(sockaddr_in6, sin6_scope_id));
    const bool mapped = isV6 && IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
    if (mapped) v4 = unmapped(v6);
    if (isV4 || mapped ? isOwn(v4) : isOwn(v6)) return letGo(notice.id);

    const SocketKind kind = kindOf(proc_, notice);
    const bool datagram = kind.type != SOCK_STREAM;
    const std::uint16_t port = ntohs(isV4 || mapped ? v4.sin_port : v6.sin6_port);
    // A stream has its peer already, whatever is said here; a datagram socket without a port sends nothing: the C
    // library asks that way which of its addresses would be used.
    if ((caller.datagram && !datagram) || (datagram && port == 0)) return letGo(notice.id);
    if (!datagram && (isV4 || mapped))
        for (std::uint32_t i = 0; i < routes_->size(); ++i)
            if ((*routes_)[i].address == ntohl(v4.sin_addr.s_addr) && (*routes_)[i].port == port)
                return dial(notice, i, !kind.nonBlocking);
    countRefusal(datagram, isV4 || mapped ? addressText(AF_INET, &v4.sin_addr) : addressText(AF_INET6, &v6.sin6_addr),
                 port);
    refuse(notice, ENETUNREACH);
}

void CallListener::dial(const seccomp_notif& notice, std::uint32_t route, bool patient) {
    const JailDial dial{nextDial_, route};
    if (waiting_.size() >= kMostWaiting) return letGo(notice.id);  // it hears later what became of it
    if (broker_ < 0 || !sendFrame(broker_, JailMessage::kDial, encode(dial))) return refuse(notice, ENETUNREACH);
    waiting_.push_back({notice.id, nextDial_++, patient ? 0 : bootNanos() + kAsynchronous});
    if (!patient) armTimer();
}

void CallListener::hearBroker() {
    const std::optional<JailFrame> frame = receiveFrame(broker_);
    const std::optional<JailDialed> dialed =
        frame && frame->kind == JailMessage::kDialed ? decodeDialed(frame->body) : std::nullopt;
    if (!dialed) {
        // Gone: nothing leads outside any more.
        for (const Waiting& waiting : waiting_) answer(waiting.notice, -ENETUNREACH, 0);
        waiting_.clear();
        broker_ = -1;
        return;
    }
    const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                    [&](const Waiting& waiting) { return waiting.dial == dialed->id; });
    if (found == waiting_.end()) return;  // it did not want to wait
    const std::uint64_t notice = found->notice;
    waiting_.erase(found);
    if (dialed->error == 0)
        letGo(notice);
    else
        answer(notice, -static_cast<int>(dialed->error), 0);
}

void CallListener::refuse(const seccomp_notif& notice, int error) {
    answer(notice.id, -error, 0);
    spend();
}

void CallListener::letGo(std::uint64_t notice) { answer(notice, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE); }

// One that is gone meanwhile needs no answer.
void CallListener::answer(std::uint64_t notice, int error, std::uint32_t flags) {
    seccomp_notif_resp response{};
    response.id = notice;
    response.error = error;
    response.flags = flags;
    ::ioctl(listener_.get(), SECCOMP_IOCTL_NOTIF_SEND, &response);
}

void CallListener::countRefusal(bool datagram, const std::string& address, std::uint16_t port) {
    const std::tuple key(address, port, datagram);
    auto found = refusals_.find(key);
    if (found == refusals_.end() && refusals_.size() >= kMostDestinations) {
        ++otherRefusals_;
        return;
    }
    if (found == refusals_.end()) found = refusals_.emplace(key, Count{}).first;
    Count& count = found->second;
    count.exact = count.times < kExactly;
    if (count.exact) ++count.times;
}

void CallListener::spend() {
    if (--budget_ > 0) return;
    const std::uint64_t now = bootNanos();
    budget_ =
        std::min<std::int64_t>(kBudget, static_cast<std::int64_t>((now - refilledNanos_) / kMilli) * kRefillPerMilli);
    refilledNanos_ = now;
    if (budget_ > 0) return;
    pausing_ = true;
    armTimer();
}

void CallListener::armTimer() {
    if (!timer_) timer_ = Descriptor(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
    std::uint64_t first = pausing_ ? bootNanos() + kPause : ~std::uint64_t{0};
    for (const Waiting& waiting : waiting_)
        if (waiting.untilNanos != 0) first = std::min(first, waiting.untilNanos);
    if (first == ~std::uint64_t{0}) return;
    itimerspec when{};
    when.it_value.tv_sec = static_cast<time_t>(first / 1'000'000'000);
    when.it_value.tv_nsec = static_cast<long>(first % 1'000'000'000);
    ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void CallListener::tick() {
    std::uint64_t ignored = 0;
    while (::read(timer_.get(), &ignored, sizeof ignored) > 0) continue;
    const std::uint64_t now = bootNanos();
    std::erase_if(waiting_, [&](const Waiting& waiting) {
        if (waiting.untilNanos == 0 || waiting.untilNanos > now) return false;
        letGo(waiting.notice);
        return true;
    });
    if (pausing_ && now - refilledNanos_ >= kPause) {
        pausing_ = false;
        budget_ = static_cast<std::int64_t>((now - refilledNanos_) / kMilli) * kRefillPerMilli;
        refilledNanos_ = now;
    }
    armTimer();
}

void CallListener::report(JailEffects& effects) const {
    effects.otherRefusals = otherRefusals_;
    for (const auto& [number, count] : calls_) effects.deniedCalls.push_back({number, count.times, count.exact});
    for (const auto& [key, count] : refusals_) {
        const auto& [address, port, datagram] = key;
        effects.refusals.push_back({datagram, address, port, count.times, count.exact});
    }
}

}  // namespace gradus
