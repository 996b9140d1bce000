#include "stages/drivers/git_change.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "store/file.h"
#include "store/model/hex.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kLargestBlob = std::uint64_t{1} << 31;
constexpr std::string_view kCommitIndex = "commit-index";
constexpr std::string_view kLookIndex = "look-index";
constexpr std::size_t kIndexSuffixBytes = 6;
/// A look at a stage ends within minutes; it holds no lock that could be asked.
constexpr std::chrono::hours kLongestLook{1};

}  // namespace

bool isFile(const std::optional<Entry>& entry) { return entry && entry->type != EntryType::kDirectory; }

bool isSameContent(const PathChange& change) {
    return change.before && change.after && change.before->type == change.after->type &&
           change.before->digest == change.after->digest;
}

std::string gitMode(const Entry& entry) {
    if (entry.type == EntryType::kSymlink) return "120000";
    return (entry.mode & 0100) != 0 ? "100755" : "100644";
}

FilesByPath filesOf(const ChangeSet& changes, const std::string& prefix) {
    FilesByPath files;
    for (const PathChange& path : changes.changes())
        if (isFile(path.before) || isFile(path.after)) files[prefix + path.path] = &path;
    return files;
}

std::vector<std::string> plainFilesAfter(const FilesByPath& files) {
    std::vector<std::string> paths;
    for (const auto& [path, change] : files)
        if (isFile(change->after)) paths.push_back(path);
    return paths;
}

// A filter would be a command of the repository's choice, so it is not run; then the bytes would be the wrong ones.
std::vector<Conflict> filteredBy(const std::map<std::string, std::string>& conversions, const FilesByPath& files,
                                 Objects& objects) {
    std::vector<Conflict> found;
    for (const auto& [path, attributes] : conversions) {
        const PathChange& change = *files.at(path);
        if (isSameContent(change)) continue;
        const bool isText = attributes.find("filter=") == std::string::npos &&
                            attributes.find("ident=") == std::string::npos &&
                            attributes.find("encoding=") == std::string::npos;
        // Line ends alone matter only where there are some to convert.
        if (isText && (change.after->type != EntryType::kFile ||
                       objects.readAll(change.after->digest, kLargestBlob).find("\r\n") == std::string::npos))
            continue;
        found.push_back({ConflictKind::kFiltered, change.path, "", attributes, std::nullopt});
    }
    return found;
}

// git is shown files of ours, not those of the tree: what is committed is what was promoted.
GitEntries writeContents(GitPlumbing& plumbing, const DriverContext& context, const FilesByPath& files) {
    const fs::path directory = context.state / "commit-contents";
    fs::remove_all(directory);
    fs::create_directories(directory);
    std::vector<fs::path> contents;
    std::vector<std::pair<std::string, std::string>> modes;
    for (const auto& [path, change] : files) {
        if (!isFile(change->after) || isSameContent(*change)) continue;
        contents.push_back(directory / std::to_string(contents.size()));
        writeFileDurably(contents.back(), context.objects.readAll(change->after->digest, kLargestBlob));
        modes.emplace_back(path, gitMode(*change->after));
    }
    GitEntries entries;
    const std::vector<std::string> ids = contents.empty() ? std::vector<std::string>() : plumbing.writeBlobs(contents);
    for (std::size_t i = 0; i < ids.size(); ++i) entries[modes[i].first] = {modes[i].second, ids[i]};
    fs::remove_all(directory);
    return entries;
}

OwnIndex::OwnIndex(const DriverContext& context, For use)
    : path_(context.state / fmt::format("{}-{}", use == For::kCommit ? kCommitIndex : kLookIndex,
                                        toHex(context.random.bytes(kIndexSuffixBytes)))) {}

OwnIndex::~OwnIndex() {
    ::unlink(path_.c_str());
    ::unlink((path_.native() + ".lock").c_str());
}

void OwnIndex::tidy(const DriverContext& context) {
    std::vector<fs::path> left;
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(context.state, error)) {
        const std::string name = entry.path().filename().native();
        const auto age = fs::file_time_type::clock::now() - entry.last_write_time(error);
        if (name.starts_with(kCommitIndex) || (name.starts_with(kLookIndex) && !error && age > kLongestLook))
            left.push_back(entry.path());
    }
    for (const fs::path& path : left) fs::remove(path, error);
}

std::string oneLine(std::string_view text) {
    std::string line(text.substr(0, text.find_first_of("\r\n")));
    std::erase_if(line, [](char c) { return c >= 0 && (c < ' ' || c == '\x7f'); });
    return line;
}

std::string problemOf(const Error& fault) {
    return fault.hint().empty() ? fault.what() : fmt::format("{} ({})", fault.what(), fault.hint());
}

std::string commitMessage(const StageChange& change, std::string_view first) {
    std::string title = oneLine(change.title);
    if (title.empty()) title = "Promote " + change.handle;
    std::string message = first.empty() ? title + "\n" : fmt::format("{}\n\n{}\n", oneLine(first), title);
    if (!change.message.empty()) message += "\n" + change.message;
    if (!message.ends_with('\n')) message += '\n';
    bool isFirst = true;
    for (const auto& [name, value] : change.trailers) {
        message += fmt::format("{}{}: {}\n", isFirst ? "\n" : "", oneLine(name), oneLine(value));
        isFirst = false;
    }
    return message;
}

}  // namespace gradus
