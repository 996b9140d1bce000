// One path: what the layers have there against what the base has there.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>

#include "stages/changes/harvester.h"
#include "store/model/error.h"

namespace gradus {

namespace {

/// Nothing waits on a named pipe and no link is followed, should one take a file's place at the last moment.
constexpr int kReadFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
constexpr std::uint32_t kSpecialBits = 07000;

Entry linkEntry(std::string_view text) { return {EntryType::kSymlink, 0777, sha256(text), text.size()}; }

std::optional<std::string> linkText(int directory, const char* name) {
    std::array<char, PATH_MAX> text;
    const ssize_t length = ::readlinkat(directory, name, text.data(), text.size());
    if (length < 0) return std::nullopt;
    return std::string(text.data(), static_cast<std::size_t>(length));
}

}  // namespace

void Harvester::judgeSubject(Visit& visit, Subject& subject) {
    if (isGone(visit, subject)) return judgeAbsent(visit, subject);
    switch (subject.items.front().type) {
        case DT_REG:
            return judgeFile(visit, subject);
        case DT_LNK:
            return judgeLink(visit, subject);
        case DT_DIR:
            break;
        default: {
            const auto mode = static_cast<mode_t>(DTTOIF(subject.items.front().type));
            return refuse(subject.path, "it is " + std::string(fileTypeName(mode)) + ", not a regular file");
        }
    }
    std::optional<Entry> before;
    bool refused = false;
    if (!subject.base.isDirectory()) before = readBase(visit, subject, refused);
    if (!refused) pushDirectory(visit, subject, before);
}

void Harvester::judgeFile(Visit& visit, Subject& subject) {
    const FileDescriptor file(::openat(layerOf(visit, subject), subject.name, kReadFlags));
    struct stat info {};
    if (!file || ::fstat(file.get(), &info) != 0)
        return refuse(subject.path, "the file cannot be read: " + errnoText(errno));
    if (!S_ISREG(info.st_mode))
        return refuse(subject.path, "it is " + std::string(fileTypeName(info.st_mode)) + ", not a regular file");
    const OverlayMarks marks = readMarks(file.get(), marks_);
    reportForged(subject.path, marks);
    if (marks.unbelievable)
        return refuse(subject.path, "it has the attribute " + *marks.unbelievable + ", which no sandbox writes");
    const std::size_t drafted = drafts_.size();
    judgeRead(visit, subject, file.get(), info);
    if (drafts_.size() > drafted) drafts_[drafted].isCopy = isCopyOfBase(visit, subject, marks);
}

// Only the lowest layer's file can be a copy from the base: the others were copied from a layer.
bool Harvester::isCopyOfBase(const Visit& visit, const Subject& subject, const OverlayMarks& top) const {
    const DirectoryItem& lowest = subject.items.back();
    if (subject.items.size() == 1) return !top.origin.empty();
    const FileDescriptor file(::openat(visit.layers[lowest.layer].get(), subject.name, kReadFlags));
    return file && lowest.type == DT_REG && !readMarks(file.get(), marks_).origin.empty();
}

void Harvester::judgeRead(Visit& visit, Subject& subject, int file, const struct stat& info) {
    bool refused = false;
    const std::optional<Entry> before = readBase(visit, subject, refused, static_cast<std::uint64_t>(info.st_size));
    if (refused) return;
    const bool hadFile = before && before->type == EntryType::kFile;
    const auto content = contentOf(file, info, subject.path, hadFile ? std::optional(before->size) : std::nullopt);
    if (!content) return refuse(subject.path, "it is a file of more holes than are read");
    Entry after{EntryType::kFile, info.st_mode & 0777, content->digest, content->size};
    const std::size_t drafted = drafts_.size();
    if (!record(subject.path, subject.base, before, after, info.st_mode)) return;
    if (options_.keep != nullptr && drafts_.size() > drafted)
        drafts_.back().change.after->digest = contents_.keep(file, info, *content, subject.path, *options_.keep);
    if (subject.base.isDirectory()) pushGone(visit, subject, true);
}

void Harvester::judgeLink(Visit& visit, Subject& subject) {
    const auto text = linkText(layerOf(visit, subject), subject.name);
    if (!text) return refuse(subject.path, "the link cannot be read: " + errnoText(errno));
    bool refused = false;
    const std::optional<Entry> before = readBase(visit, subject, refused);
    const std::size_t drafted = drafts_.size();
    if (refused || !record(subject.path, subject.base, before, linkEntry(*text), 0777)) return;
    if (options_.keep != nullptr && drafts_.size() > drafted) options_.keep->put(*text);
    if (subject.base.isDirectory()) pushGone(visit, subject, true);
}

void Harvester::judgeAbsent(Visit& visit, Subject& subject) {
    if (subject.base.isDirectory()) return pushGone(visit, subject, false);
    bool refused = false;
    const std::optional<Entry> before = readBase(visit, subject, refused);
    if (refused || !record(subject.path, subject.base, before, std::nullopt, 0)) keepInPlace(subject, false);
}

// Where nobody asks for contents, a file is read only if it might still be what it was.
std::optional<Contents::Content> Harvester::contentOf(int file, const struct stat& info, const std::string& path,
                                                      std::optional<std::uint64_t> otherSize) {
    const auto size = static_cast<std::uint64_t>(info.st_size);
    if (options_.readsContents || otherSize == size) return contents_.read(file, info, path);
    return Contents::Content{.digest = {}, .size = size, .whole = {}};
}

std::optional<Entry> Harvester::readBase(const Visit& visit, Subject& subject, bool& refused,
                                         std::optional<std::uint64_t> other) {
    BaseEntry& base = subject.base;
    if (!base.present || !base.known) return std::nullopt;
    if (S_ISDIR(base.info.st_mode)) return Entry{EntryType::kDirectory, base.info.st_mode & 0777, {}, 0};
    if (S_ISREG(base.info.st_mode)) return readBaseFile(visit, subject, refused, other);
    if (S_ISLNK(base.info.st_mode)) return readBaseLink(visit, subject);
    refused = true;
    refuse(subject.path, "the base has " + std::string(fileTypeName(base.info.st_mode)) + " there");
    return std::nullopt;
}

std::optional<Entry> Harvester::readBaseFile(const Visit& visit, Subject& subject, bool& refused,
                                             std::optional<std::uint64_t> other) {
    BaseEntry& base = subject.base;
    const FileDescriptor file(::openat(visit.base.get(), subject.name, kReadFlags));
    if (!file && (errno == EACCES || errno == EPERM)) {
        refused = true;
        refuse(subject.path, "the base's file cannot be read: " + errnoText(errno));
        return std::nullopt;
    }
    struct stat info {};
    base.known = file && ::fstat(file.get(), &info) == 0 && S_ISREG(info.st_mode) && base_.isOld(info);
    if (!base.known) return std::nullopt;
    const auto content = contentOf(file.get(), info, subject.path, other);
    refused = !content;
    if (refused) refuse(subject.path, "the base's file has more holes than are read");
    // Whoever wrote while it was read has stamped it before the first byte changed.
    base.known = ::fstat(file.get(), &base.info) == 0 && base_.isOld(base.info);
    if (!base.known || refused) return std::nullopt;
    return Entry{EntryType::kFile, base.info.st_mode & 0777, content->digest, content->size};
}

std::optional<Entry> Harvester::readBaseLink(const Visit& visit, Subject& subject) {
    const auto text = linkText(visit.base.get(), subject.name);
    subject.base = base_.probe(visit.base.get(), subject.name, visit.trusted);
    subject.base.known = subject.base.known && text && S_ISLNK(subject.base.info.st_mode);
    if (!subject.base.known) return std::nullopt;
    return linkEntry(*text);
}

bool Harvester::record(std::string_view path, const BaseEntry& base, const std::optional<Entry>& before,
                       const std::optional<Entry>& after, mode_t mode) {
    const std::uint32_t bits = after ? mode & 07777 : 0;
    const bool hadMode = base.present && !S_ISLNK(base.info.st_mode);
    const std::uint32_t baseBits = hadMode ? base.info.st_mode & 07777 : 0;
    if (base.known && before == after && (bits & kSpecialBits) == (baseBits & kSpecialBits)) return true;
    if (((bits | baseBits) & kSpecialBits) != 0) {
        refuse(path, "a set-user-ID, set-group-ID or sticky bit cannot be part of a change");
        return false;
    }
    Draft draft;
    draft.change = {std::string(path), before, after, base.known};
    draft.wasAbsent = !base.present;
    draft.wasDirectory = base.isDirectory();
    drafts_.push_back(std::move(draft));
    return true;
}

}  // namespace gradus
