#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stages/changes/file_operations.h"
#include "stages/changes/tree_writer_beneath.h"
#include "stages/changes/tree_writer_journal.h"
#include "store/objects.h"

namespace gradus {

/// How a staged file or link is to look, besides its content.
struct Looks {
    Entry entry;
    uid_t user = static_cast<uid_t>(-1);  ///< -1: as it comes
    gid_t group = static_cast<gid_t>(-1);
    std::optional<timespec> modified;
    std::vector<Attribute> attributes;
};

/// The directory of temporaries in the root, on the same mount as what they will replace. Change number N has the name
/// "N" in it: its new content before the swap, what came out of the tree after it. What is still being written is
/// called "N.part", so that whatever is called "N" is whole.
class Staging {
  public:
    static constexpr std::string_view kPrefix = ".gradus-staging-";

    Staging(const TreeRoot& root, FileOperations& files, const Journal& journal);

    /// Opens it, making it first where it is missing.
    void open();
    bool exists() const;
    int descriptor() const { return directory_.get(); }
    static std::string slot(std::size_t change) { return std::to_string(change); }
    Sighting slotOf(std::size_t change) const { return sight(directory_.get(), slot(change)); }

    /// Not durable, and not called by its own name before finish(). False when the content turned out not to be
    /// `looks.entry`.
    [[nodiscard]] bool stageFile(std::size_t change, ByteSource& content, const Looks& looks);
    void stageLink(std::size_t change, const std::string& text, const Looks& looks);
    /// Makes all that was staged last, and gives it its names.
    void finish();
    /// Forgets what a slot holds.
    void discard(std::size_t change);
    /// Whether a slot holds what its change puts there or takes away, whatever its mode.
    bool isOurs(std::size_t change, const Sighting& seen, const std::map<std::size_t, Sighting>& proven) const;
    /// Gives somebody's work in a slot a name beside its path, and says which.
    std::string save(std::size_t change);

    /// Changes whose slot holds somebody's work; all others are added to `proven`.
    std::vector<std::size_t> strangers(std::map<std::size_t, Sighting>& proven);
    /// Removes it with what is in it. Something that is neither a `before` nor an `after` of its change is somebody's
    /// work that lost its place: it is put back beside it and named in the result. `proven`: slots that were looked at
    /// already and need not be read again unless they changed since.
    std::vector<std::string> remove(const std::map<std::size_t, Sighting>& proven);

  private:
    struct Pending {
        std::size_t change;
        FileDescriptor file;  ///< none for a link
    };

    bool write(int file, ByteSource& content, const Entry& entry, const std::string& path);
    void dress(int file, const Looks& looks, const std::string& path);
    void flush();
    void clear(const std::string& name);
    const std::string& pathOf(std::size_t change) const { return journal_.changes.changes()[change].path; }

    const TreeRoot& root_;
    FileOperations& files_;
    const Journal& journal_;
    FileDescriptor directory_;
    std::vector<Pending> pending_;
};

}  // namespace gradus
