#include "policies/gate/path_match.h"

#include <algorithm>

#include "policies/language/glob.h"

namespace gradus {

std::vector<std::string> matchingPaths(const ChangeFacts& change, const std::vector<std::string>& patterns) {
    std::vector<Parsed<Glob>> globs;
    for (const std::string& pattern : patterns) globs.push_back(Glob::parse(pattern));
    std::vector<std::string> paths;
    for (const TouchedPath& touched : change.paths)
        if (std::any_of(globs.begin(), globs.end(),
                        [&](const Parsed<Glob>& glob) { return !glob || glob.value->matches(touched.path); }))
            paths.push_back(touched.path);
    std::sort(paths.begin(), paths.end());
    return paths;
}

}  // namespace gradus
