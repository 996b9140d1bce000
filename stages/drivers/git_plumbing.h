#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stages/changes/file_operations.h"
#include "stages/changes/git_work_tree.h"
#include "store/file.h"

namespace gradus {

/// What git has at a path, in a tree or in the index.
struct GitEntry {
    std::string mode;  ///< "100644", "100755", "120000", "160000"
    std::string id;

    bool operator==(const GitEntry&) const = default;
};
using GitEntries = std::map<std::string, GitEntry>;  ///< by path from the repository's top

/// The user's own git on objects, refs and index, never on files: commands that run no hook and no filter, without the
/// configuration of user and machine, and with that of the repository overruled where it could have a say. Changes go
/// through FileOperations::delegate(). Faults throw Error with what git said. A git that was killed or that could not
/// judge is a fault, never an answer: every question knows the one exit code by which git says no.
class GitPlumbing {
  public:
    /// `cure`: what a person does when git says no.
    GitPlumbing(const GitWorkTree& git, FileOperations& files, std::string cure = "put that right, then try again");

    /// "refs/heads/main", or "HEAD" when no branch is checked out.
    std::string headRef() const;
    /// Nothing when it does not exist (yet).
    std::optional<std::string> commitAt(const std::string& ref) const;
    bool isAncestor(const std::string& commit, const std::string& of) const;
    GitEntries entriesOf(const std::string& commit) const;
    /// The tree of a commit, or of the directory `prefix` in it; nothing if there is none.
    std::optional<std::string> treeOf(const std::string& commit, std::string prefix) const;
    /// Full names of the refs below `prefix`.
    std::vector<std::string> refsBelow(const std::string& prefix) const;
    bool isBranchName(const std::string& name) const;
    /// The ref is another name for another ref.
    bool isSymbolic(const std::string& ref) const;
    bool isBare() const;
    /// Of the repository's own configuration.
    std::vector<std::string> settings(const std::string& key) const;
    /// Of the user's index; a path with an unresolved conflict has the mode "conflict".
    GitEntries stagedEntries() const;
    /// The contents of blobs, one after the other.
    void readBlobs(const std::vector<std::string>& ids,
                   const std::function<void(std::size_t which, std::string_view bytes)>& take) const;
    /// For each path, the attributes by which git would store other bytes than the file has: "filter=lfs".
    /// By the attributes of the user's index, or of `index`, which loadIndex() has filled.
    std::map<std::string, std::string> conversions(const std::vector<std::string>& paths,
                                                   const std::filesystem::path& index = {}) const;

    /// A file of ours, of a name that is not taken, with the entries of a commit.
    void loadIndex(const std::string& commit, const std::filesystem::path& index) const;
    /// Everything that `commit` needs and a repository that has `known` lacks, as a pack in an unnamed file below
    /// `directory`.
    FileDescriptor packOf(const std::string& commit, const std::optional<std::string>& known,
                          const std::filesystem::path& directory) const;
    /// Takes such a pack in. Durable. Throws Error if `commit` is still not wholly there.
    void takePack(int pack, const std::string& commit);

    /// The blobs of files, in their order. Durable.
    std::vector<std::string> writeBlobs(const std::vector<std::filesystem::path>& contents);
    struct NewCommit {
        std::optional<std::string> parent;
        GitEntries set;
        std::vector<std::string> removed;
        std::string message;
        std::string author;  ///< "Name <mail>"
        std::int64_t time = 0;
    };
    /// Made of objects alone; `index` is a file of ours, of a name that is not taken, for the caller to remove.
    std::string writeCommit(const NewCommit& commit, const std::filesystem::path& index);
    /// Moves `ref` if it still is at `from`; false otherwise. Nothing stands for a ref that does not exist. Throws
    /// Error if it still is there and git cannot move it.
    bool moveRef(const std::string& ref, const std::optional<std::string>& from, const std::optional<std::string>& to,
                 const std::string& reason);
    /// Entries of the user's index; nothing removes one. False while another git has it locked.
    bool stage(const std::map<std::string, std::optional<GitEntry>>& entries);

  private:
    struct Answer {
        int code = 0;
        int killedBy = 0;  ///< the signal that ended it
        std::string out;
        std::string err;
    };
    using Words = std::vector<std::string>;
    /// `held`: a descriptor that the child keeps open; -1 for none.
    Answer run(const Words& arguments, const std::string& input = "", const Words& environment = {},
               int held = -1) const;
    Answer runWith(int in, int out, const Words& arguments, const Words& environment, int held = -1) const;
    /// Changes nothing, so one that was killed is asked again.
    Answer question(const Words& arguments, const std::string& input = "", const Words& environment = {}) const;
    /// Throws Error unless git said yes (exit 0) or no (exit 1).
    bool isYes(const Words& arguments, const Answer& answer) const;
    /// The same for what the configuration says: where a file of it cannot be read, git warns and says no.
    Answer configured(const Words& arguments) const;
    /// Throws Error if there is a ref of that name: git said no because it could not read it.
    void requireAbsent(const std::string& ref) const;
    std::string ask(const Words& arguments, const std::string& input = "", const Words& environment = {}) const;
    std::string tell(const Words& arguments, const std::string& input = "", const Words& environment = {});
    Answer change(const Words& arguments, const std::function<Answer()>& act);
    void requireSuccess(const Words& arguments, const Answer& answer) const;
    [[noreturn]] void fail(const Words& arguments, const Answer& answer) const;
    [[noreturn]] void refuseMove(const std::string& ref, const Words& words, const Answer& answer) const;
    std::string zeroId() const;
    /// NAME=value: every filter that any configuration names does nothing. Writing an index reads files of the work
    /// tree again whose time is that of the index, through their filters.
    const Words& withoutFilters() const;
    Words environmentOf(const Words& more) const;

    GitWorkTree git_;
    std::filesystem::path program_;
    FileOperations& files_;
    std::string cure_;
    mutable std::optional<Words> withoutFilters_;
};

}  // namespace gradus
