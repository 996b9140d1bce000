#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "store/model/error.h"
#include "store/object_file.h"
#include "store/objects.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

std::optional<struct stat> lookAt(const fs::path& path) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) == 0) return info;
    if (errno != ENOENT) throwErrno("look at", path, errno);
    return std::nullopt;
}

Time ageMark(const struct stat& info) {
    return fromMillis(std::int64_t{info.st_mtim.tv_sec} * 1000 + info.st_mtim.tv_nsec / 1'000'000);
}

bool removeFile(const fs::path& path) {
    if (::unlink(path.c_str()) == 0) return true;
    if (errno != ENOENT) throwErrno("remove", path, errno);
    return false;
}

/// Calls `visit(digest)` for every regular file that has an object's name; all else is a stray.
template <typename Visit>
void forEachObject(const fs::path& fanOut, std::vector<fs::path>& strays, const Visit& visit) {
    for (const std::string& name : namesIn(fanOut)) {
        const std::optional<Digest> digest = digestOfName(fanOut.filename().native(), name);
        const std::optional<struct stat> info = lookAt(fanOut / name);
        if (!info) continue;
        if (!digest || !S_ISREG(info->st_mode))
            strays.push_back(fanOut / name);
        else
            visit(*digest, *info);
    }
}

/// One pass over the store. Objects refreshed at or after `oldest_` stay.
class Sweep {
  public:
    Sweep(const std::function<bool(const Digest&)>& isReferenced, Time oldest)
        : isReferenced_(isReferenced), oldest_(oldest) {}

    void objects(const fs::path& fanOut);
    void temporaries(const fs::path& directory);
    SweepReport report;

  private:
    void consider(const Digest& digest, const fs::path& path, const struct stat& info,
                  std::vector<fs::path>& candidates);
    void removeIfOld(const fs::path& path);
    void removeIfDead(const fs::path& path);

    const std::function<bool(const Digest&)>& isReferenced_;
    Time oldest_;
};

void Sweep::objects(const fs::path& fanOut) {
    std::vector<fs::path> candidates;
    forEachObject(fanOut, report.strays, [&](const Digest& digest, const struct stat& info) {
        consider(digest, fanOut / digest.hex().substr(2), info, candidates);
    });
    if (candidates.empty()) return;
    const std::uint64_t before = report.removed;
    {
        const FileDescriptor lock = lockDirectory(fanOut, LOCK_EX);
        for (const fs::path& path : candidates) removeIfOld(path);
    }
    // Without this a power cut could bring names back whose bytes are gone.
    if (report.removed != before) syncDirectory(fanOut);
}

// Without the lock: asking for references may take long, and the asked may be waiting for a writer.
void Sweep::consider(const Digest& digest, const fs::path& path, const struct stat& info,
                     std::vector<fs::path>& candidates) {
    if (ageMark(info) >= oldest_)
        ++report.young;
    else if (isReferenced_(digest))
        ++report.referenced;
    else
        candidates.push_back(path);
}

// Looked at again under the lock: a writer may have found it in the meantime, and made it young.
void Sweep::removeIfOld(const fs::path& path) {
    const std::optional<struct stat> info = lookAt(path);
    if (!info) return;
    if (ageMark(*info) >= oldest_) {
        ++report.young;
    } else if (removeFile(path)) {
        ++report.removed;
        report.removedBytes += static_cast<std::uint64_t>(info->st_size);
    }
}

void Sweep::temporaries(const fs::path& directory) {
    for (const std::string& name : namesIn(directory)) {
        const std::optional<struct stat> info = lookAt(directory / name);
        if (info && S_ISREG(info->st_mode))
            removeIfDead(directory / name);
        else if (info)
            report.strays.push_back(directory / name);
    }
}

// A living writer holds the lock of its temporary; the kernel releases that of a dead one.
void Sweep::removeIfDead(const fs::path& path) {
    const std::optional<FileDescriptor> file = openObjectFile(path);
    if (!file) return;
    if (::flock(file->get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) throwErrno("lock", path, errno);
        ++report.writers;
        return;
    }
    struct stat info {};
    if (::fstat(file->get(), &info) != 0) throwErrno("look at", path, errno);
    if (!removeFile(path)) return;
    ++report.temporaries;
    report.removedBytes += static_cast<std::uint64_t>(info.st_size);
}

}  // namespace

SweepReport Objects::sweep(const std::function<bool(const Digest&)>& isReferenced, Time now, Milliseconds grace) {
    Sweep sweep(isReferenced, now - grace);
    for (const std::string& fanOut : fanOutNames())
        if (lookAt(directory_ / fanOut)) sweep.objects(directory_ / fanOut);
    if (lookAt(temporariesOf(directory_))) sweep.temporaries(temporariesOf(directory_));
    return std::move(sweep.report);
}

ObjectsCheck Objects::check() const {
    ObjectsCheck check;
    for (const std::string& fanOut : fanOutNames())
        if (lookAt(directory_ / fanOut))
            forEachObject(directory_ / fanOut, check.strays,
                          [&](const Digest& digest, const struct stat&) { checkObject(digest, check); });
    return check;
}

void Objects::checkObject(const Digest& digest, ObjectsCheck& check) const {
    try {
        std::optional<ObjectReader> reader = find(digest);
        if (!reader) return;  // swept since it was listed
        reader->verify();
        ++check.objects;
        check.bytes += reader->size();
        check.storedBytes += reader->stored();
    } catch (const Error& error) {
        ++(error.code() == ErrorCode::kDamaged ? check.damaged : check.unreadable);
        if (check.flaws.size() < ObjectsCheck::kMostFlaws) check.flaws.push_back({pathOf(digest), error.what()});
    }
}

}  // namespace gradus
