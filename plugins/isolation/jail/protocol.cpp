#include "plugins/isolation/jail/protocol.h"

#include <concepts>
#include <limits>
#include <type_traits>

namespace gradus {

namespace {

constexpr std::uint32_t kTextCap = 1U << 20;
constexpr std::uint32_t kListCap = 65536;

template <typename Message, typename Type>
concept Is = std::same_as<std::remove_const_t<Message>, Type>;

/// A number for which more than this is a fault.
template <typename Number>
struct AtMost {
    Number& number;
    std::uint64_t cap;
};
template <typename Number>
AtMost<Number> atMost(Number& number, std::uint64_t cap) {
    return {number, cap};
}

// What a message consists of, in its order on the wire: said once, for who writes it and for who reads it.

void fields(auto& visit, Is<Limit> auto& limit) { visit(limit.value, limit.required); }

void fields(auto& visit, Is<Limits> auto& limits) {
    for (std::size_t i = 0; i < kLimitNames.size(); ++i) visit(limits[static_cast<LimitName>(i)]);
}

void fields(auto& visit, Is<JailOverlay> auto& overlay) {
    visit(overlay.target, overlay.lowers, overlay.upper, overlay.work, overlay.disposable);
}

void fields(auto& visit, Is<JailBind> auto& bind) { visit(bind.source, bind.target, bind.optional); }

void fields(auto& visit, Is<JailPrivate> auto& directory) { visit(directory.target, atMost(directory.mode, 07777)); }

void fields(auto& visit, Is<JailFile> auto& file) { visit(file.target, file.content, atMost(file.mode, 0777)); }

void fields(auto& visit, Is<JailImage> auto& image) { visit(image.file, image.at, image.readOnly); }

void fields(auto& visit, Is<JailRange> auto& range) { visit(range.first, range.count); }

void fields(auto& visit, Is<JailRoute> auto& route) { visit(route.address, atMost(route.port, 0xffff)); }

void fields(auto& visit, Is<JailSetup> auto& setup) {
    visit(setup.uid, setup.gid, setup.system, setup.fuseProgram, setup.subordinateUsers, setup.subordinateGroups);
    visit(setup.bare, setup.hostNetwork, setup.diskBacked, setup.hostname, setup.cgroupRoot, setup.userManager);
    visit(setup.overlays, setup.binds, setup.privates, setup.files, setup.seeds, setup.images);
    visit(setup.hidden, setup.alwaysHidden, setup.deniedCalls, setup.projectPlaces, setup.routes, setup.limits);
}

void fields(auto& visit, Is<JailRun> auto& run) {
    visit(run.program, run.arguments, run.environment, run.directory, run.graceMillis, atMost(run.umask, 0777));
    visit(run.terminal, atMost(run.rows, 0xffff), atMost(run.columns, 0xffff));
}

void fields(auto& visit, Is<JailReady> auto& ready) { visit(ready.enforcers, ready.landlockAbi, ready.shortfall); }

void fields(auto& visit, Is<JailStarted> auto& started) { visit(started.initPid, started.namespaces); }

void fields(auto& visit, Is<JailRefusal> auto& refusal) {
    visit(refusal.datagram, refusal.address, atMost(refusal.port, 0xffff), refusal.count, refusal.exact);
}

void fields(auto& visit, Is<JailDeniedCall> auto& call) { visit(call.number, call.count, call.exact); }

void fields(auto& visit, Is<JailEffects> auto& effects) {
    visit(effects.callsSeen, effects.connectionsSeen, effects.refusals, effects.otherRefusals, effects.deniedCalls);
    visit(effects.leftovers, effects.writes, effects.moreWrites);
}

void fields(auto& visit, Is<JailEnded> auto& ended) {
    visit(ended.end, ended.exited, ended.signalled, atMost(ended.status, 255), ended.wallNanos, ended.cpuNanos);
    visit(ended.memoryPeak, ended.leftBehind, ended.oom, ended.peaks, ended.tripped, ended.effects);
}

void fields(auto& visit, Is<Failure> auto& failed) { visit(failed.step, atMost(failed.error, 4096), failed.detail); }

void fields(auto& visit, Is<JailDial> auto& dial) { visit(dial.id, atMost(dial.route, kMostRoutes - 1)); }

void fields(auto& visit, Is<JailDialed> auto& dialed) { visit(dialed.id, atMost(dialed.error, 4096)); }

constexpr std::uint64_t highest(Enforcer) { return kEnforcerNames.size() - 1; }
constexpr std::uint64_t highest(JailEnd) { return static_cast<std::uint64_t>(JailEnd::kLost); }

class Writer {
  public:
    template <typename... Fields>
    void operator()(const Fields&... all) {
        (put(all), ...);
    }
    std::string take() { return std::move(bytes_); }

  private:
    void put(bool value) { bytes_ += value ? '\1' : '\0'; }
    void put(std::uint64_t value) {
        for (unsigned i = 0; i < 8; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
    }
    void put(std::uint32_t value) { put(std::uint64_t{value}); }
    template <typename Number>
    void put(const AtMost<Number>& capped) {
        put(static_cast<std::uint64_t>(capped.number));
    }
    void put(const std::string& text) {
        put(std::uint64_t{text.size()});
        bytes_ += text;
    }
    template <typename Element>
    void put(const std::vector<Element>& list) {
        put(std::uint64_t{list.size()});
        for (const Element& element : list) put(element);
    }
    template <typename Element, std::size_t kCount>
    void put(const std::array<Element, kCount>& all) {
        for (const Element& element : all) put(element);
    }
    template <typename Value>
    void put(const std::optional<Value>& value) {
        put(value.has_value());
        if (value) put(*value);
    }
    template <typename Value>
    void put(const Value& value) {
        if constexpr (std::is_enum_v<Value>)
            put(static_cast<std::uint64_t>(value));
        else
            fields(*this, value);
    }

    std::string bytes_;
};

/// Reads what Writer wrote. After the first fault everything reads as empty, and nothing comes of it.
class Reader {
  public:
    explicit Reader(std::string_view bytes) : rest_(bytes) {}

    template <typename... Fields>
    void operator()(Fields&&... all) {
        (get(all), ...);
    }
    bool finished() const { return ok_ && rest_.empty(); }

  private:
    std::uint64_t number(std::uint64_t cap) {
        const std::string_view raw = take(8);
        std::uint64_t value = 0;
        for (std::size_t i = 0; i < raw.size(); ++i)
            value |= static_cast<std::uint64_t>(static_cast<unsigned char>(raw[i])) << (8 * i);
        if (value > cap) ok_ = false;
        return ok_ ? value : 0;
    }
    void get(bool& value) {
        const std::string_view raw = take(1);
        if (ok_ && raw[0] != '\0' && raw[0] != '\1') ok_ = false;
        value = ok_ && raw[0] == '\1';
    }
    void get(std::uint64_t& value) { value = number(std::numeric_limits<std::uint64_t>::max()); }
    void get(std::uint32_t& value) {
        value = static_cast<std::uint32_t>(number(std::numeric_limits<std::uint32_t>::max()));
    }
    template <typename Number>
    void get(AtMost<Number>& capped) {
        capped.number = static_cast<Number>(number(capped.cap));
    }
    void get(std::string& text) {
        const std::string_view raw = take(number(kTextCap));
        // Every text becomes a C string on its way to the kernel: a NUL would cut it short there.
        if (raw.find('\0') != std::string_view::npos) ok_ = false;
        if (ok_) text = raw;
    }
    template <typename Element>
    void get(std::vector<Element>& list) {
        const std::uint64_t count = number(kListCap);
        for (std::uint64_t i = 0; i < count && ok_; ++i) get(list.emplace_back());
    }
    template <typename Element, std::size_t kCount>
    void get(std::array<Element, kCount>& all) {
        for (Element& element : all) get(element);
    }
    template <typename Value>
    void get(std::optional<Value>& value) {
        bool isThere = false;
        get(isThere);
        if (isThere) get(value.emplace());
    }
    template <typename Value>
    void get(Value& value) {
        if constexpr (std::is_enum_v<Value>)
            value = static_cast<Value>(number(highest(value)));
        else
            fields(*this, value);
    }

    std::string_view take(std::size_t count) {
        if (!ok_ || count > rest_.size()) {
            ok_ = false;
            return {};
        }
        const std::string_view taken = rest_.substr(0, count);
        rest_.remove_prefix(count);
        return taken;
    }

    std::string_view rest_;
    bool ok_ = true;
};

template <typename Message>
std::string written(const Message& message) {
    Writer writer;
    writer(message);
    return writer.take();
}

template <typename Message>
std::optional<Message> read(std::string_view body) {
    Reader reader(body);
    std::optional<Message> message(std::in_place);
    reader(*message);
    if (!reader.finished()) message.reset();
    return message;
}

}  // namespace

std::string encode(const JailSetup& setup) { return written(setup); }
std::string encode(const JailRun& run) { return written(run); }
std::string encode(const JailReady& ready) { return written(ready); }
std::string encode(const JailStarted& started) { return written(started); }
std::string encode(const JailEnded& ended) { return written(ended); }
std::string encode(const Failure& failed) { return written(failed); }
std::string encode(const JailDial& dial) { return written(dial); }
std::string encode(const JailDialed& dialed) { return written(dialed); }

std::optional<JailSetup> decodeSetup(std::string_view body) { return read<JailSetup>(body); }
std::optional<JailRun> decodeRun(std::string_view body) { return read<JailRun>(body); }
std::optional<JailReady> decodeReady(std::string_view body) { return read<JailReady>(body); }
std::optional<JailStarted> decodeStarted(std::string_view body) { return read<JailStarted>(body); }
std::optional<JailEnded> decodeEnded(std::string_view body) { return read<JailEnded>(body); }
std::optional<Failure> decodeFailed(std::string_view body) { return read<Failure>(body); }
std::optional<JailDial> decodeDial(std::string_view body) { return read<JailDial>(body); }
std::optional<JailDialed> decodeDialed(std::string_view body) { return read<JailDialed>(body); }

std::string encodeHeader(JailMessage kind, std::size_t length) {
    std::string bytes;
    for (const std::uint64_t value : {std::uint64_t{kJailMagic}, std::uint64_t{kJailVersion},
                                      static_cast<std::uint64_t>(kind), std::uint64_t{length}})
        for (unsigned i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
    return bytes;
}

std::optional<JailHeader> decodeHeader(std::string_view bytes) {
    if (bytes.size() != kJailHeaderBytes) return std::nullopt;
    std::array<std::uint32_t, 4> words{};
    for (std::size_t i = 0; i < kJailHeaderBytes; ++i)
        words[i / 4] |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * (i % 4));
    if (words[0] != kJailMagic || words[1] != kJailVersion || words[3] > kJailFrameCap) return std::nullopt;
    return JailHeader{static_cast<JailMessage>(words[2]), words[3]};
}

}  // namespace gradus
