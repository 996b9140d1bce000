#include "stages/changes/link_rule.h"

#include <algorithm>

namespace gradus {

// Up from where it lies first, then down: after a name that may be a link itself, nobody can tell where `..` leads.
bool staysInside(std::string_view path, const std::filesystem::path& text) {
    if (path.empty() || text.is_absolute() || text.empty()) return false;
    auto depth = std::count(path.begin(), path.end(), '/');
    bool isGoingDown = false;
    for (const std::filesystem::path& part : text) {
        if (part == "." || part.empty()) continue;
        if (part != "..") {
            isGoingDown = true;
            continue;
        }
        if (isGoingDown || depth == 0) return false;
        --depth;
    }
    return true;
}

}  // namespace gradus
