#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "stages/drivers/driver.h"
#include "stages/drivers/git_plumbing.h"
#include "store/model/change_set.h"
#include "store/model/error.h"

namespace gradus {

/// The files and links of a change, by git's path; borrowed from the change.
using FilesByPath = std::map<std::string, const PathChange*>;
FilesByPath filesOf(const ChangeSet& changes, const std::string& prefix);
std::vector<std::string> plainFilesAfter(const FilesByPath& files);

bool isFile(const std::optional<Entry>& entry);
/// Only its mode changes, or nothing.
bool isSameContent(const PathChange& change);
/// "100644", "100755" or "120000": all that git keeps of a mode.
std::string gitMode(const Entry& entry);

/// What git would store in another form than the change has it, by what GitPlumbing::conversions() says.
std::vector<Conflict> filteredBy(const std::map<std::string, std::string>& conversions, const FilesByPath& files,
                                 Objects& objects);

/// The entries of the contents that are new, as blobs.
GitEntries writeContents(GitPlumbing& plumbing, const DriverContext& context, const FilesByPath& files);

/// An index of ours in the stage's state. git writes it under a lock file beside it, which stays where git is killed:
/// so no name is used twice, and both files go with this object.
class OwnIndex {
  public:
    enum class For {
        kCommit,  ///< under the target's lock
        kLook,    ///< anybody at any time
    };
    OwnIndex(const DriverContext& context, For use);
    OwnIndex(const OwnIndex&) = delete;
    OwnIndex& operator=(const OwnIndex&) = delete;
    ~OwnIndex();
    const std::filesystem::path& path() const { return path_; }

    /// What killed processes left; the target is locked.
    static void tidy(const DriverContext& context);

  private:
    std::filesystem::path path_;
};

/// What a commit of the change says: `first` as its first line, or the change's title; then the trailers.
std::string commitMessage(const StageChange& change, std::string_view first);
std::string oneLine(std::string_view text);
/// A fault as a problem of a rollback, with what a person does about it.
std::string problemOf(const Error& fault);

}  // namespace gradus
