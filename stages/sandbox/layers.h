#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plugins/api/isolation.h"
#include "stages/sandbox/change_layer.h"
#include "stages/sandbox/pinned_base.h"
#include "store/file.h"

namespace gradus {

/// A layer's directories, whether they lie in an image or not. An image is mounted for as long as this is there, or
/// anything that was opened through it.
class OpenLayer {
  public:
    explicit OpenLayer(FileDescriptor content) : content_(std::move(content)) {}

    /// What holds `upper`, `work` and `parts`.
    int get() const { return content_.get(); }
    FileDescriptor upper() const;
    FileDescriptor work() const;
    /// Nothing if the layer has no part of that overlay.
    std::optional<FileDescriptor> part(const std::filesystem::path& target) const;
    /// Everything that it has changes in: `upper`, and that of each part.
    std::vector<FileDescriptor> uppers() const;
    /// An overlay that need not sync leaves a mark in its work directory, with which it refuses to be mounted again.
    void renewWork() const;

  private:
    FileDescriptor content_;
};

/// The directories of layers (docs/sandboxes.md): made, judged, taken away. What should be there is in the store; this
/// knows what is. Any number of threads and processes, as long as one layer has one user.
class Layers {
  public:
    /// `root` is "sandboxes" in the state directory. `store` is the store's id: a layer of another is not ours.
    Layers(std::filesystem::path root, std::string store) : root_(std::move(root)), store_(std::move(store)) {}

    /// For a plan. What lies in an image is at these places only where the image is mounted (imageOf).
    std::filesystem::path upper(std::int64_t layer) const { return content(layer) / "upper"; }
    std::filesystem::path work(std::int64_t layer) const { return content(layer) / "work"; }
    /// Where the layer has its part of another overlay than the project's: a git directory elsewhere, a mount below.
    std::filesystem::path part(std::int64_t layer, const std::filesystem::path& target) const;

    /// The layer's directories lie in an image, which bounds what it can hold: where to mount it. Only root has such.
    std::optional<ImageMount> imageOf(std::int64_t layer) const;
    /// Nobody else may be writing to the layer, but for kBeside: what is there while a command writes. A writable one
    /// of an image must be closed before anybody mounts it.
    enum class Access { kRead, kWrite, kBeside };
    OpenLayer open(std::int64_t layer, Access access) const;
    FileDescriptor openUpper(std::int64_t layer) const { return open(layer, Access::kRead).upper(); }
    /// Bytes that the layer has on the disk; of an image, what of it is allocated.
    std::uint64_t size(std::int64_t layer) const;
    std::filesystem::path lockFile(std::int64_t sandbox) const;

    /// The directories that everything else lies in.
    void prepare() const;

    /// An empty layer whose top looks like `model`'s: what is shown of it is its own owner, mode and times. One that
    /// was half made is finished.
    void make(std::int64_t layer, const std::filesystem::path& model) const;
    void make(std::int64_t layer, int model) const;
    /// The same in an image of its own, of which it cannot hold more than `bytes`, so that all together keep to
    /// `limit`.
    void makeBounded(std::int64_t layer, int model, std::uint64_t bytes, std::uint64_t limit) const;
    void renewWork(std::int64_t layer) const { open(layer, Access::kWrite).renewWork(); }
    /// A layer with what was written in memory.
    void makeFrom(std::int64_t layer, int memory) const;
    /// A layer that shows a tree which does not exist yet, over the directory that the change is about.
    void makeFrom(std::int64_t layer, const ChangeLayer& change, const Objects& objects) const;
    /// A layer with a copy of a project's files. False when they did not hold still: it is not whole then.
    bool makeFrom(std::int64_t layer, const PinPlan& plan) const;
    /// The same for a part; without `memory` an empty one that looks like `model`, unless it is there.
    void makePart(std::int64_t layer, const std::filesystem::path& target, int memory) const;
    void makePart(std::int64_t layer, const std::filesystem::path& target, const FileDescriptor& model) const;
    /// Only what lies at the project is left of the layer.
    void dropParts(std::int64_t layer) const;
    /// The layers, topmost first, as one: built inside the layer `host`, on the disk when this returns.
    void merge(const std::vector<std::int64_t>& layers, std::int64_t host) const;
    /// Puts what merge() built in its place. Does nothing if it is there already.
    void placeMerged(std::int64_t host, std::int64_t layer) const;

    /// What all layers down from this one may hold together, as somebody once said; nothing if nobody did.
    std::optional<std::uint64_t> limitOf(std::int64_t layer) const;
    void setLimit(std::int64_t layer, std::uint64_t bytes) const;

    /// A bottom layer may bring what it lies on with it: a copy of a directory that is not the project.
    void makeBase(std::int64_t layer, const std::filesystem::path& directory,
                  const std::set<std::string>& leftOut) const;
    void dropBase(std::int64_t layer) const;
    /// Where that is; nothing if the layer lies on the project.
    std::optional<std::filesystem::path> baseOf(std::int64_t layer) const;

    /// What was written in memory over the layer `below`, as the layer that will lie on it.
    void stageNext(std::int64_t below, int memory) const;
    /// Puts what stageNext() made in its place. Does nothing if it is there already.
    void placeNext(std::int64_t below, std::int64_t layer) const { placeFrom(place(below) / "next", layer); }

    /// The directories are there, ours alone, and marked as this layer of this store.
    bool isWhole(std::int64_t layer) const;
    /// Why it is not; nothing if it is.
    std::string flaw(std::int64_t layer) const;
    /// The same in two: what all of them lie in, and one by itself.
    std::string placeFlaw() const;
    std::string ownFlaw(std::int64_t layer) const;

    /// Out of the way at once; the time it takes to delete is for emptyTrash() to spend. False if it was not there.
    bool discard(std::int64_t layer) const;
    /// The same, and deleted at once.
    void remove(std::int64_t layer) const;
    /// Empty images of sizes that nobody asked for in a week.
    void removeOldTemplates(Time now) const;
    /// Deletes what was discarded below `root`, whoever's it was; gives the bytes that were allocated to it.
    static std::uint64_t emptyTrash(const std::filesystem::path& root);

    std::vector<std::int64_t> listed() const;
    /// Sandboxes that have a lock file.
    std::vector<std::int64_t> locked() const;

  private:
    std::filesystem::path place(std::int64_t layer) const;
    std::filesystem::path content(std::int64_t layer) const;
    std::string mark(std::int64_t layer) const;
    void begin(std::int64_t layer) const;
    void finish(std::int64_t layer) const;
    void placeFrom(const std::filesystem::path& source, std::int64_t layer) const;
    void removeAt(const std::filesystem::path& path) const;

    std::filesystem::path root_;
    std::string store_;
};

}  // namespace gradus
