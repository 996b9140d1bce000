#include "plugins/isolation/network_broker.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

#include "plugins/isolation/jail/channel.h"
#include "plugins/isolation/relay.h"
#include "store/model/error.h"

namespace gradus {

namespace {

using Steady = std::chrono::steady_clock;

constexpr std::uint32_t kFirstAddress = 0xc6120001;  // 198.18.0.1: a range that no real network has
constexpr std::size_t kMostConnections = 256;
constexpr std::size_t kMostQuestions = 8;
constexpr std::chrono::seconds kDialPatience{30};
// A connection was made for somebody who then did not come: killed, or no longer interested.
constexpr std::chrono::seconds kUnclaimed{2};
constexpr int kLookAgainMillis = 500;

struct SocketAddress {
    sockaddr_storage bytes{};
    socklen_t length = 0;

    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
};

SocketAddress withPort(const NetworkAddress& address, std::uint16_t port) {
    SocketAddress result;
    if (const auto* four = std::get_if<in_addr>(&address)) {
        sockaddr_in whole{};
        whole.sin_family = AF_INET;
        whole.sin_port = htons(port);
        whole.sin_addr = *four;
        std::memcpy(&result.bytes, &whole, result.length = sizeof whole);
    } else {
        sockaddr_in6 whole{};
        whole.sin6_family = AF_INET6;
        whole.sin6_port = htons(port);
        whole.sin6_addr = std::get<in6_addr>(address);
        std::memcpy(&result.bytes, &whole, result.length = sizeof whole);
    }
    return result;
}

// This machine from outside is still this machine: what listens here for others is not for a sandbox.
std::vector<std::string> ownAddresses() {
    ifaddrs* found = nullptr;
    if (::getifaddrs(&found) != 0) return {};
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(found, &::freeifaddrs);
    std::vector<std::string> all;
    for (const ifaddrs* entry = found; entry != nullptr; entry = entry->ifa_next) {
        if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_LOOPBACK) != 0) continue;
        if (entry->ifa_addr->sa_family == AF_INET) {
            sockaddr_in four{};
            std::memcpy(&four, entry->ifa_addr, sizeof four);
            all.push_back(formatAddress(four.sin_addr));
        } else if (entry->ifa_addr->sa_family == AF_INET6) {
            sockaddr_in6 six{};
            std::memcpy(&six, entry->ifa_addr, sizeof six);
            all.push_back(formatAddress(six.sin6_addr));
        }
    }
    return all;
}

/// Answers of resolvers. Shared by a broker and its resolver threads, which may still wait for a name when the broker
/// is gone: nothing ends getaddrinfo.
struct Answers {
    std::mutex mutex;
    std::vector<std::pair<std::uint64_t, std::vector<NetworkAddress>>> all;
    FileDescriptor wake{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

// Signals are the main thread's: one of them interrupts a wait there.
template <typename Work>
std::thread quietThread(Work work) {
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread thread(std::move(work));
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
}

}  // namespace

std::vector<NetworkAddress> resolveAsTheHostDoes(const std::string& host) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_ADDRCONFIG;
    addrinfo* found = nullptr;
    if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return {};
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, &::freeaddrinfo);
    std::vector<NetworkAddress> all;
    for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
        if (entry->ai_family == AF_INET) {
            sockaddr_in four{};
            std::memcpy(&four, entry->ai_addr, sizeof four);
            all.emplace_back(four.sin_addr);
        } else if (entry->ai_family == AF_INET6) {
            sockaddr_in6 six{};
            std::memcpy(&six, entry->ai_addr, sizeof six);
            all.emplace_back(six.sin6_addr);
        }
    }
    return all;
}

std::vector<NetworkRoute> routesFor(const std::vector<Destination>& destinations) {
    std::map<std::string, std::uint32_t> addresses;
    std::vector<NetworkRoute> routes;
    std::set<std::pair<std::string, std::uint16_t>> known;
    const auto add = [&](const Destination& destination, std::uint16_t port) {
        const auto next = static_cast<std::uint32_t>(kFirstAddress + addresses.size());
        const std::uint32_t address = addresses.emplace(destination.host, next).first->second;
        if (known.emplace(destination.host, port).second)
            routes.push_back({{address, port}, destination.host, destination.address});
    };
    for (const Destination& destination : destinations) {
        if (const auto pin = destination.address ? parseAddress(*destination.address) : std::nullopt;
            pin && !isOneMachine(*pin))
            throw Error(ErrorCode::kUsage, "'{}' pins an address that is no machine's", formatDestination(destination))
                .hint("pin the address of one machine, or none");
        if (destination.port) add(destination, *destination.port);
        if (!destination.port)
            for (const std::uint16_t port : kUsualPorts) add(destination, port);
    }
    if (routes.size() > kMostRoutes)
        throw Error(ErrorCode::kUsage, "{} destinations are more than the {} that a network by name can have",
                    routes.size(), kMostRoutes)
            .hint("name the port with the host: one without means two");
    return routes;
}

std::string hostsFor(const std::vector<NetworkRoute>& routes) {
    std::string text = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n";
    std::set<std::string> known;
    for (const NetworkRoute& route : routes)
        if (known.insert(route.host).second) {
            in_addr address{};
            address.s_addr = htonl(route.inside.address);
            text += formatAddress(address) + " " + route.host + "\n";
        }
    return text;
}

/// Everything on the broker's thread, but for the log.
class NetworkBroker::Loop {
  public:
    Loop(std::vector<NetworkRoute> routes, Resolver resolver, FileDescriptor control)
        : routes_(std::move(routes)),
          resolver_(std::move(resolver)),
          control_(std::move(control)),
          stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
          epoll_(::epoll_create1(EPOLL_CLOEXEC)),
          answers_(std::make_shared<Answers>()),
          doors_(routes_.size()) {
        if (!stop_ || !epoll_ || !answers_->wake)
            throw Error(ErrorCode::kInfrastructure, "cannot wait for connections: {}", errnoText(errno));
        thread_ = quietThread([this] { run(); });
    }
    ~Loop() {
        ::eventfd_write(stop_.get(), 1);
        thread_.join();
    }
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

    BrokerLog takeLog() {
        const std::lock_guard<std::mutex> lock(mutex_);
        BrokerLog log = std::exchange(log_, {});
        // Nobody waits for these any more, but they were asked for.
        for (const auto& [route, count] : std::exchange(unfinished_, {}))
            log.refused.push_back({"tcp", routes_[route].host, static_cast<std::uint16_t>(routes_[route].inside.port),
                                   "unfinished", "", count, true});
        return log;
    }

  private:
    struct Ready {
        FileDescriptor outside;
        Steady::time_point since;
    };
    /// One route's listening socket, who came in and what is ready for him.
    struct Door {
        FileDescriptor listener;
        std::deque<FileDescriptor> waiting;
        std::deque<Ready> ready;
        std::size_t dialling = 0;
    };
    struct Dial {
        std::uint64_t asked = 0;  ///< the jail's number for it; 0: it did not ask
        std::size_t route = 0;
        std::vector<NetworkAddress> addresses{};
        std::size_t next = 0;
        FileDescriptor socket{};
        Steady::time_point until{};
    };
    struct Watched {
        std::uint32_t events = 0;
        std::function<void(std::uint32_t)> handle;
    };

    void run() {
        watch(stop_.get(), EPOLLIN, [this](std::uint32_t) { running_ = false; });
        watch(control_.get(), EPOLLIN, [this](std::uint32_t) { hearJail(); });
        watch(answers_->wake.get(), EPOLLIN, [this](std::uint32_t) { hearAnswers(); });
        while (running_) {
            epoll_event events[64];
            const bool timed = !dials_.empty() || anyReady();
            const int count = ::epoll_wait(epoll_.get(), events, 64, timed ? kLookAgainMillis : -1);
            for (int i = 0; i < count && running_; ++i) {
                const auto found = watched_.find(events[i].data.fd);
                if (found == watched_.end()) continue;
                const auto handle = found->second.handle;  // it may stop being watched meanwhile
                handle(events[i].events);
            }
            if (timed) dropLate();
        }
    }

    void watch(int fd, std::uint32_t events, std::function<void(std::uint32_t)> handle) {
        epoll_event event{};
        event.events = events;
        event.data.fd = fd;
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
        watched_[fd] = {events, std::move(handle)};
    }

    void change(int fd, std::uint32_t events) {
        Watched& watched = watched_[fd];
        if (watched.events == events) return;
        watched.events = events;
        epoll_event event{};
        event.events = events;
        event.data.fd = fd;
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
    }

    void unwatch(int fd) {
        if (watched_.erase(fd) > 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    }

    void hearJail() {
        std::optional<JailFrame> frame = receiveFrame(control_.get());
        const auto dial = frame && frame->kind == JailMessage::kDial ? decodeDial(frame->body) : std::nullopt;
        if (frame && frame->kind == JailMessage::kListeners) return openDoors(*frame);
        if (!dial || dial->route >= routes_.size()) {
            running_ = false;  // the jail is gone, or speaks nonsense
            return;
        }
        begin(dial->id, dial->route);
    }

    void openDoors(JailFrame& frame) {
        for (Descriptor& listener : frame.descriptors) {
            if (opened_ >= doors_.size()) return;
            const std::size_t route = opened_++;
            doors_[route].listener = FileDescriptor(::fcntl(listener.get(), F_DUPFD_CLOEXEC, 3));
            if (!doors_[route].listener) continue;
            watch(doors_[route].listener.get(), EPOLLIN, [this, route](std::uint32_t) { accept(route); });
        }
    }

    void accept(std::size_t route) {
        Door& door = doors_[route];
        FileDescriptor inside(::accept4(door.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!inside) return;
        door.waiting.push_back(std::move(inside));
        join(route);
        // Each either comes to nothing, which empties the queue, or is under way.
        while (door.waiting.size() > door.dialling) begin(0, route);
    }

    void join(std::size_t route) {
        Door& door = doors_[route];
        while (!door.waiting.empty() && !door.ready.empty()) {
            const std::uint64_t key = ++lastRelay_;
            Relay& relay =
                relays_.try_emplace(key, std::move(door.waiting.front()), std::move(door.ready.front().outside))
                    .first->second;
            door.waiting.pop_front();
            door.ready.pop_front();
            const auto handle = [this, key](std::uint32_t) { passOn(key); };
            watch(relay.inside(), EPOLLIN, handle);
            watch(relay.outside(), EPOLLIN, handle);
        }
    }

    void passOn(std::uint64_t key) {
        const auto found = relays_.find(key);
        if (found == relays_.end()) return;
        Relay& relay = found->second;
        if (!relay.pass()) {
            unwatch(relay.inside());
            unwatch(relay.outside());
            relays_.erase(found);
            return;
        }
        const Relay::Interest interest = relay.interest();
        follow(relay.inside(), interest.inside, key);
        follow(relay.outside(), interest.outside, key);
    }

    // One that is waited for in no way is not watched at all: it would be told as hung up for ever.
    void follow(int fd, std::uint32_t events, std::uint64_t key) {
        if (events == 0) return unwatch(fd);
        if (watched_.contains(fd)) return change(fd, events);
        watch(fd, events, [this, key](std::uint32_t) { passOn(key); });
    }

    bool isFull() const {
        std::size_t count = relays_.size() + dials_.size();
        for (const Door& door : doors_) count += door.ready.size();
        return count >= kMostConnections;
    }

    void begin(std::uint64_t asked, std::size_t route) {
        const bool full = isFull();
        const std::uint64_t key = ++lastDial_;
        Dial& dial = dials_[key];
        dial.asked = asked;
        dial.route = route;
        dial.until = Steady::now() + kDialPatience;
        ++doors_[route].dialling;
        noteUnfinished(route, true);
        if (full) return fail(key, EMFILE);
        if (const auto& pinned = routes_[route].pinned) {
            if (const auto address = parseAddress(*pinned)) dial.addresses = {*address};
            return connectNext(key, EHOSTUNREACH);
        }
        questions_.push_back(key);
        askNext();
    }

    void askNext() {
        while (asking_ < kMostQuestions && !questions_.empty()) {
            const std::uint64_t key = questions_.front();
            questions_.pop_front();
            if (!dials_.contains(key)) continue;
            try {
                ask(key);
                ++asking_;
            } catch (const std::system_error&) {
                fail(key, EAGAIN);  // no more threads to be had
            }
        }
    }

    void ask(std::uint64_t key) {
        quietThread([answers = answers_, resolver = resolver_, host = routes_[dials_[key].route].host, key] {
            std::vector<NetworkAddress> found;
            try {
                found = resolver(host);
            } catch (const std::exception&) {
                found.clear();  // as for a name that nobody knows
            }
            const std::lock_guard<std::mutex> lock(answers->mutex);
            answers->all.emplace_back(key, std::move(found));
            ::eventfd_write(answers->wake.get(), 1);
        }).detach();
    }

    void hearAnswers() {
        eventfd_t ignored = 0;
        ::eventfd_read(answers_->wake.get(), &ignored);
        decltype(answers_->all) all;
        {
            const std::lock_guard<std::mutex> lock(answers_->mutex);
            all.swap(answers_->all);
        }
        for (auto& [key, found] : all) {
            --asking_;
            if (dials_.contains(key)) judge(key, std::move(found));
        }
        askNext();
    }

    void judge(std::uint64_t key, std::vector<NetworkAddress> found) {
        Dial& dial = dials_[key];
        if (found.empty()) {
            refused(dial.route, "unknown-name", "");
            return fail(key, EHOSTUNREACH);
        }
        const std::vector<std::string> own = ownAddresses();
        const auto problem = [&](const NetworkAddress& address) -> std::string_view {
            if (const std::string_view what = reservedFor(address); !what.empty()) return what;
            return std::find(own.begin(), own.end(), formatAddress(address)) != own.end() ? "own" : "";
        };
        for (const NetworkAddress& address : found)
            if (problem(address).empty()) dial.addresses.push_back(address);
        if (!dial.addresses.empty()) return connectNext(key, EHOSTUNREACH);
        refused(dial.route, fmt::format("{}-address", problem(found.front())), formatAddress(found.front()));
        fail(key, EACCES);
    }

    void connectNext(std::uint64_t key, int lastError) {
        Dial& dial = dials_[key];
        while (dial.next < dial.addresses.size()) {
            const SocketAddress address =
                withPort(dial.addresses[dial.next++], static_cast<std::uint16_t>(routes_[dial.route].inside.port));
            dial.socket =
                FileDescriptor(::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
            if (dial.socket && ::connect(dial.socket.get(), address.get(), address.length) == 0) return succeed(key);
            lastError = errno;
            if (dial.socket && errno == EINPROGRESS) {
                watch(dial.socket.get(), EPOLLOUT, [this, key](std::uint32_t) { hearSocket(key); });
                return;
            }
            noteAllowed(dial, false);
        }
        fail(key, lastError);
    }

    void hearSocket(std::uint64_t key) {
        const auto found = dials_.find(key);
        if (found == dials_.end()) return;
        Dial& dial = found->second;
        unwatch(dial.socket.get());
        int error = 0;
        socklen_t length = sizeof error;
        ::getsockopt(dial.socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
        if (error == 0) return succeed(key);
        noteAllowed(dial, false);
        connectNext(key, error);
    }

    void succeed(std::uint64_t key) {
        Dial dial = std::move(dials_[key]);
        dials_.erase(key);
        noteUnfinished(dial.route, false);
        noteAllowed(dial, true);
        Door& door = doors_[dial.route];
        --door.dialling;
        door.ready.push_back({std::move(dial.socket), Steady::now()});
        answer(dial.asked, 0);
        join(dial.route);
    }

    void fail(std::uint64_t key, int error) {
        Dial dial = std::move(dials_[key]);
        dials_.erase(key);
        noteUnfinished(dial.route, false);
        if (dial.socket) unwatch(dial.socket.get());
        Door& door = doors_[dial.route];
        --door.dialling;
        answer(dial.asked, error);
        // Whoever did not wait to hear it is told by a reset.
        while (door.waiting.size() > door.dialling) {
            const linger now{1, 0};
            ::setsockopt(door.waiting.front().get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
            door.waiting.pop_front();
        }
    }

    void answer(std::uint64_t asked, int error) {
        if (asked == 0) return;
        if (!sendFrame(control_.get(), JailMessage::kDialed, encode(JailDialed{asked, static_cast<unsigned>(error)})))
            running_ = false;
    }

    bool anyReady() const {
        return std::any_of(doors_.begin(), doors_.end(), [](const Door& door) { return !door.ready.empty(); });
    }

    void dropLate() {
        const Steady::time_point now = Steady::now();
        std::vector<std::uint64_t> late;
        for (const auto& [key, dial] : dials_)
            if (dial.until <= now) late.push_back(key);
        for (const std::uint64_t key : late) {
            if (dials_[key].socket) noteAllowed(dials_[key], false);
            fail(key, ETIMEDOUT);
        }
        for (Door& door : doors_)
            std::erase_if(door.ready, [&](const Ready& ready) { return ready.since + kUnclaimed <= now; });
    }

    // One that was under way when the log was taken is told already.
    void noteUnfinished(std::size_t route, bool begins) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (begins) {
            ++unfinished_[route];
        } else if (const auto found = unfinished_.find(route); found != unfinished_.end() && --found->second == 0) {
            unfinished_.erase(found);
        }
    }

    void noteAllowed(const Dial& dial, bool connected) {
        const NetworkRoute& route = routes_[dial.route];
        const std::string address = formatAddress(dial.addresses[dial.next - 1]);
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto same = [&](const AllowedConnection& one) {
            return one.host == route.host && one.port == route.inside.port && one.address == address;
        };
        auto found = std::find_if(log_.allowed.begin(), log_.allowed.end(), same);
        if (found == log_.allowed.end())
            found =
                log_.allowed.insert(found, {route.host, static_cast<std::uint16_t>(route.inside.port), address, 0, 0});
        ++(connected ? found->connections : found->failed);
    }

    void refused(std::size_t number, const std::string& reason, const std::string& address) {
        const NetworkRoute& route = routes_[number];
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto same = [&](const RefusedConnection& one) {
            return one.host == route.host && one.port == route.inside.port && one.reason == reason &&
                   one.address == address;
        };
        auto found = std::find_if(log_.refused.begin(), log_.refused.end(), same);
        if (found == log_.refused.end())
            found = log_.refused.insert(
                found, {"tcp", route.host, static_cast<std::uint16_t>(route.inside.port), reason, address, 0, true});
        ++found->attempts;
    }

    const std::vector<NetworkRoute> routes_;
    const Resolver resolver_;
    FileDescriptor control_;
    FileDescriptor stop_;
    FileDescriptor epoll_;
    std::shared_ptr<Answers> answers_;  // with resolver threads
    std::vector<Door> doors_;
    std::size_t opened_ = 0;
    std::map<int, Watched> watched_;
    std::map<std::uint64_t, Dial> dials_;
    std::uint64_t lastDial_ = 0;
    std::deque<std::uint64_t> questions_;
    std::size_t asking_ = 0;
    std::map<std::uint64_t, Relay> relays_;
    std::uint64_t lastRelay_ = 0;
    bool running_ = true;
    std::mutex mutex_;
    BrokerLog log_;
    std::map<std::size_t, std::uint64_t> unfinished_;  ///< by route
    std::thread thread_;
};

NetworkBroker::NetworkBroker(std::vector<NetworkRoute> routes, Resolver resolver) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        throw Error(ErrorCode::kInfrastructure, "cannot make a socket: {}", errnoText(errno));
    jailEnd_ = FileDescriptor(pair[1]);
    loop_ = std::make_unique<Loop>(std::move(routes), std::move(resolver), FileDescriptor(pair[0]));
}

NetworkBroker::~NetworkBroker() = default;

FileDescriptor NetworkBroker::takeJailEnd() { return std::move(jailEnd_); }

BrokerLog NetworkBroker::takeLog() { return loop_->takeLog(); }

}  // namespace gradus
