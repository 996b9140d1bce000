#include "plugins/isolation/jail/user_manager.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <string_view>

#include "plugins/isolation/jail/system.h"

namespace gradus {

namespace {

constexpr const char* kStep = "user scope";
constexpr timeval kPatience{2, 0};
constexpr std::size_t kLongestMessage = 1U << 20;
constexpr std::size_t kLongestLine = 1024;
constexpr std::size_t kFixedHeader = 16;

// Kinds of messages, and codes of header fields.
constexpr char kMethodCall = 1;
constexpr char kMethodReturn = 2;
constexpr char kFault = 3;
constexpr char kPath = 1;
constexpr char kInterface = 2;
constexpr char kMember = 3;
constexpr char kReplySerial = 5;
constexpr char kDestination = 6;
constexpr char kSignature = 8;

std::size_t aligned(std::size_t at, std::size_t to) { return (at + to - 1) / to * to; }

std::uint32_t numberAt(std::string_view bytes, std::size_t at) {
    std::uint32_t value = 0;
    if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}

/// Values one after another, each aligned as the protocol wants it. Little-endian, as this machine is.
class Marshal {
  public:
    Marshal& pad(std::size_t to) {
        bytes_.resize(aligned(bytes_.size(), to), '\0');
        return *this;
    }
    Marshal& byte(char value) {
        bytes_ += value;
        return *this;
    }
    Marshal& number(std::uint32_t value) {
        pad(4);
        bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
        return *this;
    }
    Marshal& text(std::string_view value) {
        number(static_cast<std::uint32_t>(value.size()));
        bytes_ += value;
        return byte('\0');
    }
    Marshal& signature(std::string_view value) {
        byte(static_cast<char>(value.size()));
        bytes_ += value;
        return byte('\0');
    }
    /// The elements of an array, which `write` appends; their alignment is not part of its length.
    template <typename Write>
    Marshal& array(std::size_t alignment, Write write) {
        number(0);
        const std::size_t length = bytes_.size() - sizeof(std::uint32_t);
        pad(alignment);
        const std::size_t start = bytes_.size();
        write(*this);
        const auto size = static_cast<std::uint32_t>(bytes_.size() - start);
        std::memcpy(bytes_.data() + length, &size, sizeof size);
        return *this;
    }
    const std::string& bytes() const { return bytes_; }

  private:
    std::string bytes_;
};

struct Call {
    std::string destination;
    std::string path;
    std::string interface;
    std::string member;
    std::string signature;
    std::string body;
};

std::string encode(const Call& call, std::uint32_t serial) {
    Marshal message;
    message.byte('l').byte(kMethodCall).byte(0).byte(1);
    message.number(static_cast<std::uint32_t>(call.body.size())).number(serial);
    const auto field = [](Marshal& all, char code, const char* type, const std::string& value) {
        if (!value.empty()) all.pad(8).byte(code).signature(type).text(value);
    };
    message.array(8, [&](Marshal& all) {
        field(all, kPath, "o", call.path);
        field(all, kInterface, "s", call.interface);
        field(all, kMember, "s", call.member);
        field(all, kDestination, "s", call.destination);
        if (!call.signature.empty()) all.pad(8).byte(kSignature).signature("g").signature(call.signature);
    });
    return message.pad(8).bytes() + call.body;
}

// Which call a message answers; 0: none, or it cannot be read.
std::uint32_t answeredCall(std::string_view header) {
    std::size_t at = kFixedHeader;
    while (at + 4 < header.size()) {
        at = aligned(at, 8);
        if (at + 4 >= header.size()) return 0;
        const char code = header[at];
        const char type = header[at + 1] == 1 ? header[at + 2] : '\0';
        at += 4;
        if (type == 'u') {
            at = aligned(at, 4);
            if (code == kReplySerial) return numberAt(header, at);
            at += 4;
        } else if (type == 's' || type == 'o') {
            at = aligned(at, 4);
            at += std::size_t{4} + numberAt(header, at) + 1;
        } else if (type == 'g' && at < header.size()) {
            at += static_cast<unsigned char>(header[at]) + std::size_t{2};
        } else {
            return 0;
        }
    }
    return 0;
}

/// One conversation with a bus, or with a manager that needs none between.
class Bus {
  public:
    Attempt open(const std::string& path) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        if (path.size() >= sizeof address.sun_path) return failure(kStep, path, ENAMETOOLONG);
        std::memcpy(address.sun_path, path.data(), path.size());
        socket_ = Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
        ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
        if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
            return failure(kStep, "cannot reach " + path);
        return introduce();
    }

    Attempt call(const Call& call) {
        if (!send(encode(call, ++serial_))) return failure(kStep, call.member);
        while (true) {
            std::string header(kFixedHeader, '\0');
            if (!receive(header)) return failure(kStep, call.member + " was not answered");
            const std::size_t bodySize = numberAt(header, 4);
            const std::size_t fields = aligned(numberAt(header, 12), 8);
            if (header[0] != 'l' || bodySize > kLongestMessage || fields > kLongestMessage)
                return failure(kStep, "an answer that cannot be read", EPROTO);
            std::string rest(fields + bodySize, '\0');
            if (!receive(rest)) return failure(kStep, call.member + " was not answered");
            header += rest.substr(0, fields);
            if (answeredCall(header) != serial_) continue;  // a signal, or news for others
            if (header[1] == kMethodReturn) return std::nullopt;
            if (header[1] == kFault) return failure(kStep, call.member + " was refused: " + firstText(rest, fields), 0);
        }
    }

  private:
    // The kernel tells the other side who we are; the name is only our claim of it.
    Attempt introduce() {
        std::string hex;
        for (const char digit : std::to_string(::geteuid())) {
            hex += '3';
            hex += digit;
        }
        if (!send(std::string(1, '\0') + "AUTH EXTERNAL " + hex + "\r\n")) return failure(kStep, "introduction");
        std::string line;
        while (!line.ends_with("\r\n") && line.size() < kLongestLine) {
            std::string letter(1, '\0');
            if (!receive(letter)) return failure(kStep, "introduction");
            line += letter;
        }
        if (!line.starts_with("OK ")) return failure(kStep, "we are not let in", EACCES);
        return send("BEGIN\r\n") ? Attempt() : failure(kStep, "introduction");
    }

    static std::string firstText(const std::string& rest, std::size_t at) {
        const std::size_t length = numberAt(rest, at);
        if (at + 4 + length > rest.size()) return "no reason given";
        return rest.substr(at + 4, length);
    }

    bool send(std::string_view bytes) const {
        while (!bytes.empty()) {
            const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (sent < 0 && errno == EINTR) continue;
            if (sent <= 0) return false;
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        }
        return true;
    }

    bool receive(std::string& into) const {
        for (std::size_t had = 0; had < into.size();) {
            const ssize_t got = ::recv(socket_.get(), into.data() + had, into.size() - had, 0);
            if (got < 0 && errno == EINTR) continue;
            if (got == 0) errno = ECONNRESET;
            if (got <= 0) return false;
            had += static_cast<std::size_t>(got);
        }
        return true;
    }

    Descriptor socket_;
    std::uint32_t serial_ = 0;
};

std::string scopeRequest(const std::string& scope, pid_t pid) {
    const auto property = [](Marshal& all, std::string_view name, const char* type) -> Marshal& {
        return all.pad(8).text(name).signature(type);
    };
    Marshal body;
    body.text(scope).text("fail");
    body.array(8, [&](Marshal& all) {
        property(all, "Description", "s").text("Gradus sandbox");
        property(all, "Delegate", "b").number(1);
        property(all, "CollectMode", "s").text("inactive-or-failed");
        property(all, "PIDs", "au").array(4, [&](Marshal& pids) { pids.number(static_cast<std::uint32_t>(pid)); });
    });
    body.array(8, [](Marshal&) {});  // no further units
    return body.bytes();
}

}  // namespace

Attempt SystemdUserManager::startScope(const std::string& scope, pid_t pid) {
    Bus bus;
    if (auto failed = bus.open(socket_)) return failed;
    const bool direct = socket_.ends_with("/private");
    if (!direct)
        if (auto failed =
                bus.call({"org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "Hello", "", ""}))
            return failed;
    return bus.call({direct ? "" : "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
                     "org.freedesktop.systemd1.Manager", "StartTransientUnit", "ssa(sv)a(sa(sv))",
                     scopeRequest(scope, pid)});
}

}  // namespace gradus
