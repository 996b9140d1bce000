// A repository's own files: no change has them, but nobody is to lose a commit without a word.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>

#include "stages/changes/harvester.h"

namespace gradus {

namespace {

constexpr std::uint64_t kMostCounted = 100'000;
constexpr std::size_t kPiece = std::size_t{64} * 1024;
constexpr int kReadFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

/// What git writes when it only looks; a branch may have that name, too.
bool isRefreshed(std::string_view path, std::string_view name) {
    return (name == "index" || name == "index.lock") && path.find("refs/") == path.npos &&
           path.find("logs/") == path.npos;
}

template <typename Between>
bool isSameFile(int a, int b, const char* name, const Between& between) {
    const FileDescriptor one(::openat(a, name, kReadFlags));
    const FileDescriptor other(::openat(b, name, kReadFlags));
    struct stat first {};
    struct stat second {};
    if (!one || !other || ::fstat(one.get(), &first) != 0 || ::fstat(other.get(), &second) != 0) return false;
    if (first.st_mode != second.st_mode || first.st_size != second.st_size || !S_ISREG(first.st_mode)) return false;
    std::vector<char> ours(kPiece);
    std::vector<char> theirs(kPiece);
    for (off_t at = 0; at < first.st_size;) {
        const ssize_t got = ::pread(one.get(), ours.data(), ours.size(), at);
        if (got <= 0 || ::pread(other.get(), theirs.data(), static_cast<std::size_t>(got), at) != got) return false;
        const auto end = ours.begin() + got;
        if (!std::equal(ours.begin(), end, theirs.begin())) return false;
        at += got;
        between();
    }
    return true;
}

bool isSameLink(int a, int b, const char* name) {
    std::array<char, PATH_MAX> one;
    std::array<char, PATH_MAX> other;
    const ssize_t length = ::readlinkat(a, name, one.data(), one.size());
    return length >= 0 && ::readlinkat(b, name, other.data(), other.size()) == length &&
           std::equal(one.begin(), one.begin() + length, other.begin());
}

}  // namespace

void Harvester::countInRepository(Visit& visit, const Subject& subject) {
    if (result_.inRepository >= kMostCounted) return;
    const bool gone = isGone(visit, subject);
    if (gone ? subject.base.isDirectory() : subject.items.front().type == DT_DIR) {
        if (gone)
            pushGone(visit, subject, true);
        else
            pushDirectory(visit, subject, std::nullopt);
        waiting_.back().judged = true;
        waiting_.back().inRepository = true;
        waiting_.back().scope = IgnoredPaths::kNone;
    } else if (!isRefreshed(subject.path, subject.name) && isOtherThanBase(visit, subject)) {
        ++result_.inRepository;
    }
}

bool Harvester::isOtherThanBase(const Visit& visit, const Subject& subject) const {
    if (isGone(visit, subject)) return subject.base.present;
    if (!subject.base.present) return true;
    const int layer = layerOf(visit, subject);
    if (subject.items.front().type == DT_REG)
        return !isSameFile(layer, visit.base.get(), subject.name, [this] { goOn(); });
    return subject.items.front().type != DT_LNK || !isSameLink(layer, visit.base.get(), subject.name);
}

}  // namespace gradus
