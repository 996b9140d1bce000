#pragma once

#include <condition_variable>
#include <map>
#include <mutex>

#include "tests/plugins/sandbox_fixture.h"
#include "tests/support/loopback_server.h"

namespace gradus {

/// What names stand for in a test; counts how often each was asked for.
class Names {
  public:
    void set(const std::string& host, std::vector<std::string> addresses) {
        const std::lock_guard<std::mutex> lock(mutex_);
        answers_[host] = std::move(addresses);
    }
    int asked(const std::string& host) {
        const std::lock_guard<std::mutex> lock(mutex_);
        return asked_[host];
    }
    std::vector<NetworkAddress> resolve(const std::string& host) {
        std::unique_lock<std::mutex> lock(mutex_);
        ++asked_[host];
        if (host == "never.test") never_.wait_for(lock, std::chrono::seconds(20), [this] { return over_; });
        std::vector<NetworkAddress> found;
        for (const std::string& address : answers_[host]) found.push_back(*parseAddress(address));
        return found;
    }
    void end() {
        const std::lock_guard<std::mutex> lock(mutex_);
        over_ = true;
        never_.notify_all();
    }

  private:
    std::mutex mutex_;
    std::condition_variable never_;
    bool over_ = false;
    std::map<std::string, std::vector<std::string>> answers_;
    std::map<std::string, int> asked_;
};

/// Sandboxes with a network by name. Servers are the test's own, on the loopback or in a network namespace that it
/// makes.
class NetworkByName : public SandboxTest {
  protected:
    void SetUp() override {
        SandboxTest::SetUp();
        NamespacesConfig config;
        config.jail = GRADUS_JAIL;
        config.resolver = [names = names_](const std::string& host) { return names->resolve(host); };
        backend_ = std::make_unique<NamespacesBackend>(config, clock_);
    }
    void TearDown() override {
        backend_.reset();
        names_->end();
        for (int i = 0; i < 400 && names_.use_count() > 1; ++i) ::usleep(10'000);  // resolver threads
        ::usleep(20'000);
        SandboxTest::TearDown();
    }

    Outcome runIn(const std::vector<std::string>& destinations, const Command& command, const Limits& limits = {}) {
        const HostProject project(someone());
        Limits bounded = limits;
        if (!bounded[LimitName::kWallTime]) bounded[LimitName::kWallTime] = Limit{40'000, true};
        std::vector<Destination> all;
        for (const std::string& text : destinations) all.push_back(parseDestination(text));
        return backend_->open(workspaceOf(project), bounded, Network::byName(all), someone())->run(command);
    }
    Outcome shellIn(const std::vector<std::string>& destinations, const std::string& script,
                    const Limits& limits = {}) {
        return runIn(destinations, shell(script), limits);
    }
    Outcome pythonIn(const std::vector<std::string>& destinations, const std::string& program,
                     const Limits& limits = {}) {
        Command command = shell("");
        command.arguments = {"/usr/bin/python3", "-c", "import socket, sys\n" + program};
        return runIn(destinations, command, limits);
    }
    static std::string at(const test::LoopbackServer& server) {
        return "svc.test:" + std::to_string(server.port()) + "=127.0.0.1";
    }

    SystemClock clock_;
    std::shared_ptr<Names> names_ = std::make_shared<Names>();  // with resolver threads, which may outlive a test
    std::unique_ptr<NamespacesBackend> backend_;
};

inline std::vector<std::string> deniedBy(const Outcome& outcome) {
    std::vector<std::string> all;
    for (const RefusedConnection& one : outcome.sideEffects.networkDenied)
        all.push_back(fmt::format("{} {}:{} {} x{}", one.protocol, one.host, one.port, one.reason, one.attempts));
    return all;
}

}  // namespace gradus
