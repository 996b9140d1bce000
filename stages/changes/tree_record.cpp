#include "stages/changes/tree_record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>

#include "store/model/canonical.h"
#include "store/model/canonical_reader.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::string_view kDomain = "gradus.tree-record.1";
constexpr std::size_t kBufferSize = std::size_t{128} * 1024;
constexpr std::size_t kLongestLink = 4096;
constexpr int kMostReadings = 5;

bool isSame(const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

EntryType typeOf(mode_t mode) {
    if (S_ISDIR(mode)) return EntryType::kDirectory;
    return S_ISLNK(mode) ? EntryType::kSymlink : EntryType::kFile;
}

RecordedPath asSeen(std::string path, const Sighting& seen, const Entry& entry) {
    return {std::move(path), entry, seen.user, seen.group, seen.inode, seen.modified, seen.changed};
}

bool isUntouched(const RecordedPath& known, const Sighting& seen) {
    return known.inode == seen.inode && isSame(known.changed, seen.changed) && isSame(known.modified, seen.modified) &&
           couldBe(seen, known.entry);
}

Digest digestOfLink(int directory, const std::string& name, std::uint64_t& size) {
    std::array<char, kLongestLink> text{};
    const ssize_t length = ::readlinkat(directory, name.c_str(), text.data(), text.size());
    if (length < 0) throwFault("read", name, errno);
    size = static_cast<std::uint64_t>(length);
    return sha256({text.data(), static_cast<std::size_t>(length)});
}

Digest digestOfFile(int file, const std::string& path, std::uint64_t& size) {
    thread_local std::vector<char> buffer(kBufferSize);
    Hasher hasher;
    size = 0;
    while (true) {
        const ssize_t got = ::pread(file, buffer.data(), buffer.size(), static_cast<off_t>(size));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throwFault("read", path, errno);
        if (got == 0) return hasher.finish();
        hasher.update({buffer.data(), static_cast<std::size_t>(got)});
        size += static_cast<std::uint64_t>(got);
    }
}

class Recorder {
  public:
    Recorder(const TreeRoot& root, const RecordRequest& request) : root_(root), request_(request) {}

    TreeRecord run() {
        walk("", root_.descriptor());
        std::ranges::sort(record_.paths, {}, &RecordedPath::path);
        return std::move(record_);
    }

  private:
    void walk(const std::string& path, int directory) {
        for (const std::string& name : namesBeneath(directory, SIZE_MAX)) {
            const std::string inside = path.empty() ? name : path + "/" + name;
            if (request_.isLeftOut && request_.isLeftOut(inside)) continue;
            const Sighting seen = sight(directory, name);
            if (!seen.exists) continue;
            if (const auto reason = whyStrange(inside, seen))
                strange(inside, *reason);
            else
                take(inside, directory, name, seen);
        }
    }

    static std::optional<std::string> whyStrange(const std::string& path, const Sighting& seen) {
        if (const auto fault = pathFault(path)) return *fault;
        if (seen.isMountPoint) return "something is mounted there";
        if (!S_ISDIR(seen.mode) && !S_ISREG(seen.mode) && !S_ISLNK(seen.mode))
            return fmt::format("it is {}", fileTypeName(seen.mode));
        if (!S_ISLNK(seen.mode) && (seen.permissions() & ~0777U) != 0) return "setuid, setgid and sticky are refused";
        return std::nullopt;
    }

    void strange(const std::string& path, const std::string& reason) {
        if (request_.strange) return request_.strange(path, reason);
        throw Error(ErrorCode::kNotAllowed, "{} cannot be held by a stage: '{}': {}", root_.path().native(),
                    printable(path), reason)
            .hint("remove it or move it away, then try again");
    }

    void take(const std::string& path, int directory, const std::string& name, const Sighting& seen) {
        Entry entry{typeOf(seen.mode), seen.permissions(), {}, 0};
        if (entry.type == EntryType::kFile) return takeFile(path, directory, name, seen);
        if (entry.type == EntryType::kSymlink) {
            entry.mode = 0777;
            entry.digest = digestOfLink(directory, name, entry.size);
        }
        record_.paths.push_back(asSeen(path, seen, entry));
        if (entry.type != EntryType::kDirectory) return;
        const FileDescriptor inner(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!inner) throwFault("open", path, errno);
        walk(path, inner.get());
    }

    void takeFile(const std::string& path, int directory, const std::string& name, const Sighting& seen) {
        const RecordedPath* known = request_.known != nullptr ? request_.known->find(path) : nullptr;
        if (known != nullptr && isUntouched(*known, seen)) return record_.paths.push_back(*known);
        const FileDescriptor file(
            ::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
        if (!file) throwFault("open", path, errno);
        for (int reading = 0; reading < kMostReadings; ++reading) {
            const Sighting before = sight(file.get());
            Entry entry{EntryType::kFile, before.permissions() & 0777U, {}, 0};
            entry.digest = digestOfFile(file.get(), path, entry.size);
            if (sight(file.get()).isSameAs(before)) return record_.paths.push_back(asSeen(path, before, entry));
        }
        throw Error(ErrorCode::kBusy, "'{}' in {} is being written without end", printable(path), root_.path().native())
            .hint("stop what writes it, then try again");
    }

    const TreeRoot& root_;
    const RecordRequest& request_;
    TreeRecord record_;
};

void encodeTime(Canonical& out, const timespec& time) { out.number(time.tv_sec).number(time.tv_nsec); }

timespec decodeTime(CanonicalReader& in) {
    timespec time{};
    time.tv_sec = in.number();
    time.tv_nsec = in.number();
    return time;
}

RecordedPath decodePath(CanonicalReader& in) {
    RecordedPath path;
    path.path = in.text();
    const auto type = fromName(kEntryTypes, in.text());
    if (!type) in.fail("an unknown type");
    path.entry.type = *type;
    path.entry.mode = static_cast<std::uint32_t>(in.number());
    path.entry.digest = in.digest();
    path.entry.size = static_cast<std::uint64_t>(in.number());
    path.user = static_cast<uid_t>(in.number());
    path.group = static_cast<gid_t>(in.number());
    path.inode = static_cast<std::uint64_t>(in.number());
    path.modified = decodeTime(in);
    path.changed = decodeTime(in);
    return path;
}

}  // namespace

Manifest TreeRecord::manifest() const {
    std::vector<Manifest::Item> items;
    items.reserve(paths.size());
    for (const RecordedPath& path : paths) items.push_back({path.path, path.entry});
    return Manifest(std::move(items));
}

std::uint64_t TreeRecord::bytes() const {
    std::uint64_t total = 0;
    for (const RecordedPath& path : paths) total += path.entry.size;
    return total;
}

const RecordedPath* TreeRecord::find(std::string_view path) const {
    const auto found = std::ranges::lower_bound(paths, path, {}, &RecordedPath::path);
    return found != paths.end() && found->path == path ? &*found : nullptr;
}

std::string TreeRecord::encode() const {
    Canonical out(kDomain);
    out.list(paths.size());
    for (const RecordedPath& path : paths) {
        out.text(path.path)
            .text(nameOf(kEntryTypes, path.entry.type))
            .number(path.entry.mode)
            .digest(path.entry.digest);
        out.number(static_cast<std::int64_t>(path.entry.size)).number(path.user).number(path.group);
        out.number(static_cast<std::int64_t>(path.inode));
        encodeTime(out, path.modified);
        encodeTime(out, path.changed);
    }
    return out.bytes();
}

TreeRecord TreeRecord::decode(std::string_view bytes) {
    CanonicalReader in(bytes, kDomain);
    TreeRecord record;
    for (std::uint64_t left = in.list(); left > 0; --left) {
        record.paths.push_back(decodePath(in));
        const std::size_t count = record.paths.size();
        if (count > 1 && record.paths[count - 2].path >= record.paths[count - 1].path) in.fail("paths out of order");
    }
    in.end();
    return record;
}

TreeRecord recordTree(const TreeRoot& root, const RecordRequest& request) { return Recorder(root, request).run(); }

TreeRecord recordKnown(const TreeRoot& root, const Manifest& manifest) {
    TreeRecord record;
    record.paths.reserve(manifest.items().size());
    for (const Manifest::Item& item : manifest.items()) {
        const Place place = root.place(item.path);
        const Sighting seen = place ? sight(place.at(), place.name) : Sighting();
        if (!couldBe(seen, item.entry))
            throw Error(ErrorCode::kInfrastructure, "'{}' in {} is not what was just written there",
                        printable(item.path), root.path().native())
                .hint("something else writes in this directory; stop it, then try again");
        record.paths.push_back(asSeen(item.path, seen, item.entry));
    }
    return record;
}

std::vector<Departure> compareTree(const TreeRoot& root, const TreeRecord& record, Scrutiny scrutiny,
                                   const std::function<bool(const std::string&)>& isLeftOut) {
    std::map<std::string, std::string> reasons;
    RecordRequest request{isLeftOut, scrutiny == Scrutiny::kTouched ? &record : nullptr,
                          [&](const std::string& path, const std::string& reason) { reasons[path] = reason; }};
    const TreeRecord now = recordTree(root, request);
    for (const RecordedPath& path : now.paths) {
        const RecordedPath* known = record.find(path.path);
        if (known == nullptr) reasons[path.path] = "it was added";
        if (known != nullptr && known->entry != path.entry) reasons[path.path] = "it was changed";
    }
    for (const RecordedPath& path : record.paths)
        if (now.find(path.path) == nullptr) reasons.emplace(path.path, "it is gone");
    std::vector<Departure> departures;
    for (auto& [path, reason] : reasons) departures.push_back({path, reason});
    return departures;
}

}  // namespace gradus
