#include "plugins/isolation/jail/protocol.h"

#include <algorithm>
#include <limits>

namespace gradus {

namespace {

constexpr std::uint32_t kTextCap = 1U << 20;
constexpr std::uint32_t kListCap = 65536;

class Writer {
  public:
    void number(std::uint64_t value) {
        for (unsigned i = 0; i < 8; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
    }
    void flag(bool value) { bytes_ += value ? '\1' : '\0'; }
    void text(std::string_view value) {
        number(value.size());
        bytes_ += value;
    }
    void texts(const std::vector<std::string>& values) {
        number(values.size());
        for (const std::string& value : values) text(value);
    }
    std::string take() { return std::move(bytes_); }

  private:
    std::string bytes_;
};

/// Reads what Writer wrote. After the first fault everything reads as empty and ok() stays false.
class Reader {
  public:
    explicit Reader(std::string_view bytes) : rest_(bytes) {}

    std::uint64_t number(std::uint64_t cap = std::numeric_limits<std::uint64_t>::max()) {
        const std::string_view raw = take(8);
        std::uint64_t value = 0;
        for (std::size_t i = 0; i < raw.size(); ++i)
            value |= static_cast<std::uint64_t>(static_cast<unsigned char>(raw[i])) << (8 * i);
        if (value > cap) fail();
        return ok_ ? value : 0;
    }
    std::uint32_t small(std::uint32_t cap = std::numeric_limits<std::uint32_t>::max()) {
        return static_cast<std::uint32_t>(number(cap));
    }
    bool flag() {
        const std::string_view raw = take(1);
        if (ok_ && raw[0] != '\0' && raw[0] != '\1') fail();
        return ok_ && raw[0] == '\1';
    }
    std::string text() {
        const std::string_view raw = take(small(kTextCap));
        // Every text becomes a C string on its way to the kernel: a NUL would cut it short there.
        if (raw.find('\0') != std::string_view::npos) fail();
        return ok_ ? std::string(raw) : std::string();
    }
    template <typename Element, typename Read>
    std::vector<Element> list(Read read) {
        std::vector<Element> elements;
        const std::uint32_t count = small(kListCap);
        for (std::uint32_t i = 0; i < count && ok_; ++i) elements.push_back(read());
        return elements;
    }
    std::vector<std::string> texts() {
        return list<std::string>([this] { return text(); });
    }
    bool finished() const { return ok_ && rest_.empty(); }

  private:
    std::string_view take(std::size_t count) {
        if (!ok_ || count > rest_.size()) {
            fail();
            return {};
        }
        const std::string_view taken = rest_.substr(0, count);
        rest_.remove_prefix(count);
        return taken;
    }
    void fail() { ok_ = false; }

    std::string_view rest_;
    bool ok_ = true;
};

template <typename Value>
std::optional<Value> whole(const Reader& reader, Value value) {
    if (!reader.finished()) return std::nullopt;
    return value;
}

void writeLimits(Writer& writer, const Limits& limits) {
    for (std::size_t i = 0; i < kLimitNames.size(); ++i) {
        const std::optional<Limit>& limit = limits[static_cast<LimitName>(i)];
        writer.flag(limit.has_value());
        if (!limit) continue;
        writer.number(limit->value);
        writer.flag(limit->required);
    }
}

Limits readLimits(Reader& reader) {
    Limits limits;
    for (std::size_t i = 0; i < kLimitNames.size(); ++i) {
        if (!reader.flag()) continue;
        Limit limit;
        limit.value = reader.number();
        limit.required = reader.flag();
        limits[static_cast<LimitName>(i)] = limit;
    }
    return limits;
}

JailOverlay readOverlay(Reader& reader) {
    JailOverlay overlay;
    overlay.target = reader.text();
    overlay.lowers = reader.texts();
    overlay.upper = reader.text();
    overlay.work = reader.text();
    overlay.disposable = reader.flag();
    return overlay;
}

JailBind readBind(Reader& reader) {
    JailBind bind;
    bind.source = reader.text();
    bind.target = reader.text();
    bind.optional = reader.flag();
    return bind;
}

JailPrivate readPrivate(Reader& reader) {
    JailPrivate directory;
    directory.target = reader.text();
    directory.mode = reader.small(07777);
    return directory;
}

JailFile readFile(Reader& reader) {
    JailFile file;
    file.target = reader.text();
    file.content = reader.text();
    file.mode = reader.small(0777);
    return file;
}

JailImage readImage(Reader& reader) {
    JailImage image;
    image.file = reader.text();
    image.at = reader.text();
    image.readOnly = reader.flag();
    return image;
}

JailRange readRange(Reader& reader) {
    JailRange range;
    range.first = reader.small();
    range.count = reader.small();
    return range;
}

// An absolute path in its one normal spelling: no empty, "." or ".." component, no trailing slash.
bool isPlainPath(std::string_view path) {
    if (path.size() < 2 || path.size() > 4000 || path[0] != '/') return false;
    while (!path.empty()) {
        path.remove_prefix(1);
        const std::string_view component = path.substr(0, path.find('/'));
        if (component.empty() || component == "." || component == ".." || component.size() > 255) return false;
        path.remove_prefix(component.size());
    }
    return true;
}

bool isBeneath(std::string_view path, std::string_view directory) {
    return path == directory || (path.starts_with(directory) && path[directory.size()] == '/');
}

// The kernel's own views and the jail's own directories: nothing of a plan is put there.
bool isReserved(std::string_view path) {
    for (const std::string_view directory : {"/proc", "/sys", "/dev"})
        if (isBeneath(path, directory)) return true;
    return false;
}

std::optional<std::string> targetObjection(std::string_view target) {
    if (!isPlainPath(target)) return "'" + std::string(target) + "' is not an absolute path in normal form";
    if (isReserved(target))
        return "'" + std::string(target) + "' lies in /proc, /sys or /dev, which the jail makes itself";
    return std::nullopt;
}

std::optional<std::string> overlayObjection(const JailOverlay& overlay) {
    const bool whole = overlay.target == "/";
    if (overlay.lowers.empty() || overlay.lowers.size() > 500) return overlay.target + ": 1 to 500 lower layers";
    if (overlay.upper.empty() != overlay.work.empty()) return overlay.target + ": upper and work belong together";
    for (const std::string& lower : overlay.lowers)
        if (!isPlainPath(lower) && !(whole && lower == "/"))
            return "'" + lower + "' is not an absolute path in normal form";
    for (const std::string& path : {overlay.upper, overlay.work})
        if (!path.empty() && !isPlainPath(path)) return "'" + path + "' is not an absolute path in normal form";
    return std::nullopt;
}

std::vector<std::string> targetsOf(const JailSetup& setup) {
    std::vector<std::string> targets = setup.hidden;
    for (const JailOverlay& overlay : setup.overlays) targets.push_back(overlay.target);
    for (const JailBind& bind : setup.binds) targets.push_back(bind.target);
    for (const JailPrivate& directory : setup.privates) targets.push_back(directory.target);
    for (const JailFile& file : setup.files) targets.push_back(file.target);
    return targets;
}

// Only an overlay can be put over everything; named twice, it is refused as any other place.
bool hasWholeOverlay(const JailSetup& setup) {
    return std::any_of(setup.overlays.begin(), setup.overlays.end(),
                       [](const JailOverlay& overlay) { return overlay.target == "/"; });
}

// A copy of the system has an overlay of "/", is root's inside, and nothing else is either.
std::optional<std::string> systemObjection(const JailSetup& setup) {
    const auto whole = std::count_if(setup.overlays.begin(), setup.overlays.end(),
                                     [](const JailOverlay& overlay) { return overlay.target == "/"; });
    if (whole != (setup.system ? 1 : 0)) return "a copy of the system is one with an overlay of /, and nothing else is";
    if (setup.system && (setup.uid != 0 || setup.gid != 0 || setup.bare))
        return "a copy of the system is root's inside";
    if (!setup.system && !setup.seeds.empty()) return "only a copy of the system can be seeded";
    for (const JailFile& seed : setup.seeds)
        if (auto reason = targetObjection(seed.target)) return reason;
    if (!setup.fuseProgram.empty() && !isPlainPath(setup.fuseProgram)) return "the FUSE program needs its whole path";
    return std::nullopt;
}

std::optional<std::string> imagesObjection(const JailSetup& setup) {
    for (const JailImage& image : setup.images)
        if (!isPlainPath(image.file) || !isPlainPath(image.at) || isReserved(image.at))
            return "'" + image.file + "' at '" + image.at + "': an image needs two absolute paths in normal form";
    return std::nullopt;
}

std::optional<std::string> limitsObjection(const Limits& limits) {
    for (std::size_t i = 0; i < kLimitNames.size(); ++i) {
        const std::optional<Limit>& limit = limits[static_cast<LimitName>(i)];
        if (!limit) continue;
        if (limit->value == 0) return "a limit of zero for " + std::string(kLimitNames[i]);
        if (limit->value > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
            return "the limit for " + std::string(kLimitNames[i]) + " is too large";
    }
    return std::nullopt;
}

}  // namespace

std::string encode(const JailSetup& setup) {
    Writer writer;
    writer.number(setup.uid);
    writer.number(setup.gid);
    writer.flag(setup.system);
    writer.text(setup.fuseProgram);
    for (const auto* ranges : {&setup.subordinateUsers, &setup.subordinateGroups}) {
        writer.number(ranges->size());
        for (const JailRange& range : *ranges) {
            writer.number(range.first);
            writer.number(range.count);
        }
    }
    writer.flag(setup.bare);
    writer.flag(setup.hostNetwork);
    writer.flag(setup.diskBacked);
    writer.text(setup.hostname);
    writer.text(setup.cgroupRoot);
    writer.text(setup.userManager);
    writer.number(setup.overlays.size());
    for (const JailOverlay& overlay : setup.overlays) {
        writer.text(overlay.target);
        writer.texts(overlay.lowers);
        writer.text(overlay.upper);
        writer.text(overlay.work);
        writer.flag(overlay.disposable);
    }
    writer.number(setup.binds.size());
    for (const JailBind& bind : setup.binds) {
        writer.text(bind.source);
        writer.text(bind.target);
        writer.flag(bind.optional);
    }
    writer.number(setup.privates.size());
    for (const JailPrivate& directory : setup.privates) {
        writer.text(directory.target);
        writer.number(directory.mode);
    }
    for (const auto* files : {&setup.files, &setup.seeds}) {
        writer.number(files->size());
        for (const JailFile& file : *files) {
            writer.text(file.target);
            writer.text(file.content);
            writer.number(file.mode);
        }
    }
    writer.number(setup.images.size());
    for (const JailImage& image : setup.images) {
        writer.text(image.file);
        writer.text(image.at);
        writer.flag(image.readOnly);
    }
    writer.texts(setup.hidden);
    writer.texts(setup.alwaysHidden);
    writer.number(setup.deniedCalls.size());
    for (const std::uint32_t call : setup.deniedCalls) writer.number(call);
    writeLimits(writer, setup.limits);
    return writer.take();
}

std::optional<JailSetup> decodeSetup(std::string_view body) {
    Reader reader(body);
    JailSetup setup;
    setup.uid = reader.small();
    setup.gid = reader.small();
    setup.system = reader.flag();
    setup.fuseProgram = reader.text();
    setup.subordinateUsers = reader.list<JailRange>([&] { return readRange(reader); });
    setup.subordinateGroups = reader.list<JailRange>([&] { return readRange(reader); });
    setup.bare = reader.flag();
    setup.hostNetwork = reader.flag();
    setup.diskBacked = reader.flag();
    setup.hostname = reader.text();
    setup.cgroupRoot = reader.text();
    setup.userManager = reader.text();
    setup.overlays = reader.list<JailOverlay>([&] { return readOverlay(reader); });
    setup.binds = reader.list<JailBind>([&] { return readBind(reader); });
    setup.privates = reader.list<JailPrivate>([&] { return readPrivate(reader); });
    setup.files = reader.list<JailFile>([&] { return readFile(reader); });
    setup.seeds = reader.list<JailFile>([&] { return readFile(reader); });
    setup.images = reader.list<JailImage>([&] { return readImage(reader); });
    setup.hidden = reader.texts();
    setup.alwaysHidden = reader.texts();
    setup.deniedCalls = reader.list<std::uint32_t>([&] { return reader.small(); });
    setup.limits = readLimits(reader);
    return whole(reader, std::move(setup));
}

std::string encode(const JailRun& run) {
    Writer writer;
    writer.text(run.program);
    writer.texts(run.arguments);
    writer.texts(run.environment);
    writer.text(run.directory);
    writer.number(run.graceMillis);
    writer.number(run.umask);
    writer.flag(run.terminal);
    writer.number(run.rows);
    writer.number(run.columns);
    return writer.take();
}

std::optional<JailRun> decodeRun(std::string_view body) {
    Reader reader(body);
    JailRun run;
    run.program = reader.text();
    run.arguments = reader.texts();
    run.environment = reader.texts();
    run.directory = reader.text();
    run.graceMillis = reader.number();
    run.umask = reader.small(0777);
    run.terminal = reader.flag();
    run.rows = reader.small(0xffff);
    run.columns = reader.small(0xffff);
    return whole(reader, std::move(run));
}

std::string encode(const JailReady& ready) {
    Writer writer;
    for (const Enforcer by : ready.enforcers) writer.number(static_cast<std::uint64_t>(by));
    writer.number(ready.landlockAbi);
    writer.text(ready.shortfall);
    return writer.take();
}

std::optional<JailReady> decodeReady(std::string_view body) {
    Reader reader(body);
    JailReady ready;
    for (Enforcer& by : ready.enforcers) by = static_cast<Enforcer>(reader.small(kEnforcerNames.size() - 1));
    ready.landlockAbi = reader.small();
    ready.shortfall = reader.text();
    return whole(reader, ready);
}

std::string encode(const JailStarted& started) {
    Writer writer;
    writer.number(started.initPid);
    for (const std::uint64_t inode : started.namespaces) writer.number(inode);
    return writer.take();
}

std::optional<JailStarted> decodeStarted(std::string_view body) {
    Reader reader(body);
    JailStarted started;
    started.initPid = reader.small();
    for (std::uint64_t& inode : started.namespaces) inode = reader.number();
    return whole(reader, started);
}

std::string encode(const JailEnded& ended) {
    Writer writer;
    writer.number(static_cast<std::uint64_t>(ended.end));
    writer.flag(ended.exited);
    writer.flag(ended.signalled);
    writer.number(ended.status);
    writer.number(ended.wallNanos);
    writer.number(ended.cpuNanos);
    writer.number(ended.memoryPeak);
    writer.number(ended.leftBehind);
    writer.flag(ended.oom);
    for (std::size_t i = 0; i < kLimitNames.size(); ++i) {
        writer.flag(ended.peaks[i].has_value());
        writer.number(ended.peaks[i].value_or(0));
        writer.flag(ended.tripped[i]);
    }
    return writer.take();
}

std::optional<JailEnded> decodeEnded(std::string_view body) {
    Reader reader(body);
    JailEnded ended;
    ended.end = static_cast<JailEnd>(reader.small(static_cast<std::uint32_t>(JailEnd::kLost)));
    ended.exited = reader.flag();
    ended.signalled = reader.flag();
    ended.status = reader.small(255);
    ended.wallNanos = reader.number();
    ended.cpuNanos = reader.number();
    ended.memoryPeak = reader.number();
    ended.leftBehind = reader.small();
    ended.oom = reader.flag();
    for (std::size_t i = 0; i < kLimitNames.size(); ++i) {
        const bool known = reader.flag();
        const std::uint64_t peak = reader.number();
        if (known) ended.peaks[i] = peak;
        ended.tripped[i] = reader.flag();
    }
    return whole(reader, ended);
}

std::string encode(const Failure& failed) {
    Writer writer;
    writer.text(failed.step);
    writer.number(static_cast<std::uint64_t>(failed.error));
    writer.text(failed.detail);
    return writer.take();
}

std::optional<Failure> decodeFailed(std::string_view body) {
    Reader reader(body);
    Failure failed;
    failed.step = reader.text();
    failed.error = static_cast<int>(reader.small(4096));
    failed.detail = reader.text();
    return whole(reader, std::move(failed));
}

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

std::optional<std::string> objection(const JailSetup& setup) {
    std::vector<std::string> targets = targetsOf(setup);
    if (setup.bare && !targets.empty()) return "'" + targets.front() + "' cannot be shown otherwise than it is";
    if (setup.bare && setup.uid == 0) return "without a boundary nothing is run as root";
    for (const std::string& target : targets)
        if (auto reason = target == "/" && hasWholeOverlay(setup) ? std::nullopt : targetObjection(target))
            return reason;
    if (auto reason = systemObjection(setup)) return reason;
    if (auto reason = imagesObjection(setup)) return reason;
    std::sort(targets.begin(), targets.end());
    const auto twice = std::adjacent_find(targets.begin(), targets.end());
    if (twice != targets.end()) return "'" + *twice + "' is named twice";
    for (const JailOverlay& overlay : setup.overlays)
        if (auto reason = overlayObjection(overlay)) return reason;
    for (const JailBind& bind : setup.binds)
        if (!isPlainPath(bind.source)) return "'" + bind.source + "' is not an absolute path in normal form";
    if (!isPlainPath(setup.cgroupRoot)) return "the cgroup root must be an absolute path";
    if (setup.hostname.empty() || setup.hostname.size() > 64) return "the host name must have 1 to 64 characters";
    return limitsObjection(setup.limits);
}

std::optional<std::string> objection(const JailRun& run) {
    if (run.program.empty() || run.arguments.empty()) return "there is no command";
    if (run.directory != "/" && (!isPlainPath(run.directory) || isReserved(run.directory)))
        return "'" + run.directory + "' cannot be the working directory";
    for (const std::string& variable : run.environment)
        if (variable.find('=') == std::string::npos || variable[0] == '=')
            return "'" + variable + "' is not of the form NAME=value";
    return std::nullopt;
}

}  // namespace gradus
