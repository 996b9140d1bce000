#include "stages/sandbox/clone_git_reader.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <optional>

#include "plugins/host/child_process.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kPiece = 64U << 10;
constexpr std::size_t kLongestLink = 4096;
constexpr std::size_t kMostWords = 64U << 20;

fs::path findGit() {
    for (const char* directory :
         {"/usr/bin", "/usr/local/bin", "/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin"})
        if (::access((fs::path(directory) / "git").c_str(), X_OK) == 0) return fs::path(directory) / "git";
    throw Error(ErrorCode::kInfrastructure, "a commit is to be read, and there is no git program")
        .hint("install git, or leave the commit out to take the directory as it is");
}

/// One git process that is read from. Its standard input is given beforehand, so that nobody ever waits for the other.
class GitProcess {
  public:
    GitProcess(const fs::path& program, const fs::path& git, std::vector<std::string> arguments, int input = -1) {
        std::array<int, 2> ends{};
        if (::pipe2(ends.data(), O_CLOEXEC) != 0)
            throw Error(ErrorCode::kInfrastructure, "cannot make a pipe: {}", errnoText(errno));
        output_ = FileDescriptor(ends[0]);
        const FileDescriptor theirs(ends[1]);
        const FileDescriptor nothing = openFile("/dev/null", O_RDWR);
        arguments.insert(arguments.begin(), "git");
        ChildPlan plan{program, std::move(arguments), environmentFor(git), {}};
        plan.descriptors = {{input >= 0 ? input : nothing.get(), 0}, {theirs.get(), 1}, {nothing.get(), 2}};
        child_.emplace(plan);
    }

    /// A line without its end; nothing at the end of the output. `end` is what ends it.
    std::optional<std::string> line(char end) {
        std::string text;
        while (true) {
            const std::size_t found = buffer_.find(end, at_);
            text.append(buffer_, at_, found == std::string::npos ? std::string::npos : found - at_);
            if (found != std::string::npos) {
                at_ = found + 1;
                return text;
            }
            if (text.size() > kMostWords || !refill()) return std::nullopt;
        }
    }

    /// Exactly `count` bytes, in pieces.
    template <typename Take>
    void bytes(std::uint64_t count, Take take) {
        while (count > 0) {
            if (at_ == buffer_.size() && !refill()) throw cut();
            const std::size_t piece = static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size() - at_, count));
            take(std::string_view(buffer_).substr(at_, piece));
            at_ += piece;
            count -= piece;
        }
    }

    bool succeeded() {
        const std::optional<int> status = child_->wait(Milliseconds(60'000));
        return status && WIFEXITED(*status) && WEXITSTATUS(*status) == 0;
    }

    static Error cut() {
        return Error(ErrorCode::kDamaged, "git ended in the middle of an object").hint("'git fsck' says more about it");
    }

  private:
    // Nothing of the caller's: no configuration, no replaced objects, no fetching of missing ones, no protocol at all.
    static std::vector<std::string> environmentFor(const fs::path& git) {
        return {"PATH=/usr/local/bin:/usr/bin:/bin",
                "HOME=/nonexistent",
                "LC_ALL=C",
                "GIT_CONFIG_NOSYSTEM=1",
                "GIT_CONFIG_GLOBAL=/dev/null",
                "GIT_NO_REPLACE_OBJECTS=1",
                "GIT_NO_LAZY_FETCH=1",
                "GIT_ALLOW_PROTOCOL=none",
                "GIT_TERMINAL_PROMPT=0",
                "GIT_OPTIONAL_LOCKS=0",
                "GIT_DIR=" + git.native()};
    }

    bool refill() {
        buffer_.resize(kPiece);
        ssize_t got = 0;
        do got = ::read(output_.get(), buffer_.data(), buffer_.size());
        while (got < 0 && errno == EINTR);
        buffer_.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
        at_ = 0;
        return got > 0;
    }

    FileDescriptor output_;
    std::optional<ChildProcess> child_;
    std::string buffer_;
    std::size_t at_ = 0;
};

/// A blob that is still to be read.
struct Pending {
    std::string path;
    std::string id;
    bool isLink = false;
    bool executable = false;
};

struct TreeEntry {
    std::string mode;
    std::string id;
    std::string path;
};

// "100644 blob <id>\t<path>"
TreeEntry parseEntry(const std::string& line) {
    const std::size_t tab = line.find('\t');
    const std::size_t first = line.find(' ');
    const std::size_t second = line.find(' ', first + 1);
    if (tab == std::string::npos || second == std::string::npos || second > tab) throw GitProcess::cut();
    return {line.substr(0, first), line.substr(second + 1, tab - second - 1), line.substr(tab + 1)};
}

FileDescriptor listOf(const std::vector<Pending>& blobs) {
    std::string text;
    for (const Pending& blob : blobs) text += blob.id + "\n";
    FileDescriptor list(::memfd_create("objects", MFD_CLOEXEC));
    if (!list) throw Error(ErrorCode::kInfrastructure, "cannot hold a list: {}", errnoText(errno));
    writeAll(list.get(), text, "objects");
    ::lseek(list.get(), 0, SEEK_SET);
    return list;
}

// "<id> blob <size>", or "<id> missing"
std::uint64_t sizeIn(const std::string& header, const Pending& blob) {
    const std::string expected = blob.id + " blob ";
    std::uint64_t size = 0;
    const char* end = header.data() + header.size();
    if (header.starts_with(expected) && std::from_chars(header.data() + expected.size(), end, size).ptr == end)
        return size;
    throw Error(ErrorCode::kDamaged, "the repository does not hold the content of '{}' ({})", blob.path, blob.id)
        .hint("a partial or shallow clone has to fetch it first: git fetch --refetch");
}

void readBlob(GitProcess& process, const Pending& blob, TreeFiles& files) {
    const std::optional<std::string> header = process.line('\n');
    if (!header) throw GitProcess::cut();
    const std::uint64_t size = sizeIn(*header, blob);
    if (blob.isLink) {
        if (size > kLongestLink)
            throw Error(ErrorCode::kDamaged, "the link '{}' of the commit is longer than a link can be", blob.path);
        std::string text;
        process.bytes(size, [&](std::string_view piece) { text += piece; });
        files.link(blob.path, text);
    } else {
        files.beginFile(blob.path, blob.executable);
        process.bytes(size, [&](std::string_view piece) { files.write(piece); });
        files.endFile();
    }
    process.bytes(1, [](std::string_view) {});  // the line end after every object
}

}  // namespace

GitReader::GitReader(fs::path git) : git_(std::move(git)), program_(findGit()) {}

std::string GitReader::resolveCommit(const std::string& name) const {
    const bool isFit = !name.empty() && name.front() != '-' && name.find_first_of("\n\r") == std::string::npos &&
                       name.find('\0') == std::string::npos;
    std::optional<std::string> id;
    if (isFit) {
        GitProcess process(program_, git_,
                           {"rev-parse", "--verify", "--quiet", "--end-of-options", name + "^{commit}"});
        id = process.line('\n');
        if (!process.succeeded()) id.reset();
    }
    const bool isName = id && id->size() >= 40 && id->find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!isName)
        throw Error(ErrorCode::kNotFound, "{} has no commit '{}'", git_.parent_path().native(), name)
            .hint("'git log --oneline --all' lists what there is");
    return *id;
}

void GitReader::readTree(const std::string& commit, const fs::path& prefix, TreeFiles& files) const {
    std::vector<Pending> blobs;
    GitProcess list(program_, git_, {"ls-tree", "-r", "-t", "-z", "--full-tree", commit + ":" + prefix.native()});
    while (const std::optional<std::string> line = list.line('\0')) {
        TreeEntry entry = parseEntry(*line);
        if (entry.mode == "040000")
            files.directory(entry.path);
        else if (entry.mode == "160000")
            files.submodule(entry.path);
        else
            blobs.push_back(
                {std::move(entry.path), std::move(entry.id), entry.mode == "120000", entry.mode == "100755"});
    }
    if (!list.succeeded())
        throw Error(ErrorCode::kNotFound, "the commit {} has no directory '{}'", commit, prefix.native())
            .hint("the project was elsewhere then, or the repository is damaged: git fsck");
    const FileDescriptor objects = listOf(blobs);
    GitProcess contents(program_, git_, {"cat-file", "--batch", "--buffer"}, objects.get());
    for (const Pending& blob : blobs) readBlob(contents, blob, files);
}

}  // namespace gradus
