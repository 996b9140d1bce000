// The http kind against a server of the test's own on the loopback: right, wrong, slow, silent, gone.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "plugins/checks/builtin.h"
#include "store/file.h"

namespace gradus {
namespace {

using namespace std::chrono_literals;

/// Listens on a port of the kernel's choice; what it does with connection number n is the test's to say.
class Server {
  public:
    using Serve = std::function<void(int socket, int number)>;

    explicit Server(Serve serve)
        : serve_(std::move(serve)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
        EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
        EXPECT_EQ(::listen(listener_.get(), 16), 0);
        port_ = ntohs(address.sin_port);
        thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    }
    ~Server() {
        thread_.request_stop();
        ::shutdown(listener_.get(), SHUT_RDWR);
    }
    std::string url(const std::string& path = "/") const { return "http://127.0.0.1:" + std::to_string(port_) + path; }
    int served() const { return served_; }

  private:
    void run(const std::stop_token& stop) {
        while (!stop.stop_requested()) {
            const FileDescriptor socket(::accept(listener_.get(), nullptr, nullptr));
            if (!socket) return;
            serve_(socket.get(), ++served_);
        }
    }

    Serve serve_;
    FileDescriptor listener_;
    int port_ = 0;
    std::atomic<int> served_ = 0;
    std::jthread thread_;
};

std::string requestOn(int socket) {
    std::string request;
    char buffer[1024];
    while (request.find("\r\n\r\n") == std::string::npos) {
        const ssize_t got = ::recv(socket, buffer, sizeof buffer, 0);
        if (got <= 0) break;
        request.append(buffer, static_cast<std::size_t>(got));
    }
    return request;
}

void say(int socket, const std::string& text) { ::send(socket, text.data(), text.size(), MSG_NOSIGNAL); }

void answer(int socket, int status, const std::string& more = "") {
    requestOn(socket);
    say(socket, "HTTP/1.1 " + std::to_string(status) + " Word\r\nContent-Length: 0\r\n" + more + "\r\n");
}

/// Waits until the other side has gone.
void holdOpen(int socket) {
    char byte = 0;
    while (::recv(socket, &byte, 1, 0) > 0) continue;
}

Value number(ValueType type, std::int64_t value) {
    Value made;
    made.type = type;
    made.number = value;
    return made;
}

class HttpCheckTest : public ::testing::Test {
  protected:
    CheckAnswer ask(const std::string& url, Milliseconds timeout, std::int64_t inARow = 1,
                    const std::vector<int>& expected = {200}) {
        Value address;
        address.text = url;
        Value status;
        for (const int one : expected) status.items.push_back(number(ValueType::kCount, one));
        check_.settings.set("http", address);
        check_.settings.set("expect-status", status);
        check_.settings.set("timeout", number(ValueType::kDuration, timeout.count()));
        check_.settings.set("interval", number(ValueType::kDuration, 10));
        check_.settings.set("consecutive-success", number(ValueType::kCount, inARow));
        return httpCheck()->run({.check = check_, .confined = {}, .onHost = {}, .cancel = cancel_.get_token()});
    }

    Check check_{"health", "http", CheckWhen::kAfter, {}, {}};
    std::stop_source cancel_;
};

TEST_F(HttpCheckTest, ARightAnswerIsAYes) {
    std::string request;
    const Server server([&](int socket, int) {
        request = requestOn(socket);
        say(socket, "HTTP/1.1 200 OK\r\n\r\n");
    });
    const CheckAnswer yes = ask(server.url("/healthz?full=1"), 10s);
    EXPECT_EQ(yes.verdict, Cause::kPassed);
    EXPECT_EQ(yes.reason, "status 200, 1 in a row");
    EXPECT_TRUE(request.starts_with("GET /healthz?full=1 HTTP/1.1\r\n")) << request;
    EXPECT_NE(request.find("\r\nHost: 127.0.0.1:"), std::string::npos) << request;
}

TEST_F(HttpCheckTest, WaitsForAServiceThatComesUp) {
    const Server server([](int socket, int n) { answer(socket, n < 4 ? 503 : 200); });
    const CheckAnswer yes = ask(server.url(), 20s);
    EXPECT_EQ(yes.verdict, Cause::kPassed);
    EXPECT_EQ(yes.log, "attempt 1: status 503\nattempt 4: status 200\n");
}

TEST_F(HttpCheckTest, CountsOnlyAnswersInARow) {
    const Server server([](int socket, int n) { answer(socket, n == 3 ? 500 : 200); });
    EXPECT_EQ(ask(server.url(), 20s, 3).verdict, Cause::kPassed);
    EXPECT_EQ(server.served(), 6) << "two, then a wrong one, then three";
}

TEST_F(HttpCheckTest, AWrongAnswerAllTheTimeIsANo) {
    const Server server([](int socket, int) { answer(socket, 500); });
    const CheckAnswer no = ask(server.url(), 150ms);
    EXPECT_EQ(no.verdict, Cause::kFailed);
    EXPECT_TRUE(no.reason.starts_with("status 500, ")) << no.reason;
    EXPECT_TRUE(no.reason.ends_with(" attempts in 150ms")) << no.reason;
}

TEST_F(HttpCheckTest, NobodyListeningIsANo) {
    std::string url;
    {
        url = Server([](int, int) {}).url();
    }
    const CheckAnswer no = ask(url, 150ms);
    EXPECT_EQ(no.verdict, Cause::kFailed);
    EXPECT_TRUE(no.reason.starts_with("connection refused, ")) << no.reason;
}

TEST_F(HttpCheckTest, SilenceIsANo) {
    const Server server([](int socket, int) { holdOpen(socket); });
    const CheckAnswer no = ask(server.url(), 200ms);
    EXPECT_EQ(no.verdict, Cause::kFailed);
    EXPECT_TRUE(no.reason.starts_with("no answer in time, ")) << no.reason;
}

TEST_F(HttpCheckTest, AnAnswerThatDripsDoesNotHoldUs) {
    const Server server([](int socket, int) {
        say(socket, "HTTP/1.1 200 OK\r\n");
        pollfd gone{socket, POLLRDHUP, 0};
        // A field that never ends, a byte at a time: more often than any timeout between two bytes.
        for (int i = 0; i < 2000 && ::poll(&gone, 1, 5) == 0; ++i) say(socket, "x");
    });
    const auto before = std::chrono::steady_clock::now();
    EXPECT_EQ(ask(server.url(), 300ms).verdict, Cause::kFailed);
    EXPECT_LT(std::chrono::steady_clock::now() - before, 8s);
}

TEST_F(HttpCheckTest, WhatIsNoHttpIsANo) {
    const Server closing([](int socket, int) { requestOn(socket); });
    EXPECT_TRUE(ask(closing.url(), 100ms).reason.starts_with("no HTTP: "));
    const Server talking([](int socket, int) { say(socket, "220 mail.example ESMTP\r\n"); });
    const CheckAnswer no = ask(talking.url(), 100ms);
    EXPECT_EQ(no.verdict, Cause::kFailed);
    EXPECT_TRUE(no.reason.starts_with("no HTTP: ")) << no.reason;
}

TEST_F(HttpCheckTest, FollowsNoRedirect) {
    const Server server([](int socket, int) { answer(socket, 302, "Location: http://127.0.0.1:1/\r\n"); });
    EXPECT_TRUE(ask(server.url(), 100ms).reason.starts_with("status 302, "));
    EXPECT_EQ(ask(server.url(), 10s, 1, {301, 302}).verdict, Cause::kPassed);
}

TEST_F(HttpCheckTest, RightAnswersThatAreTooFewAreTimedOut) {
    const Server server([](int socket, int) { answer(socket, 200); });
    const CheckAnswer late = ask(server.url(), 150ms, 1000);
    EXPECT_EQ(late.verdict, Cause::kTimedOut) << late.reason;
}

TEST_F(HttpCheckTest, ANameThatMeansNothingIsNotANo) {
    const CheckAnswer unknown = ask("http://no-such-host.invalid/", 100ms);
    EXPECT_EQ(unknown.verdict, Cause::kErrored) << unknown.reason;
    EXPECT_TRUE(unknown.reason.starts_with("could not ask: ")) << unknown.reason;
}

TEST_F(HttpCheckTest, ACertificateThatNobodyVouchesForIsANo) {
    const Server server([](int socket, int) { requestOn(socket); });
    const CheckAnswer no = ask("https" + server.url().substr(4), 300ms);
    EXPECT_EQ(no.verdict, Cause::kFailed) << no.reason;
}

TEST_F(HttpCheckTest, EndsWhenCancelledHoweverTheServiceIs) {
    const Server server([this](int socket, int) {
        cancel_.request_stop();
        holdOpen(socket);
    });
    EXPECT_EQ(ask(server.url(), 60s).verdict, Cause::kCancelled);
}

}  // namespace
}  // namespace gradus
