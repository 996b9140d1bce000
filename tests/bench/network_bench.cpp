// What a connection costs: from the host, and from a sandbox to itself, to a listed name, and where it is refused.
// Medians of interleaved rounds.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <thread>

#include "plugins/isolation/namespaces.h"
#include "tests/bench/report.h"
#include "tests/support/scratch.h"

namespace gradus::bench {

namespace {

constexpr int kRounds = 7;
constexpr const char* kConnections = "300";
constexpr const char* kNowhere = "192.0.2.7";
constexpr const char* kFirstName = "198.18.0.1";

/// Accepts and closes, on the loopback.
class Closer {
  public:
    Closer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof address;
        if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
            ::listen(listener_.get(), 512) != 0)
            throw Error(ErrorCode::kInfrastructure, "cannot listen: {}", errnoText(errno));
        ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length);
        port_ = ntohs(address.sin_port);
        thread_ = std::thread([this] {
            while (FileDescriptor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC))) continue;
        });
    }
    ~Closer() {
        ::shutdown(listener_.get(), SHUT_RDWR);
        thread_.join();
    }
    Closer(const Closer&) = delete;
    Closer& operator=(const Closer&) = delete;
    std::uint16_t port() const { return port_; }

  private:
    FileDescriptor listener_;
    std::uint16_t port_ = 0;
    std::thread thread_;
};

double connectsIn(Sandbox& sandbox, const std::string& address, std::uint16_t port) {
    Command command;
    command.arguments = {"/run/guest", "connects", address, std::to_string(port), kConnections};
    const Outcome outcome = sandbox.run(command);
    if (outcome.verdict != Verdict::kOk) throw Error(ErrorCode::kInfrastructure, "{}", outcome.err.text());
    return std::stod(outcome.out.text());
}

}  // namespace

void benchNetwork(const std::string& jail) {
    const SystemClock clock;
    const Closer server;
    NamespacesConfig config;
    config.jail = jail;
    NamespacesBackend backend(config, clock);
    Workspace workspace;
    workspace.binds.push_back({GRADUS_GUEST, "/run/guest", false});
    const Identity self{::geteuid(), ::getegid()};
    const auto host = backend.open(workspace, {}, Network::kHost, self);
    const auto none = backend.open(workspace, {}, Network::kNone, self);
    const auto byName = backend.open(workspace, {}, Network::byName({{"svc.test", server.port(), "127.0.0.1"}}), self);
    std::map<std::string, std::vector<double>> times;
    for (int round = 0; round < kRounds; ++round) {
        times["plain"].push_back(connectsIn(*host, "127.0.0.1", server.port()));
        times["own"].push_back(connectsIn(*none, "127.0.0.1", 9));
        times["refused"].push_back(connectsIn(*none, kNowhere, 80));
        times["allowed"].push_back(connectsIn(*byName, kFirstName, server.port()));
    }
    const double plain = median(times["plain"]);
    const auto text = [&](const char* what) { return fmt::format("{:.1f} us", median(times[what])); };
    note("connect, host's network: to the loopback", text("plain"));
    note("  no network: to its own loopback, where nobody listens", text("own"));
    row("  no network: refused, counted", text("refused"), "<= 60 us", median(times["refused"]) <= 60);
    row("  network by name: to a listed name",
        fmt::format("{}, +{:.0f} us", text("allowed"), median(times["allowed"]) - plain), "<= +500 us",
        median(times["allowed"]) - plain <= 500);
}

}  // namespace gradus::bench
