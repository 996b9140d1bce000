#include "stages/sandbox/layers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <map>
#include <optional>

#include "stages/sandbox/layer_tree.h"
#include "store/model/digest.h"
#include "store/model/error.h"

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
std::optional<std::string> markIn(const fs::path& layer) {
    const FileDescriptor file(
        ::open((layer / "mark").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    struct stat info {};
    if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
    char text[kMostMark];
    const ssize_t size = ::read(file.get(), text, sizeof text);
    if (size < 0) fail("read", layer / "mark");
    return std::string(text, static_cast<std::size_t>(size));
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

std::vector<std::string> partsOf(const fs::path& layer) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator it(layer / "parts", error); !error && it != fs::directory_iterator();
         it.increment(error))
        names.push_back(it->path().filename());
    return names;
}

void mergeInto(const std::vector<fs::path>& layers, const fs::path& target) {
    std::vector<FileDescriptor> sources;
    for (const fs::path& layer : layers) sources.push_back(openDirectory(layer));
    mergeTrees(sources, openDirectory(target).get());
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

fs::path Layers::part(std::int64_t layer, const fs::path& target) const {
    return place(layer) / "parts" / sha256(target.native()).hex();
}

std::string Layers::mark(std::int64_t layer) const { return fmt::format("gradus-layer 1 {} {}\n", store_, layer); }

void Layers::prepare() const {
    for (const char* name : {"", "layers", "locks", "trash"}) makeDirectory(root_ / name);
}

void Layers::begin(std::int64_t layer) const {
    if (::mkdir(place(layer).c_str(), 0700) != 0 && errno != EEXIST) {
        if (errno != ENOENT) fail("make", place(layer));
        prepare();
        makeDirectory(place(layer));
    }
    makeDirectory(work(layer));
}

// The mark comes last: a layer that has it was made to the end.
void Layers::finish(std::int64_t layer) const {
    const fs::path path = place(layer) / "mark";
    const FileDescriptor file = openFile(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    writeAll(file.get(), mark(layer), path);
}

void Layers::make(std::int64_t layer, const fs::path& model) const {
    begin(layer);
    makeDirectory(upper(layer));
    copyLook(openDirectory(model).get(), openDirectory(upper(layer)).get(), Marks::kLeave);
    finish(layer);
}

void Layers::makeFrom(std::int64_t layer, int memory) const {
    begin(layer);
    makeDirectory(upper(layer));
    const FileDescriptor target = openDirectory(upper(layer));
    copyTree(memory, target.get());
    finish(layer);
}

void Layers::makeFrom(std::int64_t layer, const ChangeLayer& change, const Objects& objects) const {
    begin(layer);
    makeDirectory(upper(layer));
    writeChangeLayer(change, objects, openDirectory(upper(layer)).get());
    finish(layer);
}

namespace {

void beginPart(const fs::path& part) {
    makeDirectory(part.parent_path());
    for (const char* name : {"", "work", "upper"}) makeDirectory(part / name);
}

}  // namespace

void Layers::makePart(std::int64_t layer, const fs::path& target, int memory) const {
    beginPart(part(layer, target));
    copyTree(memory, openDirectory(part(layer, target) / "upper").get());
}

void Layers::makePart(std::int64_t layer, const fs::path& target, const fs::path& model) const {
    const fs::path place = part(layer, target);
    if (fs::exists(fs::symlink_status(place / "upper"))) {
        removeContents(openDirectory(place / "work").get());
        return;
    }
    beginPart(place);
    copyLook(openDirectory(model).get(), openDirectory(place / "upper").get(), Marks::kLeave);
}

void Layers::renewWork(std::int64_t layer) const { removeContents(openDirectory(work(layer)).get()); }

void Layers::merge(const std::vector<std::int64_t>& layers, std::int64_t host) const {
    const fs::path target = place(host) / "merged";
    if (fs::exists(fs::symlink_status(target))) fs::rename(target, trashName(root_ / "trash", target));
    makeDirectory(target);
    makeDirectory(target / "upper");
    std::vector<fs::path> uppers;
    std::map<std::string, std::vector<fs::path>> parts;
    for (const std::int64_t layer : layers) {
        uppers.push_back(upper(layer));
        for (const std::string& name : partsOf(place(layer)))
            parts[name].push_back(place(layer) / "parts" / name / "upper");
    }
    makeDirectory(target / "work");
    mergeInto(uppers, target / "upper");
    for (const auto& [name, sources] : parts) {
        beginPart(target / "parts" / name);
        mergeInto(sources, target / "parts" / name / "upper");
    }
    const FileDescriptor merged = openDirectory(target);
    // The layers it is made of may be deleted afterwards: that must not reach the disk first.
    if (::syncfs(merged.get()) != 0) fail("sync", target);
}

void Layers::stageNext(std::int64_t below, int memory) const {
    const fs::path target = place(below) / "next";
    for (const char* name : {"", "upper", "work"}) makeDirectory(target / name);
    copyTree(memory, openDirectory(target / "upper").get());
}

void Layers::placeMerged(std::int64_t host, std::int64_t layer) const { placeFrom(place(host) / "merged", layer); }

void Layers::placeFrom(const fs::path& source, std::int64_t layer) const {
    if (::rename(source.c_str(), place(layer).c_str()) != 0 && errno != ENOENT) fail("place", source);
    if (flawOf(place(layer), true).empty() && !fs::exists(fs::symlink_status(place(layer) / "mark"))) finish(layer);
}

std::string Layers::flaw(std::int64_t layer) const {
    if (std::string found = flawOf(root_, true); !found.empty()) return found;
    const fs::path path = place(layer);
    if (std::string found = flawOf(path, true); !found.empty()) return found;
    for (const char* name : {"upper", "work"})
        if (std::string found = flawOf(path / name, false); !found.empty()) return found;
    const auto text = markIn(path);
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

void Layers::remove(std::int64_t layer) const {
    const fs::path trash = trashName(root_ / "trash", place(layer));
    if (::rename(place(layer).c_str(), trash.c_str()) != 0) {
        if (errno == ENOENT) return;
        fail("remove", place(layer));
    }
    removeContents(openDirectory(trash).get());
    ::rmdir(trash.c_str());
}

std::uint64_t Layers::emptyTrash() const {
    const fs::path trash = root_ / "trash";
    std::error_code error;
    if (!fs::is_directory(fs::symlink_status(trash, error))) return 0;
    return removeContents(openDirectory(trash).get());
}

std::vector<std::int64_t> Layers::listed() const { return numbersIn(root_ / "layers", 'l'); }
std::vector<std::int64_t> Layers::locked() const { return numbersIn(root_ / "locks", 's'); }

}  // namespace gradus
