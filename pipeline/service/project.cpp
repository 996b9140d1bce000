#include "pipeline/service/project.h"

#include "policies/language/rule_files.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

bool isThere(const fs::path& path) {
    std::error_code ignored;
    return fs::exists(fs::symlink_status(path, ignored));
}

std::optional<fs::path> nearestWith(const fs::path& from, std::string_view name) {
    for (fs::path here = from;; here = here.parent_path()) {
        if (isThere(here / name)) return here;
        if (here == here.parent_path()) return std::nullopt;
    }
}

fs::path realPath(const fs::path& path) {
    std::error_code error;
    fs::path real = fs::canonical(path, error);
    if (error)
        throw Error(ErrorCode::kUsage, "cannot go to {}: {}", path.native(), error.message())
            .hint("name a directory that is there");
    return real;
}

// The store, the log and every answer hold text, so such a path would be another one when it is read again.
void refuseUnwritable(const fs::path& root) {
    if (firstInvalidUtf8(root.native()))
        throw Error(ErrorCode::kNotAllowed, "{} cannot be a project: its path is not UTF-8", printable(root.native()))
            .hint("nothing was made; give the directory another name, or move the project");
}

void refuseTooMuch(const fs::path& root, const Environment& environment) {
    const auto home = environment("HOME");
    const bool isHome = home && !home->empty() && isThere(*home) && realPath(*home) == root;
    if (root == "/" || isHome)
        throw Error(ErrorCode::kNotAllowed, "{} is {}, not a project", root.native(),
                    isHome ? "a home directory" : "the whole file system")
            .hint("go into the project's own directory, or name it with -C DIR");
}

}  // namespace

fs::path findProjectRoot(const fs::path& directory, const Environment& environment) {
    const fs::path start = realPath(directory);
    auto root = nearestWith(start, kPipelineFile);
    if (!root) root = nearestWith(start, ".git");
    if (!root) root = start;
    refuseTooMuch(*root, environment);
    refuseUnwritable(*root);
    return *root;
}

}  // namespace gradus
