// The module gradus-http.so: everything of the program that needs a network library.
#include "plugins/checks/http_client.h"

#include <Poco/Exception.h>
#include <Poco/Net/Context.h>
#include <Poco/Net/HTTPClientSession.h>
#include <Poco/Net/HTTPRequest.h>
#include <Poco/Net/HTTPResponse.h>
#include <Poco/Net/HTTPSClientSession.h>
#include <Poco/Net/NetException.h>
#include <Poco/Net/SSLException.h>
#include <Poco/Net/SecureStreamSocket.h>
#include <Poco/Net/SocketAddress.h>
#include <Poco/Net/StreamSocket.h>
#include <Poco/Net/StreamSocketImpl.h>
#include <Poco/Timespan.h>
#include <Poco/URI.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace gradus {

namespace {

namespace net = Poco::Net;
using Kind = HttpReply::Kind;

constexpr int kMostFields = 100;
constexpr int kLongestChain = 9;

net::SecureStreamSocket secureSocket(const std::string& host) {
    net::Context::Params params;
    params.verificationMode = net::Context::VERIFY_STRICT;
    params.verificationDepth = kLongestChain;
    params.loadDefaultCAs = true;
    net::Context::Ptr context(new net::Context(net::Context::TLS_CLIENT_USE, params));
    context->enableExtendedCertificateVerification(true);
    net::SecureStreamSocket socket(context);
    socket.setPeerHostName(host);
    socket.setLazyHandshake(true);
    return socket;
}

/// Ends the conversation when the time is up or the token says so: a socket's own timeout starts anew with every byte.
class Watchdog {
  public:
    Watchdog(int socket, Milliseconds timeout, const std::stop_token& cancel)
        : thread_([this, socket, timeout, cancel](const std::stop_token& done) {
              std::unique_lock lock(mutex_);
              const std::stop_callback wake(cancel, [this] { changed_.notify_all(); });
              changed_.wait_for(lock, done, timeout, [&] { return cancel.stop_requested(); });
              if (done.stop_requested()) return;
              bit_ = true;
              ::shutdown(socket, SHUT_RDWR);
          }) {}
    bool hasBitten() {
        thread_.request_stop();
        if (thread_.joinable()) thread_.join();
        return bit_;
    }

  private:
    std::mutex mutex_;
    std::condition_variable_any changed_;
    bool bit_ = false;
    std::jthread thread_;
};

Kind kindOf(const Poco::Exception& fault) {
    if (dynamic_cast<const net::ConnectionRefusedException*>(&fault) != nullptr) return Kind::kRefused;
    if (dynamic_cast<const Poco::TimeoutException*>(&fault) != nullptr) return Kind::kSilent;
    if (dynamic_cast<const net::SSLException*>(&fault) != nullptr) return Kind::kUntrusted;
    if (dynamic_cast<const net::DNSException*>(&fault) != nullptr) return Kind::kNotAsked;
    const int code = fault.code();
    const bool isOurs = code == ENETUNREACH || code == EHOSTUNREACH || code == EMFILE || code == ENFILE;
    return isOurs ? Kind::kNotAsked : Kind::kGarbled;
}

HttpReply exchange(net::HTTPClientSession& session, const Poco::URI& address) {
    const std::string path = address.getPathAndQuery();
    net::HTTPRequest request(net::HTTPRequest::HTTP_GET, path.empty() ? "/" : path, net::HTTPMessage::HTTP_1_1);
    request.setHost(address.getHost(), address.getPort());
    request.set("User-Agent", "gradus");
    request.set("Accept", "*/*");
    session.setKeepAlive(false);
    session.sendRequest(request);
    net::HTTPResponse response;
    response.setFieldLimit(kMostFields);
    session.receiveResponse(response);
    // The body is nobody's business here: the connection goes before it is read.
    return {Kind::kAnswered, response.getStatus(), {}};
}

template <typename Session, typename Socket>
HttpReply converse(Socket socket, const Poco::URI& address, const HttpQuestion& question) {
    const Poco::Timespan most(Poco::Timespan::TimeDiff{question.timeout.count()} * 1000);
    const auto started = std::chrono::steady_clock::now();
    socket.connect(net::SocketAddress(address.getHost(), address.getPort()), most);
    socket.setSendTimeout(most);
    socket.setReceiveTimeout(most);
    Session session(socket);
    const auto spent = std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - started);
    Watchdog watchdog(socket.impl()->sockfd(), question.timeout - spent, question.cancel);
    try {
        return exchange(session, address);
    } catch (const Poco::Exception& fault) {
        if (watchdog.hasBitten()) return {Kind::kSilent, 0, {}};
        return {kindOf(fault), 0, fault.displayText()};
    }
}

HttpReply ask(const HttpQuestion& question) {
    const Poco::URI address(question.address);
    if (address.getScheme() == "https")
        return converse<net::HTTPSClientSession>(secureSocket(address.getHost()), address, question);
    return converse<net::HTTPClientSession>(net::StreamSocket(), address, question);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void gradusHttpAsk(const HttpQuestion& question, HttpReply& reply);

void gradusHttpAsk(const HttpQuestion& question, HttpReply& reply) {
    try {
        reply = ask(question);
    } catch (const Poco::Exception& fault) {
        reply = {kindOf(fault), 0, fault.displayText()};
    } catch (const std::exception& fault) {
        reply = {Kind::kNotAsked, 0, fault.what()};
    }
}

}  // namespace gradus
