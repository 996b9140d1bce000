#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "store/file.h"

namespace gradus::test {

/// A server of the test's own, on the loopback and a port of the kernel's choice; every connection has a thread.
class LoopbackServer {
  public:
    using Serve = std::function<void(int socket)>;

    explicit LoopbackServer(Serve serve, const char* address = "127.0.0.1")
        : serve_(std::move(serve)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in place{};
        place.sin_family = AF_INET;
        ::inet_pton(AF_INET, address, &place.sin_addr);
        socklen_t size = sizeof place;
        EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&place), size), 0);
        EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&place), &size), 0);
        EXPECT_EQ(::listen(listener_.get(), 128), 0);
        port_ = ntohs(place.sin_port);
        thread_ = std::thread([this] { run(); });
    }
    ~LoopbackServer() {
        ::shutdown(listener_.get(), SHUT_RDWR);
        thread_.join();
        const std::lock_guard<std::mutex> lock(mutex_);
        for (std::thread& one : threads_) one.join();
    }
    LoopbackServer(const LoopbackServer&) = delete;
    LoopbackServer& operator=(const LoopbackServer&) = delete;

    std::uint16_t port() const { return port_; }
    int served() const { return served_; }

  private:
    void run() {
        while (true) {
            FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
            if (!socket) return;
            ++served_;
            const std::lock_guard<std::mutex> lock(mutex_);
            threads_.emplace_back([this, socket = std::move(socket)] { serve_(socket.get()); });
        }
    }

    Serve serve_;
    FileDescriptor listener_;
    std::uint16_t port_ = 0;
    std::atomic<int> served_ = 0;
    std::thread thread_;
    std::mutex mutex_;
    std::vector<std::thread> threads_;
};

inline void sendAll(int socket, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t put = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (put <= 0) return;
        bytes.remove_prefix(static_cast<std::size_t>(put));
    }
}

/// Up to the empty line; empty if the other end said nothing.
inline std::string requestOn(int socket) {
    std::string request;
    char buffer[4096];
    while (request.find("\r\n\r\n") == std::string::npos) {
        const ssize_t got = ::recv(socket, buffer, sizeof buffer, 0);
        if (got <= 0) break;
        request.append(buffer, static_cast<std::size_t>(got));
    }
    return request;
}

/// Files below `root`, as a plain web server gives them; "hello\n" for "/".
inline LoopbackServer::Serve webServer(std::filesystem::path root = {}) {
    return [root = std::move(root)](int socket) {
        const std::string request = requestOn(socket);
        if (request.empty()) return;
        std::string path = request.substr(request.find(' ') + 1);
        path = path.substr(0, path.find_first_of(" ?"));
        std::string body = "hello\n";
        const char* status = "200 OK";
        if (path != "/") {
            std::ifstream file(root.native() + path, std::ios::binary);
            body.assign(std::istreambuf_iterator<char>(file), {});
            if (!file.is_open() || root.empty()) status = "404 Not Found";
        }
        sendAll(socket, std::string("HTTP/1.1 ") + status + "\r\nContent-Type: text/plain\r\nContent-Length: " +
                            std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body);
        ::shutdown(socket, SHUT_WR);
        char rest[512];
        while (::recv(socket, rest, sizeof rest, 0) > 0) continue;
    };
}

/// Says back what it hears, to the end.
inline void echo(int socket) {
    char buffer[65536];
    for (ssize_t got = 0; (got = ::recv(socket, buffer, sizeof buffer, 0)) > 0;)
        sendAll(socket, {buffer, static_cast<std::size_t>(got)});
    ::shutdown(socket, SHUT_WR);
}

}  // namespace gradus::test
