#include "store/model/change_set.h"

#include <algorithm>

#include "store/model/canonical.h"
#include "store/model/canonical_reader.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::string_view kChangeSetDomain = "gradus.change-set.1";
constexpr std::string_view kBaseDomain = "gradus.base.1";
constexpr std::size_t kLongestComponent = 255;
constexpr std::size_t kLongestPath = 4095;

// What HFS+ leaves out when it compares names.
bool isIgnorable(char32_t c) {
    return (c >= 0x200B && c <= 0x200F) || (c >= 0x202A && c <= 0x202E) || (c >= 0x206A && c <= 0x206F) || c == 0xFEFF;
}

// git itself treats these spellings as its own directory on some file system or other: letter case, the NTFS short
// name and streams, and characters that HFS+ ignores.
bool looksLikeGit(std::string_view component) {
    std::string plain;
    for (std::string_view rest = component; !rest.empty();) {
        const CodePoint point = firstCodePoint(rest);
        if (point.value >= 'A' && point.value <= 'Z') {
            plain += static_cast<char>(point.value - 'A' + 'a');
        } else if (!isIgnorable(point.value)) {
            plain += rest.substr(0, point.length);
        }
        rest.remove_prefix(point.length);
    }
    plain.resize(std::min(plain.find(':'), plain.size()));
    while (!plain.empty() && (plain.back() == '.' || plain.back() == ' ')) plain.pop_back();
    return plain == ".git" || plain == "git~1";
}

bool hasControl(std::string_view text) {
    return std::any_of(text.begin(), text.end(), [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; });
}

std::optional<std::string> componentFault(std::string_view component) {
    if (component.empty()) return "it has an empty part";
    if (component == "." || component == "..") return "it has a '.' or '..' part";
    if (component.size() > kLongestComponent) return "a part is longer than 255 bytes";
    if (looksLikeGit(component)) return "it leads into git's own directory";
    if (component.back() == '.' || component.back() == ' ') return "a part ends in a dot or a space";
    return std::nullopt;
}

void requirePlain(std::string_view path) {
    if (const auto fault = pathFault(path))
        throw Error(ErrorCode::kUsage, "the path '{}' cannot be part of a change: {}", printable(path), *fault);
}

void requireMode(std::string_view path, const Entry& entry) {
    if ((entry.mode & ~0777U) != 0)
        throw Error(ErrorCode::kUsage, "the path '{}' has mode {:o}: setuid, setgid and sticky are refused",
                    printable(path), entry.mode);
}

template <typename Item>
void sortUnique(std::vector<Item>& items) {
    std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.path < b.path; });
    const auto twice =
        std::adjacent_find(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.path == b.path; });
    if (twice != items.end()) throw Error(ErrorCode::kUsage, "the path '{}' is given twice", printable(twice->path));
}

void encodeEntry(Canonical& out, const Entry& entry) {
    out.text(nameOf(kEntryTypes, entry.type))
        .number(entry.mode)
        .digest(entry.digest)
        .number(static_cast<std::int64_t>(entry.size));
}

void encodeOptional(Canonical& out, const std::optional<Entry>& entry) {
    out.list(entry ? 1 : 0);
    if (entry) encodeEntry(out, *entry);
}

std::optional<Entry> decodeOptional(CanonicalReader& in) {
    if (in.list() == 0) return std::nullopt;
    Entry entry;
    const auto type = fromName(kEntryTypes, in.text());
    if (!type) in.fail("unknown entry type");
    entry.type = *type;
    entry.mode = static_cast<std::uint32_t>(in.number());
    entry.digest = in.digest();
    entry.size = static_cast<std::uint64_t>(in.number());
    return entry;
}

}  // namespace

std::optional<std::string> pathFault(std::string_view path) {
    if (path.empty()) return "it is empty";
    if (path.front() == '/') return "it is absolute";
    if (path.size() > kLongestPath) return "it is longer than 4095 bytes";
    if (path.find('\0') != std::string_view::npos) return "it has a NUL byte";
    if (hasControl(path)) return "it has a control character";
    if (firstInvalidUtf8(path)) return "it is not UTF-8";
    if (path.find('\\') != std::string_view::npos) return "it has a backslash, which other systems take for a '/'";
    for (std::size_t begin = 0; begin <= path.size();) {
        const std::size_t end = std::min(path.find('/', begin), path.size());
        if (auto fault = componentFault(path.substr(begin, end - begin))) return fault;
        begin = end + 1;
    }
    return std::nullopt;
}

ChangeKind kindOf(const PathChange& change) {
    if (!change.after) return ChangeKind::kDeleted;
    if (!change.beforeKnown) return ChangeKind::kModified;
    if (!change.before) return ChangeKind::kAdded;
    if (change.before->type != change.after->type) return ChangeKind::kTypeChanged;
    const bool sameContent = change.before->digest == change.after->digest && change.before->size == change.after->size;
    return sameContent ? ChangeKind::kModeChanged : ChangeKind::kModified;
}

ChangeSet::ChangeSet(std::vector<PathChange> changes) : changes_(std::move(changes)) {
    for (const PathChange& change : changes_) {
        requirePlain(change.path);
        if (change.before) requireMode(change.path, *change.before);
        if (change.after) requireMode(change.path, *change.after);
    }
    sortUnique(changes_);
}

std::string ChangeSet::encode() const {
    Canonical out(kChangeSetDomain);
    out.list(changes_.size());
    for (const PathChange& change : changes_) {
        out.text(change.path).number(change.beforeKnown ? 1 : 0);
        encodeOptional(out, change.before);
        encodeOptional(out, change.after);
    }
    return out.bytes();
}

ChangeSet ChangeSet::decode(std::string_view bytes) {
    CanonicalReader in(bytes, kChangeSetDomain);
    std::vector<PathChange> changes;
    for (std::uint64_t left = in.list(); left > 0; --left) {
        PathChange change;
        change.path = in.text();
        change.beforeKnown = in.number() != 0;
        change.before = decodeOptional(in);
        change.after = decodeOptional(in);
        changes.push_back(std::move(change));
    }
    in.end();
    try {
        ChangeSet set(std::move(changes));
        if (set.encode() == bytes) return set;
    } catch (const Error& e) {
        in.fail(e.what());
    }
    in.fail("not in canonical order");
}

Digest ChangeSet::digest() const { return sha256(encode()); }

Manifest::Manifest(std::vector<Item> items) : items_(std::move(items)) {
    for (const Item& item : items_) {
        requirePlain(item.path);
        requireMode(item.path, item.entry);
    }
    sortUnique(items_);
}

Digest Manifest::digest() const {
    Canonical out("gradus.manifest.1");
    out.list(items_.size());
    for (const Item& item : items_) {
        out.text(item.path);
        encodeEntry(out, item.entry);
    }
    return out.hash();
}

std::string BaseFingerprint::encode() const { return Canonical(kBaseDomain).text(commit).digest(tree).bytes(); }

BaseFingerprint BaseFingerprint::decode(std::string_view bytes) {
    CanonicalReader in(bytes, kBaseDomain);
    BaseFingerprint base;
    base.commit = in.text();
    base.tree = in.digest();
    in.end();
    return base;
}

Digest BaseFingerprint::digest() const { return sha256(encode()); }

}  // namespace gradus
