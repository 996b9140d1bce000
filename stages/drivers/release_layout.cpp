#include "stages/drivers/release_layout.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "stages/changes/tree_writer_beneath.h"
#include "store/model/error.h"
#include "store/paths.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

bool isBelow(std::string_view path, std::string_view above) { return path != above && isAtOrBelow(path, above); }

fs::path targetOf(const DriverContext& context) {
    const fs::path named = context.project / context.stage.settings.text("path");
    std::error_code error;
    fs::path root = fs::weakly_canonical(named, error);
    if (error) throwFault("find", named.native(), error.value());
    if (!root.has_filename()) root = root.parent_path();
    if (isWithin(root, context.project) || isWithin(context.project, root))
        throw Error(ErrorCode::kNotAllowed, "stage '{}': {} and the project {} lie in each other", context.stage.name,
                    root.native(), context.project.native())
            .hint("give the stage a path beside the project, such as \"../" + context.stage.name + "\"");
    return root;
}

std::vector<std::string> sharedPaths(const DriverContext& context) {
    std::vector<std::string> paths = context.stage.settings.list("shared");
    for (std::string& path : paths) {
        while (path.ends_with('/')) path.pop_back();
        if (const auto fault = pathFault(path))
            throw Error(ErrorCode::kUsage, "stage '{}': '{}' cannot be shared: {}", context.stage.name, path, *fault);
    }
    std::ranges::sort(paths);
    paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
    for (const std::string& path : paths)
        for (const std::string& other : paths)
            if (isBelow(path, other))
                throw Error(ErrorCode::kUsage, "stage '{}': '{}' is shared with '{}' already", context.stage.name, path,
                            other);
    return paths;
}

}  // namespace

ReleaseLayout::ReleaseLayout(const DriverContext& context) : root_(targetOf(context)), shared_(sharedPaths(context)) {}

FileDescriptor ReleaseLayout::open() const {
    FileDescriptor opened(::open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!opened && errno != ENOENT) throwFault("open", root_.native(), errno);
    return opened;
}

bool ReleaseLayout::isShared(std::string_view path) const {
    return std::ranges::any_of(shared_, [&](std::string_view one) { return isAtOrBelow(path, one); });
}

bool ReleaseLayout::leadsToShared(std::string_view path) const {
    return std::ranges::any_of(shared_, [&](const std::string& one) { return isBelow(one, path); });
}

std::string ReleaseLayout::linkTo(const std::string& id) { return std::string(kReleases) + "/" + id; }

std::optional<std::string> ReleaseLayout::idOf(const std::string& link) const {
    fs::path leads = (root_ / link).lexically_normal();
    if (!leads.has_filename()) leads = leads.parent_path();
    if (leads.parent_path() != releases()) return std::nullopt;
    return leads.filename().native();
}

std::string ReleaseLayout::linkToShared(const std::string& path) {
    std::string up = "../../";
    for (auto left = std::ranges::count(path, '/'); left > 0; --left) up += "../";
    return up + std::string(kShared) + "/" + path;
}

}  // namespace gradus
