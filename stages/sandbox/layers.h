#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "stages/sandbox/change_layer.h"
#include "store/file.h"

namespace gradus {

/// The directories of layers (docs/sandboxes.md): made, judged, taken away. What should be there is in the store; this
/// knows what is. Any number of threads and processes, as long as one layer has one user.
class Layers {
  public:
    /// `root` is "sandboxes" in the state directory. `store` is the store's id: a layer of another is not ours.
    Layers(std::filesystem::path root, std::string store) : root_(std::move(root)), store_(std::move(store)) {}

    std::filesystem::path upper(std::int64_t layer) const { return place(layer) / "upper"; }
    std::filesystem::path work(std::int64_t layer) const { return place(layer) / "work"; }
    /// Where the layer has its part of another overlay than the project's: a git directory elsewhere, a mount below.
    std::filesystem::path part(std::int64_t layer, const std::filesystem::path& target) const;
    std::filesystem::path lockFile(std::int64_t sandbox) const;

    /// The directories that everything else lies in.
    void prepare() const;

    /// An empty layer whose top looks like `model`'s: what is shown of it is its own owner, mode and times. One that
    /// was half made is finished.
    void make(std::int64_t layer, const std::filesystem::path& model) const;
    /// An overlay that need not sync leaves a mark in its work directory, with which it refuses to be mounted again.
    void renewWork(std::int64_t layer) const;
    /// A layer with what was written in memory.
    void makeFrom(std::int64_t layer, int memory) const;
    /// A layer that shows a tree which does not exist yet, over the directory that the change is about.
    void makeFrom(std::int64_t layer, const ChangeLayer& change, const Objects& objects) const;
    /// The same for a part; without `memory` an empty one that looks like `model`, unless it is there.
    void makePart(std::int64_t layer, const std::filesystem::path& target, int memory) const;
    void makePart(std::int64_t layer, const std::filesystem::path& target, const std::filesystem::path& model) const;
    /// The layers, topmost first, as one: built inside the layer `host`, on the disk when this returns.
    void merge(const std::vector<std::int64_t>& layers, std::int64_t host) const;
    /// Puts what merge() built in its place. Does nothing if it is there already.
    void placeMerged(std::int64_t host, std::int64_t layer) const;

    /// What was written in memory over the layer `below`, as the layer that will lie on it.
    void stageNext(std::int64_t below, int memory) const;
    /// Puts what stageNext() made in its place. Does nothing if it is there already.
    void placeNext(std::int64_t below, std::int64_t layer) const { placeFrom(place(below) / "next", layer); }

    /// The directories are there, ours alone, and marked as this layer of this store.
    bool isWhole(std::int64_t layer) const;
    /// Why it is not; nothing if it is.
    std::string flaw(std::int64_t layer) const;

    /// Out of the way at once; the time it takes to delete is for emptyTrash() to spend. False if it was not there.
    bool discard(std::int64_t layer) const;
    /// The same, and deleted at once.
    void remove(std::int64_t layer) const;
    /// Deletes what was discarded; gives the bytes that were allocated to it.
    std::uint64_t emptyTrash() const;

    std::vector<std::int64_t> listed() const;
    /// Sandboxes that have a lock file.
    std::vector<std::int64_t> locked() const;

  private:
    std::filesystem::path place(std::int64_t layer) const;
    std::string mark(std::int64_t layer) const;
    void begin(std::int64_t layer) const;
    void finish(std::int64_t layer) const;
    void placeFrom(const std::filesystem::path& source, std::int64_t layer) const;

    std::filesystem::path root_;
    std::string store_;
};

}  // namespace gradus
