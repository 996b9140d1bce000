#include "stages/changes/git_work_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/file.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kPointerCap = 8192;

std::string firstLine(std::string text) {
    text.resize(std::min(text.find_first_of("\r\n"), text.size()));
    return text;
}

// A linked work tree and a submodule have a file instead of the directory: it names the place.
std::optional<fs::path> directoryOf(const fs::path& root) {
    const fs::path dotGit = root / ".git";
    struct stat info {};
    if (::lstat(dotGit.c_str(), &info) != 0) return std::nullopt;
    if (!S_ISREG(info.st_mode)) return dotGit;
    const auto text = readPlainFile(AT_FDCWD, dotGit, kPointerCap);
    constexpr std::string_view kWord = "gitdir: ";
    if (!text || !text->starts_with(kWord)) return std::nullopt;
    return root / firstLine(text->substr(kWord.size()));
}

uid_t ownerOf(const fs::path& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0)
        throw Error(ErrorCode::kNotFound, "{} cannot be looked at: {}", path.native(), errnoText(errno));
    return info.st_uid;
}

bool isRepository(const fs::path& directory) { return ::access((directory / "HEAD").c_str(), F_OK) == 0; }

}  // namespace

void refuseForeign(const fs::path& git, const fs::path& project) {
    const uid_t owner = ownerOf(git);
    const bool ours = owner == ::geteuid() || (::geteuid() == 0 && owner == ownerOf(project));
    if (ours) return;
    throw Error(ErrorCode::kNotAllowed, "the repository {} belongs to uid {}", git.native(), owner)
        .hint(fmt::format("take it over: chown -R {} '{}', or call as its owner", ::geteuid(), git.native()));
}

void refuseForeign(const GitWorkTree& tree, const fs::path& project) {
    refuseForeign(tree.directory, project);
    if (tree.directory == tree.common) return;
    refuseForeign(tree.common, project);
    const auto back = readPlainFile(AT_FDCWD, tree.directory / "gitdir", kPointerCap);
    std::error_code error;
    const fs::path named = back ? fs::weakly_canonical(tree.directory / firstLine(*back), error) : fs::path();
    if (!error && named == fs::weakly_canonical(tree.root / ".git", error)) return;
    throw Error(ErrorCode::kNotAllowed, "{} names {}, which knows no work tree there", (tree.root / ".git").native(),
                tree.directory.native())
        .hint("'git worktree repair' makes a moved one right");
}

std::optional<std::string> readPlainFile(int directory, const std::string& name, std::uint64_t cap) {
    const FileDescriptor file(
        ::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat info {};
    if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
    if (static_cast<std::uint64_t>(info.st_size) > cap) return std::nullopt;
    std::string bytes(static_cast<std::size_t>(info.st_size), '\0');
    std::size_t filled = 0;
    while (filled < bytes.size()) {
        const ssize_t got = ::read(file.get(), bytes.data() + filled, bytes.size() - filled);
        if (got <= 0) break;
        filled += static_cast<std::size_t>(got);
    }
    bytes.resize(filled);
    return bytes;
}

std::optional<GitWorkTree> findWorkTree(const fs::path& directory) {
    std::string prefix;
    for (fs::path root = directory.lexically_normal();; root = root.parent_path()) {
        if (!root.has_filename() && root.has_relative_path()) root = root.parent_path();
        const auto found = directoryOf(root);
        if (found && isRepository(*found)) {
            const auto common = readPlainFile(AT_FDCWD, *found / "commondir", kPointerCap);
            return GitWorkTree{root, *found, common ? *found / firstLine(*common) : *found, prefix};
        }
        if (!root.has_relative_path()) return std::nullopt;
        prefix = root.filename().string() + '/' + prefix;
    }
}

}  // namespace gradus
