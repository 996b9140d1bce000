#include "stages/changes/git_objects.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>

#include "plugins/host/child_process.h"
#include "store/file.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kPiece = 64U << 10;
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

    /// Some of the next bytes; throws where there are none.
    std::size_t read(std::span<char> space) {
        if (at_ == buffer_.size() && !refill()) throw cut();
        const std::size_t count = std::min(space.size(), buffer_.size() - at_);
        std::copy_n(buffer_.data() + at_, count, space.data());
        at_ += count;
        return count;
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

/// The next bytes of a process, so many.
class Stretch final : public ByteSource {
  public:
    Stretch(GitProcess& process, std::uint64_t size) : process_(process), left_(size) {}

    std::size_t read(std::span<char> space) override {
        if (left_ == 0) return 0;
        const std::size_t got =
            process_.read(space.first(static_cast<std::size_t>(std::min(left_, std::uint64_t{space.size()}))));
        left_ -= got;
        return got;
    }
    void skip() {
        std::array<char, 4096> space{};
        while (read(space) > 0) continue;
    }

  private:
    GitProcess& process_;
    std::uint64_t left_;
};

// "100644 blob <id>\t<path>"
GitTreeItem parseItem(const std::string& line) {
    const std::size_t tab = line.find('\t');
    const std::size_t first = line.find(' ');
    const std::size_t second = line.find(' ', first + 1);
    if (tab == std::string::npos || second == std::string::npos || second > tab) throw GitProcess::cut();
    GitTreeItem item{line.substr(tab + 1), line.substr(second + 1, tab - second - 1), 0};
    std::from_chars(line.data(), line.data() + first, item.mode, 8);
    return item;
}

FileDescriptor listOf(const std::vector<std::string>& ids) {
    std::string text;
    for (const std::string& id : ids) text += id + "\n";
    FileDescriptor list(::memfd_create("objects", MFD_CLOEXEC));
    if (!list) throw Error(ErrorCode::kInfrastructure, "cannot hold a list: {}", errnoText(errno));
    writeAll(list.get(), text, "objects");
    ::lseek(list.get(), 0, SEEK_SET);
    return list;
}

// "<id> blob <size>", or "<id> missing"
std::uint64_t sizeIn(const std::string& header, const std::string& id, std::string_view type, std::string_view path) {
    const std::string expected = fmt::format("{} {} ", id, type);
    std::uint64_t size = 0;
    const char* end = header.data() + header.size();
    if (header.starts_with(expected) && std::from_chars(header.data() + expected.size(), end, size).ptr == end)
        return size;
    throw Error(ErrorCode::kDamaged, "the repository does not hold the content of '{}' ({})", printable(path), id)
        .hint("a partial or shallow clone has to fetch it first: git fetch --refetch");
}

std::string lineAfter(std::string_view header, std::string_view word) {
    const std::size_t begin = word.size();
    return std::string(header.substr(begin, header.find('\n') - begin));
}

// "author Name <mail> 1700000000 +0100"
std::string personIn(const std::string& line) {
    const std::size_t end = line.rfind('>');
    return end == std::string::npos ? std::string() : line.substr(0, end + 1);
}

GitCommit parseCommit(std::string id, std::string_view text) {
    GitCommit commit{.id = std::move(id)};
    while (!text.empty() && text.front() != '\n') {
        if (text.starts_with("parent ")) commit.parents.push_back(lineAfter(text, "parent "));
        if (text.starts_with("author ")) commit.author = personIn(lineAfter(text, "author "));
        text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
    }
    if (!text.empty()) commit.message = text.substr(1);
    return commit;
}

}  // namespace

std::string GitCommit::title() const { return message.substr(0, message.find('\n')); }

GitObjects::GitObjects(fs::path git) : git_(std::move(git)), program_(findGit()) {}

std::optional<std::string> GitObjects::findCommit(const std::string& name) const {
    const bool isFit = !name.empty() && name.front() != '-' && name.find_first_of("\n\r") == std::string::npos &&
                       name.find('\0') == std::string::npos;
    if (!isFit) return std::nullopt;
    GitProcess process(program_, git_, {"rev-parse", "--verify", "--quiet", "--end-of-options", name + "^{commit}"});
    std::optional<std::string> id = process.line('\n');
    const bool isName =
        process.succeeded() && id && id->size() >= 40 && id->find_first_not_of("0123456789abcdef") == std::string::npos;
    return isName ? id : std::nullopt;
}

std::string GitObjects::resolveCommit(const std::string& name) const {
    if (auto id = findCommit(name)) return *id;
    throw Error(ErrorCode::kNotFound, "{} has no commit '{}'", git_.parent_path().native(), printable(name))
        .hint("'git log --oneline --all' lists what there is");
}

std::optional<GitDistance> GitObjects::distance(const std::string& from, const std::string& to) const {
    GitProcess process(program_, git_, {"rev-list", "--left-right", "--count", "--end-of-options", from + "..." + to});
    const auto counts = process.line('\n');
    if (!process.succeeded() || !counts) return std::nullopt;
    GitDistance distance;
    const char* end = counts->data() + counts->size();
    const char* tab = std::from_chars(counts->data(), end, distance.behind).ptr;
    if (tab == end || std::from_chars(tab + 1, end, distance.ahead).ptr != end) return std::nullopt;
    return distance;
}

GitCommit GitObjects::commit(const std::string& commit) const {
    const FileDescriptor objects = listOf({commit});
    GitProcess process(program_, git_, {"cat-file", "--batch", "--buffer"}, objects.get());
    const std::optional<std::string> header = process.line('\n');
    if (!header) throw GitProcess::cut();
    const std::uint64_t size = sizeIn(*header, commit, "commit", "the commit");
    if (size > kMostWords) throw Error(ErrorCode::kNotAllowed, "the commit {} is too large to be read", commit);
    Stretch text(process, size);
    return parseCommit(commit, readWhole(text));
}

std::optional<std::vector<GitTreeItem>> GitObjects::tree(const std::string& commit, const fs::path& prefix) const {
    std::vector<GitTreeItem> items;
    GitProcess list(program_, git_, {"ls-tree", "-r", "-t", "-z", "--full-tree", commit + ":" + prefix.native()});
    while (const std::optional<std::string> line = list.line('\0')) items.push_back(parseItem(*line));
    if (!list.succeeded()) return std::nullopt;
    return items;
}

void GitObjects::blobs(const std::vector<std::string>& ids,
                       const std::function<void(std::size_t, std::uint64_t, ByteSource&)>& each,
                       const std::vector<std::string>& paths) const {
    if (ids.empty()) return;
    const FileDescriptor objects = listOf(ids);
    GitProcess contents(program_, git_, {"cat-file", "--batch", "--buffer"}, objects.get());
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const std::optional<std::string> header = contents.line('\n');
        if (!header) throw GitProcess::cut();
        const std::uint64_t size = sizeIn(*header, ids[i], "blob", i < paths.size() ? paths[i] : ids[i]);
        Stretch content(contents, size);
        each(i, size, content);
        content.skip();
        Stretch(contents, 1).skip();  // the line end after every object
    }
}

std::string readWhole(ByteSource& source) {
    std::string text;
    std::array<char, 16384> space{};
    while (const std::size_t got = source.read(space)) text.append(space.data(), got);
    return text;
}

}  // namespace gradus
