#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stages/changes/file_operations.h"
#include "stages/changes/tree_record.h"
#include "store/file.h"
#include "store/model/digest.h"

namespace gradus {

/// A release that is whole, in a few bytes.
struct ReleaseHead {
    std::string id;
    Digest manifest;        ///< of its tree
    Digest record;          ///< of the bytes of its TreeRecord
    std::int64_t made = 0;  ///< milliseconds since 1970

    bool operator==(const ReleaseHead&) const = default;
};

/// Something that was not in the target before us. Gone when the stage is empty again, if it is still as we made it.
struct MadePath {
    std::string path;                ///< below the target
    std::optional<Digest> manifest;  ///< of what we put there; without it, a directory that must be empty

    bool operator==(const MadePath&) const = default;
};

/// What a release directory's driver remembers in its state directory: one record per release, what was made, and what
/// `activate` was last run for. Everything is durable when a method returns.
class ReleaseShelf {
  public:
    ReleaseShelf(const std::filesystem::path& state, FileOperations& files);

    /// Before a directory of that name is made: what has begun and is not finished can be thrown away.
    void begin(const std::string& id);
    /// The release is whole and durable. `outputs` are those of its paths that a check built.
    ReleaseHead finish(const std::string& id, const std::string& record, const Digest& manifest, std::int64_t made,
                       const std::vector<std::string>& outputs);
    /// `current` leads to it: it is one of the releases that are kept.
    void show(const std::string& id);
    /// It was taken back: should somebody's edits keep it on disk, it takes no place of those that are kept.
    void hide(const std::string& id);
    bool wasShown(const std::string& id) const;
    /// From here on something of it may be where only a person can look, whatever becomes of it.
    void bring(const std::string& id);
    bool wasBrought(const std::string& id) const;
    std::optional<ReleaseHead> head(const std::string& id) const;
    TreeRecord record(const ReleaseHead& head) const;
    /// Paths of the release that a check built, and the directories that are there only because of them.
    std::vector<std::string> outputs(const std::string& id) const;
    /// Everything that has begun, finished or not.
    std::vector<std::string> begun() const;
    void forget(const std::string& id);

    std::vector<MadePath> made() const;
    void setMade(const std::vector<MadePath>& made);

    /// What `activate` was last run for.
    struct Activation {
        bool isOpen = false;  ///< `current` is being switched, or `activate` has not said yes since
        std::string id;       ///< of the release; "" for none
    };
    Activation activation() const;
    void setActivation(const Activation& activation);

  private:
    void put(const std::string& name, std::string_view bytes);
    void drop(const std::string& name);
    std::optional<std::string> get(const std::string& name, std::uint64_t cap) const;

    std::filesystem::path path_;
    FileOperations& files_;
    FileDescriptor directory_;
};

}  // namespace gradus
