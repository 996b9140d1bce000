#include "stages/drivers/target_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <thread>
#include <vector>

#include "stages/changes/tree_writer_beneath.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kTitle = "gradus target 1\n";
constexpr std::uint64_t kLargest = 64U << 10;
/// Everybody may see whose it is.
constexpr mode_t kMarkerMode = 0644;

/// A value is one line: what would end it, and the escape itself, are written as \xNN.
std::string line(std::string_view name, std::string_view value) {
    std::string text(name);
    text += ' ';
    for (const char c : value) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < ' ' || byte == 0x7f || c == '\\')
            text += fmt::format("\\x{:02x}", byte);
        else
            text += c;
    }
    return text + "\n";
}

std::string checksum(std::string_view text) { return line("sha256", sha256(text).hex()); }

std::optional<std::string> unescaped(std::string_view value) {
    std::string text;
    for (std::size_t at = 0; at < value.size(); ++at) {
        if (value[at] != '\\') {
            text += value[at];
            continue;
        }
        unsigned byte = 0;
        const char* digits = value.data() + at + 2;
        if (at + 4 > value.size() || value[at + 1] != 'x' ||
            std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2)
            return std::nullopt;
        text += static_cast<char>(byte);
        at += 3;
    }
    return text;
}

/// The value of the next line, which must have that name.
std::string take(std::string_view& rest, std::string_view name) {
    const std::size_t end = rest.find('\n');
    const bool isIt = end != rest.npos && rest.starts_with(name) && rest.substr(name.size()).starts_with(" ");
    auto value = isIt ? unescaped(rest.substr(name.size() + 1, end - name.size() - 1)) : std::nullopt;
    if (!value) throw Error(ErrorCode::kDamaged, "the marker of a target has no '{}' where it should be", name);
    rest.remove_prefix(end + 1);
    return *value;
}

std::int64_t numberIn(const std::string& text) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size())
        throw Error(ErrorCode::kDamaged, "the marker of a target has '{}' for a number", printable(text));
    return number;
}

FileDescriptor openMarker(int directory, const std::string& name) {
    return FileDescriptor(::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

std::optional<TargetClaim> readClaim(int file, const fs::path& marker) {
    std::string text(kLargest, '\0');
    const ssize_t length = ::pread(file, text.data(), text.size(), 0);
    if (length < 0) throwFault("read", marker.native(), errno);
    text.resize(static_cast<std::size_t>(length));
    // Made by createFile() and not written yet: nobody's.
    if (text.empty()) return std::nullopt;
    try {
        return TargetClaim::decode(text);
    } catch (const Error& fault) {
        throw Error(ErrorCode::kDamaged, "{}: {}", marker.native(), fault.what())
            .hint("if no other store uses this target, remove " + marker.native() + " and try again");
    }
}

/// The name may have passed to another file while we waited for the lock of the one that had it.
bool hasName(int file, int directory, const std::string& name) {
    const Sighting named = sight(directory, name);
    return named.exists && named.inode == sight(file).inode;
}

class Taking {
  public:
    Taking(const TargetIdentity& target, TargetClaim claim, FileOperations& files, const TargetLock::Options& options)
        : marker_(target.marker),
          name_(marker_.filename()),
          claim_(std::move(claim)),
          files_(files),
          options_(options),
          isInProject_(target.isInProject) {}

    FileDescriptor run() {
        const auto deadline = std::chrono::steady_clock::now() + options_.patience;
        for (auto nap = std::chrono::milliseconds(1);; nap = std::min(nap * 2, std::chrono::milliseconds(50))) {
            if (FileDescriptor held = attempt()) return held;
            if (std::chrono::steady_clock::now() >= deadline) throwBusy();
            std::this_thread::sleep_for(nap);
        }
    }

  private:
    /// The lock, or nothing while somebody else has it.
    FileDescriptor attempt() {
        const FileDescriptor directory = openDirectory();
        if (!directory) return {};
        FileDescriptor file = openMarker(directory.get(), name_);
        if (!file && errno == ENOENT) file = create(directory.get());
        if (!file) throwMarkerFault();
        if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
            if (errno == EWOULDBLOCK || errno == EINTR) return {};
            throwFault("lock", marker_.native(), errno);
        }
        if (!hasName(file.get(), directory.get(), name_)) return {};
        return claimed(std::move(file), directory.get());
    }

    FileDescriptor claimed(FileDescriptor file, int directory) {
        const auto found = readClaim(file.get(), marker_);
        if (found && !options_.takeOver) TargetLock::refuseOtherStore(*found, claim_.store, marker_);
        if (found && !options_.takeOver && !isInProject_)
            TargetLock::refuseOtherProject(*found, claim_.project, marker_);
        if (found && options_.look) options_.look(*found);
        if (found && options_.isWayBack && found->store == claim_.store) return file;
        claim_.madeDirectory = found && found->madeDirectory;
        // Written again if the last writer was killed before it had tidied up.
        if (found == claim_ && !sight(directory, name_ + ".part").exists) return file;
        const auto lockNew = [](int made) { static_cast<void>(::flock(made, LOCK_EX | LOCK_NB)); };
        // The old file is held until the new one, locked before anybody could see it, has the name.
        return putFile(files_, directory, name_, claim_.encode(), kMarkerMode, lockNew);
    }

    /// Made if it is missing; nothing while somebody else makes or removes it.
    FileDescriptor openDirectory() {
        const fs::path directory = marker_.parent_path();
        for (const bool mayMake : {true, false}) {
            FileDescriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
            if (opened) return opened;
            if (errno != ENOENT) throwFault("open", directory.native(), errno);
            if (mayMake) makeDirectory(directory);
        }
        return {};
    }

    void makeDirectory(const fs::path& directory) {
        const FileDescriptor parent(::open(directory.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!parent)
            throw Error(ErrorCode::kUsage, "{} is to be a target, and {} is not a directory that can be opened: {}",
                        directory.native(), directory.parent_path().native(), errnoText(errno))
                .hint("make it first: mkdir -p " + directory.parent_path().native());
        nameDirectory(parent.get(), directory);
        if (const int lost = files_.sync(parent.get())) throwFault("sync", directory.parent_path().native(), lost);
    }

    // It has its name only once the marker in it says that we made it: a directory without would be somebody's own, and
    // would stay when the first promotion goes back to nothing.
    void nameDirectory(int parent, const fs::path& directory) {
        const std::string name = directory.filename();
        const std::string unnamed = "." + name + ".gradus-new";
        const int error = files_.makeDirectory(parent, unnamed);
        if (error != 0 && error != EEXIST) throwFault("create", directory.native(), error);
        const FileDescriptor made(::openat(parent, unnamed.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!made && errno == ENOENT) return;
        if (!made) throwFault("open", unnamed, errno);
        // Others may be about to name the same one. Once it is named, its marker is replaced by its holder alone.
        if (::flock(made.get(), LOCK_EX | LOCK_NB) != 0 || !hasName(made.get(), parent, unnamed)) return;
        try {
            if (const int denied = files_.setMode(made.get(), 0755))
                throwFault("set the mode of", directory.native(), denied);
            TargetClaim claim = claim_;
            claim.madeDirectory = true;
            putFile(files_, made.get(), name_, claim.encode(), kMarkerMode);
            const int taken = files_.move(parent, unnamed, parent, name, Move::kNoReplace);
            if (taken == 0) return;
            if (taken != EEXIST) throwFault("create", directory.native(), taken);
            dropUnnamed(parent, made.get(), unnamed);
        } catch (const Error&) {
            dropUnnamed(parent, made.get(), unnamed);
            throw;
        }
    }

    void dropUnnamed(int parent, int made, const std::string& unnamed) {
        for (const std::string& left : {name_, name_ + ".part"}) static_cast<void>(files_.removeFile(made, left));
        static_cast<void>(files_.removeDirectory(parent, unnamed));
    }

    FileDescriptor create(int directory) {
        FileDescriptor made;
        const int error = files_.createFile(directory, name_, made);
        if (error == EEXIST) return openMarker(directory, name_);
        if (error != 0) throwFault("create", marker_.native(), error);
        if (const int denied = files_.setMode(made.get(), kMarkerMode))
            throwFault("set the mode of", marker_.native(), denied);
        return made;
    }

    [[noreturn]] void throwMarkerFault() const {
        const int error = errno;
        if (error != ELOOP) throwFault("open", marker_.native(), error);
        throw Error(ErrorCode::kNotAllowed, "{} is a link, and a marker never is", marker_.native())
            .hint("find out who put it there, and remove it");
    }

    [[noreturn]] void throwBusy() const {
        throw Error(ErrorCode::kBusy, "another process is promoting into {}", marker_.parent_path().native())
            .hint("wait until it has finished, then try again; `fuser " + marker_.native() + "` names the process");
    }

    fs::path marker_;
    std::string name_;
    TargetClaim claim_;
    FileOperations& files_;
    TargetLock::Options options_;
    bool isInProject_;
};

}  // namespace

std::string TargetClaim::encode() const {
    const std::string text = std::string(kTitle) + line("store", store) + line("state", state) +
                             line("project", project) + line("stage", stage) +
                             line("promotion", std::to_string(promotion)) +
                             line("directory", madeDirectory ? "made" : "found");
    return text + checksum(text);
}

TargetClaim TargetClaim::decode(std::string_view text) {
    std::string_view rest = text;
    if (!rest.starts_with(kTitle)) throw Error(ErrorCode::kDamaged, "this is not the marker of a target");
    rest.remove_prefix(kTitle.size());
    TargetClaim claim;
    claim.store = take(rest, "store");
    claim.state = take(rest, "state");
    claim.project = take(rest, "project");
    claim.stage = take(rest, "stage");
    claim.promotion = numberIn(take(rest, "promotion"));
    claim.madeDirectory = take(rest, "directory") == "made";
    if (claim.encode() != text) throw Error(ErrorCode::kDamaged, "the marker of a target was changed");
    return claim;
}

TargetLock TargetLock::take(const TargetIdentity& target, TargetClaim claim, FileOperations& files,
                            const Options& options) {
    if (target.marker.empty()) return TargetLock(FileDescriptor());
    return TargetLock(Taking(target, std::move(claim), files, options).run());
}

TargetLock TargetLock::take(const TargetIdentity& target, TargetClaim claim, FileOperations& files) {
    return take(target, std::move(claim), files, Options());
}

void TargetLock::requireOurs(const TargetIdentity& target, const TargetClaim& claim) {
    const auto found = target.marker.empty() ? std::nullopt : claimOf(target.marker);
    if (!found) return;
    refuseOtherStore(*found, claim.store, target.marker);
    if (!target.isInProject) refuseOtherProject(*found, claim.project, target.marker);
}

void TargetLock::refuseOtherStore(const TargetClaim& found, const std::string& store, const fs::path& marker) {
    if (found.store == store) return;
    throw Error(ErrorCode::kNotAllowed,
                "this target belongs to another store: {} (store {}, project {}, stage {}, last promotion p{})",
                printable(found.state), printable(found.store), printable(found.project), printable(found.stage),
                found.promotion)
        .hint(fmt::format("promote through that store (GRADUS_HOME={}, as the user that it belongs to), or, if it is "
                          "gone for good, remove {}",
                          printable(found.state), marker.native()));
}

// A project that is not there any more was moved, or is gone for good: whoever comes with its rules goes on with it.
void TargetLock::refuseOtherProject(const TargetClaim& found, const fs::path& project, const fs::path& marker) {
    std::error_code ignored;
    if (found.project == project.native() || !fs::is_directory(found.project, ignored) ||
        fs::equivalent(found.project, project, ignored))
        return;
    throw Error(ErrorCode::kNotAllowed, "this target is stage {} of {} (last promotion p{})", printable(found.stage),
                printable(found.project), found.promotion)
        .hint(fmt::format("promote there, give this stage a path of its own, or, if that project has done with it, "
                          "remove {} and adopt it",
                          marker.native()));
}

// It is written only by who has the lock of the marker.
void TargetLock::dropLeft(const TargetIdentity& target, FileOperations& files) {
    const FileDescriptor directory(::open(target.marker.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const std::string name = target.marker.filename();
    if (!directory || !sight(directory.get(), name + ".part").exists) return;
    const FileDescriptor marker = openMarker(directory.get(), name);
    if (!marker || ::flock(marker.get(), LOCK_EX | LOCK_NB) != 0 || !hasName(marker.get(), directory.get(), name))
        return;
    static_cast<void>(files.removeFile(directory.get(), name + ".part"));
}

std::optional<TargetClaim> TargetLock::claimOf(const fs::path& marker) {
    const FileDescriptor file = openMarker(AT_FDCWD, marker);
    if (!file && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
    if (!file) throwFault("open", marker.native(), errno);
    return readClaim(file.get(), marker);
}

}  // namespace gradus
