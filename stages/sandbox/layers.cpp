#include "stages/sandbox/layers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <map>
#include <optional>

#include "plugins/isolation/loop_image.h"
#include "stages/sandbox/image_in_use.h"
#include "stages/sandbox/layer_entries.h"
#include "stages/sandbox/layer_tree.h"
#include "store/model/digest.h"
#include "store/model/error.h"
#include "store/privilege.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMostMark = 256;

[[noreturn]] void fail(std::string_view what, const fs::path& path) {
    throw Error(ErrorCode::kInfrastructure, "cannot {} {}: {}", what, path.native(), errnoText(errno));
}

void makeDirectory(const fs::path& path) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) fail("make", path);
}

FileDescriptor openDirectory(const fs::path& path) { return openFile(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW); }

FileDescriptor openDirectory(int parent, const std::string& name) {
    FileDescriptor open(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!open) fail("open", name);
    return open;
}

FileDescriptor madeDirectory(int parent, const std::string& name) {
    if (::mkdirat(parent, name.c_str(), 0700) != 0 && errno != EEXIST) fail("make", name);
    return openDirectory(parent, name);
}

bool isRegular(const fs::path& path) {
    struct stat info {};
    return ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

/// "l12" -> 12: nothing for a name that we would not give.
std::optional<std::int64_t> numberAfter(char letter, const std::string& name) {
    std::int64_t number = 0;
    if (name.size() < 2 || name.front() != letter || name[1] == '0' || name[1] == '-') return std::nullopt;
    const char* const end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + 1, end, number);
    return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

std::vector<std::int64_t> numbersIn(const fs::path& directory, char letter) {
    std::vector<std::int64_t> all;
    std::error_code error;
    for (fs::directory_iterator it(directory, error); !error && it != fs::directory_iterator(); it.increment(error))
        if (const auto number = numberAfter(letter, it->path().filename().native())) all.push_back(*number);
    return all;
}

// A chain of layers is looked at before every use, so this is one call to open and one to read.
std::optional<std::string> wordIn(const fs::path& path) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    struct stat info {};
    if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
    char text[kMostMark];
    const ssize_t size = ::read(file.get(), text, sizeof text);
    if (size < 0) fail("read", path);
    return std::string(text, static_cast<std::size_t>(size));
}

void putWord(const fs::path& path, std::string_view text) {
    const FileDescriptor file = openFile(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    writeAll(file.get(), text, path);
}

std::string flawOf(const fs::path& path, bool ours) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) return path.native() + " is gone";
    if (!S_ISDIR(info.st_mode))
        return path.native() + " is " + std::string(fileTypeName(info.st_mode)) + ", not a directory";
    if (ours && info.st_uid != ::geteuid()) return path.native() + " belongs to somebody else";
    if (ours && (info.st_mode & 0022) != 0) return path.native() + " can be written by others";
    return "";
}

std::vector<std::string> partsOf(int content) {
    const FileDescriptor parts(::openat(content, "parts", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    return parts ? namesIn(parts.get()) : std::vector<std::string>();
}

std::string partName(const fs::path& target) { return sha256(target.native()).hex(); }

// After this, what a crash left half made is whole.
FileDescriptor beginPart(int content, const std::string& name) {
    const FileDescriptor parts = madeDirectory(content, "parts");
    FileDescriptor part = madeDirectory(parts.get(), name);
    for (const char* directory : {"work", "upper"}) madeDirectory(part.get(), directory);
    return part;
}

// Renamed, so that a name in the trash is never in the way of the next.
fs::path trashName(const fs::path& trash, const fs::path& what) {
    static std::atomic<std::uint64_t> count{0};
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    return trash / fmt::format("{}.{}.{}.{}", what.filename().native(), ::getpid(),
                               now.tv_sec * 1'000'000'000 + now.tv_nsec, ++count);
}

}  // namespace

fs::path Layers::place(std::int64_t layer) const { return root_ / "layers" / ("l" + std::to_string(layer)); }
fs::path Layers::lockFile(std::int64_t sandbox) const { return root_ / "locks" / ("s" + std::to_string(sandbox)); }

fs::path Layers::content(std::int64_t layer) const {
    return isRegular(place(layer) / "image") ? place(layer) / "disk" : place(layer);
}

fs::path Layers::part(std::int64_t layer, const fs::path& target) const {
    return content(layer) / "parts" / partName(target);
}

std::optional<ImageMount> Layers::imageOf(std::int64_t layer) const {
    const fs::path image = place(layer) / "image";
    if (!isRegular(image)) return std::nullopt;
    return ImageMount{image, place(layer) / "disk", true};
}

OpenLayer Layers::open(std::int64_t layer, Access access) const {
    const auto image = imageOf(layer);
    if (!image) return OpenLayer(openDirectory(place(layer)));
    if (access == Access::kBeside)
        if (auto shared = openImageInUse(image->file)) return OpenLayer(std::move(*shared));
    return OpenLayer(openLoopImage(image->file, access != Access::kWrite));
}

FileDescriptor OpenLayer::upper() const { return openDirectory(get(), "upper"); }
FileDescriptor OpenLayer::work() const { return openDirectory(get(), "work"); }
void OpenLayer::renewWork() const { removeContents(work().get()); }

std::optional<FileDescriptor> OpenLayer::part(const fs::path& target) const {
    FileDescriptor upper(::openat(get(), ("parts/" + partName(target) + "/upper").c_str(),
                                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!upper) return std::nullopt;
    return upper;
}

std::vector<FileDescriptor> OpenLayer::uppers() const {
    std::vector<FileDescriptor> all;
    all.push_back(upper());
    for (const std::string& name : partsOf(get())) all.push_back(openDirectory(get(), "parts/" + name + "/upper"));
    return all;
}

std::uint64_t Layers::size(std::int64_t layer) const {
    constexpr std::uint64_t kBlock = 512;
    struct stat info {};
    if (const auto image = imageOf(layer))
        return ::stat(image->file.c_str(), &info) == 0 ? static_cast<std::uint64_t>(info.st_blocks) * kBlock : 0;
    return allocatedBelow(openDirectory(place(layer)).get());
}

std::string Layers::mark(std::int64_t layer) const { return fmt::format("gradus-layer 1 {} {}\n", store_, layer); }

void Layers::prepare() const {
    for (const char* name : {"", "layers", "locks", "trash"}) makeDirectory(root_ / name);
}

void Layers::begin(std::int64_t layer) const {
    if (::mkdir(place(layer).c_str(), 0700) == 0 || errno == EEXIST) return;
    if (errno != ENOENT) fail("make", place(layer));
    prepare();
    makeDirectory(place(layer));
}

// The mark comes last: a layer that has it was made to the end.
void Layers::finish(std::int64_t layer) const { putWord(place(layer) / "mark", mark(layer)); }

void Layers::setLimit(std::int64_t layer, std::uint64_t bytes) const {
    putWord(place(layer) / "limit", std::to_string(bytes));
}

std::optional<std::uint64_t> Layers::limitOf(std::int64_t layer) const {
    const auto text = wordIn(place(layer) / "limit");
    std::uint64_t bytes = 0;
    if (!text || std::from_chars(text->data(), text->data() + text->size(), bytes).ec != std::errc())
        return std::nullopt;
    return bytes;
}

void Layers::make(std::int64_t layer, const fs::path& model) const { make(layer, openDirectory(model).get()); }

void Layers::make(std::int64_t layer, int model) const {
    begin(layer);
    const OpenLayer content = open(layer, Access::kWrite);
    madeDirectory(content.get(), "work");
    copyLook(model, madeDirectory(content.get(), "upper").get(), Marks::kLeave);
    finish(layer);
}

void Layers::makeBounded(std::int64_t layer, int model, std::uint64_t bytes, std::uint64_t limit) const {
    begin(layer);
    setLimit(layer, limit);
    makeDirectory(place(layer) / "disk");
    makeLoopImage(place(layer) / "image", bytes, root_ / "images");
    make(layer, model);
}

void Layers::makeFrom(std::int64_t layer, int memory) const {
    begin(layer);
    const OpenLayer content = open(layer, Access::kWrite);
    madeDirectory(content.get(), "work");
    copyTree(memory, madeDirectory(content.get(), "upper").get());
    finish(layer);
}

void Layers::makeFrom(std::int64_t layer, const ChangeLayer& change, const Objects& objects) const {
    begin(layer);
    const OpenLayer content = open(layer, Access::kWrite);
    madeDirectory(content.get(), "work");
    writeChangeLayer(change, objects, madeDirectory(content.get(), "upper").get());
    finish(layer);
}

bool Layers::makeFrom(std::int64_t layer, const PinPlan& plan) const {
    begin(layer);
    makeDirectory(upper(layer));
    if (!plan.copyTo(upper(layer))) return false;
    finish(layer);
    return true;
}

void Layers::makePart(std::int64_t layer, const fs::path& target, int memory) const {
    const OpenLayer content = open(layer, Access::kWrite);
    copyTree(memory, openDirectory(beginPart(content.get(), partName(target)).get(), "upper").get());
}

void Layers::makePart(std::int64_t layer, const fs::path& target, const FileDescriptor& model) const {
    const OpenLayer content = open(layer, Access::kWrite);
    const std::string place = "parts/" + partName(target);
    if (::faccessat(content.get(), (place + "/upper").c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        removeContents(openDirectory(content.get(), place + "/work").get());
        return;
    }
    const FileDescriptor part = beginPart(content.get(), partName(target));
    copyLook(model.get(), openDirectory(part.get(), "upper").get(), Marks::kLeave);
}

void Layers::merge(const std::vector<std::int64_t>& layers, std::int64_t host) const {
    const fs::path target = place(host) / "merged";
    if (fs::exists(fs::symlink_status(target))) fs::rename(target, trashName(root_ / "trash", target));
    makeDirectory(target);
    const FileDescriptor merged = openDirectory(target);
    std::vector<FileDescriptor> uppers;
    std::map<std::string, std::vector<FileDescriptor>> parts;
    for (const std::int64_t layer : layers) {
        const OpenLayer content = open(layer, Access::kRead);
        uppers.push_back(openDirectory(content.get(), "upper"));
        for (const std::string& name : partsOf(content.get()))
            parts[name].push_back(openDirectory(content.get(), "parts/" + name + "/upper"));
    }
    madeDirectory(merged.get(), "work");
    mergeTrees(uppers, madeDirectory(merged.get(), "upper").get());
    // An ordinary user's copy of the system is the one that a FUSE program keeps.
    const std::string fused = isMachineRoot() ? "" : partName("/");
    for (const auto& [name, sources] : parts)
        mergeTrees(sources, openDirectory(beginPart(merged.get(), name).get(), "upper").get(),
                   name == fused ? FuseMarks::kCount : FuseMarks::kFiles);
    if (const auto base = baseOf(layers.back()))
        copyTree(openDirectory(*base).get(), madeDirectory(merged.get(), "base").get());
    // The layers it is made of may be deleted afterwards: that must not reach the disk first.
    if (::syncfs(merged.get()) != 0) fail("sync", target);
}

void Layers::makeBase(std::int64_t layer, const fs::path& directory, const std::set<std::string>& leftOut) const {
    makeDirectory(place(layer) / "base");
    copyTree(openDirectory(directory).get(), openDirectory(place(layer) / "base").get(), Tree::kForeign, leftOut);
}

std::optional<fs::path> Layers::baseOf(std::int64_t layer) const {
    const fs::path base = place(layer) / "base";
    if (!fs::is_directory(fs::symlink_status(base))) return std::nullopt;
    return base;
}

void Layers::stageNext(std::int64_t below, int memory) const {
    const fs::path target = place(below) / "next";
    for (const char* name : {"", "upper", "work"}) makeDirectory(target / name);
    copyTree(memory, openDirectory(target / "upper").get());
}

void Layers::placeMerged(std::int64_t host, std::int64_t layer) const { placeFrom(place(host) / "merged", layer); }

// The mark goes with it: what stands in its place without one was begun by somebody else, and is not whole.
void Layers::placeFrom(const fs::path& source, std::int64_t layer) const {
    if (!fs::exists(fs::symlink_status(source))) return;
    putWord(source / "mark", mark(layer));
    if (::rename(source.c_str(), place(layer).c_str()) != 0) fail("place", source);
}

std::string Layers::flaw(std::int64_t layer) const {
    std::string found = placeFlaw();
    return found.empty() ? ownFlaw(layer) : found;
}

std::string Layers::placeFlaw() const { return flawOf(root_, true); }

std::string Layers::ownFlaw(std::int64_t layer) const {
    const fs::path path = place(layer);
    if (std::string found = flawOf(path, true); !found.empty()) return found;
    const bool bounded = isRegular(path / "image");
    for (const char* name : {bounded ? "disk" : "upper", bounded ? "disk" : "work"})
        if (std::string found = flawOf(path / name, false); !found.empty()) return found;
    const auto text = wordIn(path / "mark");
    if (!text) return (path / "mark").native() + " is gone";
    return *text == mark(layer) ? "" : path.native() + " is another layer than it should be";
}

bool Layers::isWhole(std::int64_t layer) const { return flaw(layer).empty(); }

bool Layers::discard(std::int64_t layer) const {
    const fs::path path = place(layer);
    if (::rename(path.c_str(), trashName(root_ / "trash", path).c_str()) == 0) return true;
    if (errno != ENOENT) fail("discard", path);
    return false;
}

void Layers::remove(std::int64_t layer) const { removeAt(place(layer)); }
void Layers::dropBase(std::int64_t layer) const { removeAt(place(layer) / "base"); }
void Layers::dropParts(std::int64_t layer) const { removeAt(content(layer) / "parts"); }

void Layers::removeAt(const fs::path& path) const {
    const fs::path trash = trashName(root_ / "trash", path);
    if (::rename(path.c_str(), trash.c_str()) != 0) {
        if (errno == ENOENT) return;
        fail("remove", path);
    }
    removeContents(openDirectory(trash).get());
    ::rmdir(trash.c_str());
}

std::uint64_t Layers::emptyTrash(const fs::path& root) {
    const fs::path trash = root / "trash";
    std::error_code error;
    if (!fs::is_directory(fs::symlink_status(trash, error))) return 0;
    return removeContents(openDirectory(trash).get());
}

void Layers::removeOldTemplates(Time now) const {
    constexpr std::int64_t kWeek = std::int64_t{7} * 24 * 3600;
    const fs::path images = root_ / "images";
    const FileDescriptor directory(::open(images.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!directory) return;
    for (const std::string& name : namesIn(directory.get())) {
        struct stat info {};
        if (::fstatat(directory.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (info.st_mtim.tv_sec + kWeek < toMillis(now) / 1000) ::unlinkat(directory.get(), name.c_str(), 0);
    }
}

std::vector<std::int64_t> Layers::listed() const { return numbersIn(root_ / "layers", 'l'); }
std::vector<std::int64_t> Layers::locked() const { return numbersIn(root_ / "locks", 's'); }

}  // namespace gradus
