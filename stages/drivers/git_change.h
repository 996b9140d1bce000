#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "stages/drivers/driver.h"
#include "stages/drivers/git_plumbing.h"
#include "store/model/change_set.h"

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

/// What a commit of the change says: `first` as its first line, or the change's title; then the trailers.
std::string commitMessage(const StageChange& change, std::string_view first);
std::string oneLine(std::string_view text);

}  // namespace gradus
