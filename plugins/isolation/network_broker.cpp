#include "plugins/isolation/network_broker.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <thread>

#include "plugins/host/quiet_thread.h"
#include "plugins/isolation/connection_seat.h"
#include "plugins/isolation/event_loop.h"
#include "plugins/isolation/jail/channel.h"
#include "plugins/isolation/relay.h"
#include "store/model/error.h"

namespace gradus {

namespace {

using Steady = std::chrono::steady_clock;

constexpr std::size_t kMostConnections = 256;
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

// This machine from outside is still this machine: what listens here for others is not for a sandbox. Nothing where
// that cannot be found out.
std::optional<std::vector<NetworkAddress>> ownAddresses() {
    ifaddrs* found = nullptr;
    if (::getifaddrs(&found) != 0) return std::nullopt;
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(found, &::freeifaddrs);
    std::vector<NetworkAddress> all;
    for (const ifaddrs* entry = found; entry != nullptr; entry = entry->ifa_next) {
        if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_LOOPBACK) != 0) continue;
        if (auto address = addressIn(*entry->ifa_addr)) all.push_back(*address);
    }
    return all;
}

/// Why a name may not lead there; empty if it may.
std::string_view problemOf(const NetworkAddress& address, const std::optional<std::vector<NetworkAddress>>& own) {
    if (const std::string_view what = reservedFor(address); !what.empty()) return what;
    const auto isThat = [&](const NetworkAddress& one) { return isSameMachine(one, address); };
    return !own || std::any_of(own->begin(), own->end(), isThat) ? "own" : "";
}

}  // namespace

/// Everything on the broker's thread, but for the record.
class NetworkBroker::Loop {
  public:
    Loop(std::vector<NetworkRoute> routes, Resolver resolver, FileDescriptor control)
        : routes_(std::move(routes)),
          control_(std::move(control)),
          stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
          questions_(events_, std::move(resolver),
                     [this](std::uint64_t key, NameQuestions::Result result, const std::vector<NetworkAddress>& found) {
                         hearAnswer(key, result, found);
                     }),
          doors_(routes_.size()) {
        if (!stop_) throw Error(ErrorCode::kInfrastructure, "cannot wait for connections: {}", errnoText(errno));
        thread_ = quietThread([this] { run(); });
    }
    ~Loop() {
        ::eventfd_write(stop_.get(), 1);
        thread_.join();
    }
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

    BrokerLog takeLog() { return record_.take(); }

  private:
    struct Ready {
        FileDescriptor outside;
        Steady::time_point since;
        ConnectionSeat seat;
    };
    /// One route's listening socket, who came in and what is ready for him.
    struct Door {
        FileDescriptor listener;
        std::deque<FileDescriptor> waiting;
        std::deque<Ready> ready;
        std::size_t dialling = 0;
        bool shut = false;  ///< for lack of descriptors
    };
    struct Dial {
        std::uint64_t asked = 0;  ///< the jail's number for it; 0: it did not ask
        std::size_t route = 0;
        std::vector<NetworkAddress> addresses{};
        std::size_t next = 0;
        FileDescriptor socket{};
        Steady::time_point until{};
        std::optional<ConnectionSeat> seat{};
    };
    struct Joined {
        Relay relay;
        ConnectionSeat seat;
    };

    void run() {
        events_.watch(stop_.get(), EPOLLIN, [this](std::uint32_t) { running_ = false; });
        events_.watch(control_.get(), EPOLLIN, [this](std::uint32_t) { hearJail(); });
        while (running_) {
            const bool timed = !dials_.empty() || anyDoorWaits();
            events_.wait(timed ? kLookAgainMillis : -1);
            if (timed) lookAgain();
        }
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
            open(route);
        }
    }

    void open(std::size_t route) {
        doors_[route].shut = false;
        events_.watch(doors_[route].listener.get(), EPOLLIN, [this, route](std::uint32_t) { accept(route); });
    }

    // Nobody can be let in, and who knocks would be heard of without end.
    void shut(std::size_t route) {
        doors_[route].shut = true;
        events_.unwatch(doors_[route].listener.get());
    }

    void accept(std::size_t route) {
        Door& door = doors_[route];
        FileDescriptor inside(::accept4(door.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!inside) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) shut(route);
            return;
        }
        door.waiting.push_back(std::move(inside));
        join(route);
        // Each either comes to nothing, which empties the queue, or is under way.
        while (door.waiting.size() > door.dialling) begin(0, route);
    }

    void join(std::size_t route) {
        Door& door = doors_[route];
        while (!door.waiting.empty() && !door.ready.empty()) {
            const std::uint64_t key = ++lastRelay_;
            Ready& ready = door.ready.front();
            Joined joined{Relay(std::move(door.waiting.front()), std::move(ready.outside)), std::move(ready.seat)};
            const Relay& relay = relays_.emplace(key, std::move(joined)).first->second.relay;
            door.waiting.pop_front();
            door.ready.pop_front();
            follow(relay.inside(), EPOLLIN, key);
            follow(relay.outside(), EPOLLIN, key);
        }
    }

    void passOn(std::uint64_t key) {
        const auto found = relays_.find(key);
        if (found == relays_.end()) return;
        Relay& relay = found->second.relay;
        if (!relay.pass()) {
            events_.unwatch(relay.inside());
            events_.unwatch(relay.outside());
            relays_.erase(found);
            return;
        }
        const Relay::Interest interest = relay.interest();
        follow(relay.inside(), interest.inside, key);
        follow(relay.outside(), interest.outside, key);
    }

    // One that is waited for in no way is not watched at all: it would be told as hung up for ever.
    void follow(int fd, std::uint32_t events, std::uint64_t key) {
        if (events == 0) return events_.unwatch(fd);
        if (events_.isWatched(fd)) return events_.change(fd, events);
        events_.watch(fd, events, [this, key](std::uint32_t) { passOn(key); });
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
        if (!full) dial.seat = ConnectionSeat::take();
        ++doors_[route].dialling;
        record_.begun(routes_[route]);
        if (!dial.seat) return fail(key, EMFILE);
        if (const auto& pinned = routes_[route].pinned) {
            if (const auto address = parseAddress(*pinned)) dial.addresses = {*address};
            return connectNext(key, EHOSTUNREACH);
        }
        questions_.ask(key, routes_[route].host);
    }

    void hearAnswer(std::uint64_t key, NameQuestions::Result result, const std::vector<NetworkAddress>& found) {
        if (!dials_.contains(key)) return;
        if (result == NameQuestions::Result::kNoThread) return fail(key, EAGAIN);
        judge(key, found);
    }

    void judge(std::uint64_t key, const std::vector<NetworkAddress>& found) {
        Dial& dial = dials_[key];
        if (found.empty()) {
            record_.refused(routes_[dial.route], "unknown-name", "");
            return fail(key, EHOSTUNREACH);
        }
        const auto own = ownAddresses();
        for (const NetworkAddress& address : found)
            if (problemOf(address, own).empty()) dial.addresses.push_back(address);
        if (!dial.addresses.empty()) return connectNext(key, EHOSTUNREACH);
        record_.refused(routes_[dial.route], fmt::format("{}-address", problemOf(found.front(), own)),
                        formatAddress(found.front()));
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
                events_.watch(dial.socket.get(), EPOLLOUT, [this, key](std::uint32_t) { hearSocket(key); });
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
        events_.unwatch(dial.socket.get());
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
        record_.ended(routes_[dial.route]);
        noteAllowed(dial, true);
        Door& door = doors_[dial.route];
        --door.dialling;
        door.ready.push_back({std::move(dial.socket), Steady::now(), std::move(*dial.seat)});
        answer(dial.asked, 0);
        join(dial.route);
    }

    void fail(std::uint64_t key, int error) {
        questions_.forget(key);
        Dial dial = std::move(dials_[key]);
        dials_.erase(key);
        record_.ended(routes_[dial.route]);
        if (dial.socket) events_.unwatch(dial.socket.get());
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

    bool anyDoorWaits() const {
        return std::any_of(doors_.begin(), doors_.end(),
                           [](const Door& door) { return !door.ready.empty() || door.shut; });
    }

    void lookAgain() {
        const Steady::time_point now = Steady::now();
        std::vector<std::uint64_t> late;
        for (const auto& [key, dial] : dials_)
            if (dial.until <= now) late.push_back(key);
        for (const std::uint64_t key : late) {
            if (dials_[key].socket) noteAllowed(dials_[key], false);
            fail(key, ETIMEDOUT);
        }
        for (std::size_t route = 0; route < doors_.size(); ++route) {
            std::erase_if(doors_[route].ready, [&](const Ready& ready) { return ready.since + kUnclaimed <= now; });
            if (doors_[route].shut) open(route);
        }
    }

    void noteAllowed(const Dial& dial, bool connected) {
        record_.allowed(routes_[dial.route], formatAddress(dial.addresses[dial.next - 1]), connected);
    }

    const std::vector<NetworkRoute> routes_;
    BrokerRecord record_;
    FileDescriptor control_;
    FileDescriptor stop_;
    EventLoop events_;
    NameQuestions questions_;
    std::vector<Door> doors_;
    std::size_t opened_ = 0;
    std::map<std::uint64_t, Dial> dials_;
    std::uint64_t lastDial_ = 0;
    std::map<std::uint64_t, Joined> relays_;
    std::uint64_t lastRelay_ = 0;
    bool running_ = true;
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
