#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stages/changes/tree_writer_apply.h"
#include "stages/changes/tree_writer_pack.h"

namespace gradus {

/// Where one path stands between the two ends of its change.
enum class Standing {
    kBefore,
    kAfter,
    kNeither,
    kBlocked,  ///< the way to it leads through a link, another mount, or a directory that is closed to us
};

/// What one look at a path found. A second look may find something else: whoever decides, decides by one.
struct Look {
    Standing standing = Standing::kBlocked;
    Place place;
    Sighting seen;
};

Look lookAt(const TreeRoot& root, const ChangeSet& changes, std::size_t index);

/// What taking a plan back would write and meet now. Reads only.
UndoOutlook outlookOf(const TreeRoot& root, const Journal& journal);

/// Takes one plan back, from wherever it stands. Safe to repeat from the start, also after being cut off.
class Undoer : private TreeWork {
  public:
    Undoer(const TreeRoot& root, FileOperations& files, const Journal& journal, const Objects& objects)
        : TreeWork(root, files, journal), objects_(objects), kept_(journal.changes.changes().size()) {}

    /// Paths that somebody edited since all was applied. Changes nothing.
    std::vector<std::string> edited() const;
    /// Everything that is neither kept nor blocked is as before, to last.
    void run();
    std::vector<Kept> kept() const;
    std::vector<Kept> blocked() const;
    /// What is kept, and what tidy() is going to put beside its place.
    std::vector<Kept> left();
    /// Ends the temporaries; names what was put beside its place.
    std::vector<std::string> tidy();

  private:
    enum class Action { kNone, kRestore };
    void unlock();
    Action actionFor(std::size_t change);
    void stageMissing();
    bool needsContent(std::size_t change);
    void stage(const PackedEntry& packed, ByteSource& content);
    void takeBack(std::size_t change);
    void takeFileBack(std::size_t change, const Place& place);
    void freeSlot(std::size_t change);
    void restore(std::size_t change);
    void restoreDirectory(std::size_t change, const Place& place);
    void restoreContent(std::size_t change, const Place& place);
    void exchangeBack(std::size_t change, const Place& place);
    void setModes();
    void setTimes();
    FileDescriptor restored(const std::string& path);
    bool isOurMode(const std::string& path, std::uint32_t mode) const;
    void keep(std::size_t change, std::string reason);
    void leave(std::size_t change, Obstacle obstacle);
    void block(const std::string& path, Obstacle obstacle);
    UndoPack& pack();

    const Objects& objects_;
    std::vector<std::optional<std::string>> kept_;  ///< by change: why it is left alone
    std::map<std::string, std::string> blocked_;    ///< by path
    std::vector<Action> actions_;
    std::optional<UndoPack> pack_;
    std::vector<std::string> saved_;
    std::map<std::size_t, Sighting> proven_;
};

}  // namespace gradus
