#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "stages/changes/file_operations.h"
#include "stages/changes/tree_writer.h"
#include "tests/support/scratch.h"

namespace gradus::test {

/// One path of a tree, with everything that undo promises to bring back.
struct Node {
    EntryType type = EntryType::kFile;
    std::uint32_t mode = 0644;
    std::string bytes;  ///< or the link's text
    uid_t user = 0;
    gid_t group = 0;
    std::int64_t modified = 0;  ///< nanoseconds; 0 for a directory: whose names moved is not who was written

    bool operator==(const Node&) const = default;
};
using Tree = std::map<std::string, Node>;

inline Node file(std::string bytes, std::uint32_t mode = 0644) { return {EntryType::kFile, mode, std::move(bytes)}; }
inline Node link(std::string text) { return {EntryType::kSymlink, 0777, std::move(text)}; }
inline Node folder(std::uint32_t mode = 0755) { return {EntryType::kDirectory, mode, ""}; }

void build(const std::filesystem::path& root, const Tree& tree);
/// Of the directories in `closed`, only that they are there.
Tree readTree(const std::filesystem::path& root, const std::set<std::string>& closed = {});
/// Type, mode and bytes only: what a change set speaks of.
Tree plain(Tree tree);
/// One line for each path that differs, for messages.
std::string difference(const Tree& a, const Tree& b);
std::ostream& operator<<(std::ostream& out, const Node& node);

/// What leads from one tree to the other; the new contents go into `objects`.
ChangeSet changesBetween(const Tree& before, const Tree& after, Objects& objects);
Entry entryOf(const Node& node);

/// The kernel's calls, each announced first. The hook answers 0 to go on, an errno to fail instead, or kTear: write
/// half and die.
class WatchedOperations final : public FileOperations {
  public:
    static constexpr int kTear = -1;
    static constexpr int kShort = -2;
    using Hook = std::function<int(std::size_t number, std::string_view call, std::string_view name)>;
    explicit WatchedOperations(Hook hook = {}) : hook_(std::move(hook)) {}

    std::size_t count() const { return count_; }

    int createFile(int directory, const std::string& name, FileDescriptor& made) override;
    int write(int file, std::string_view bytes, std::uint64_t offset, std::size_t& written) override;
    int resize(int file, std::uint64_t size) override;
    int shareContent(int file, int source) override;
    int makeDirectory(int directory, const std::string& name) override;
    int makeLink(int directory, const std::string& name, const std::string& text) override;
    int move(int fromDirectory, const std::string& from, int toDirectory, const std::string& to, Move how) override;
    int removeFile(int directory, const std::string& name) override;
    int removeDirectory(int directory, const std::string& name) override;
    int setMode(int file, mode_t mode) override;
    int setOwner(int file, uid_t user, gid_t group) override;
    int setModified(int file, const timespec& time) override;
    int setAttribute(int file, const std::string& name, std::string_view value) override;
    int sync(int file) override;
    int syncFileSystem(int anyFile) override;
    int delegate(std::string_view what, const std::function<int()>& act) override;

  private:
    int before(std::string_view call, std::string_view name);

    Hook hook_;
    std::size_t count_ = 0;
    RealFileOperations real_;
};

[[noreturn]] void dieNow();

/// A root, journals and objects in memory, gone with the test.
class TreeRig {
  public:
    TreeRig();
    ~TreeRig();

    std::filesystem::path root() const { return base_ / "root"; }
    std::filesystem::path outside() const { return base_ / "outside"; }
    std::filesystem::path base() const { return base_; }
    std::filesystem::path journals() const { return base_ / "journals"; }
    Objects& objects() { return objects_; }
    Tree now() const { return readTree(root()); }
    /// Empties the root and builds anew; the undo of everything that went before.
    void reset(const Tree& tree);

    TreeWriter writer(FileOperations& files) { return {root(), journals(), objects_, files, random_}; }
    TreeWriter writer() { return writer(real_); }
    ChangeSet changesTo(const Tree& after) { return changesBetween(plain(now()), after, objects_); }

    /// Plans, seals and applies; the plan must be clear.
    struct Applied {
        JournalRef ref;
        ApplyReport report;
    };
    Applied apply(const ChangeSet& changes, FileOperations& files);
    Applied apply(const ChangeSet& changes) { return apply(changes, real_); }
    Applied applyTo(const Tree& after) { return apply(changesTo(after)); }

  private:
    std::filesystem::path base_;
    FakeClock clock_;
    SystemRandom random_;
    RealFileOperations real_;
    Objects objects_;
};

/// Runs `work` in a process of its own. The signal that ended it, or minus its exit code: 0 went well, -1 an Error,
/// which is printed.
int inChild(const std::function<void()>& work);

/// A tree and what becomes of it, with every type and every transition between them.
Tree sampleBefore();
Tree sampleAfter();

/// Also what lies in directories that may not be written.
void removeTree(const std::filesystem::path& path);

bool isRoot();

}  // namespace gradus::test
