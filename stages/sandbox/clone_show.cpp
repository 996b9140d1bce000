#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "plugins/host/toolchains.h"
#include "plugins/isolation/namespaces.h"
#include "stages/sandbox/clone_draft.h"
#include "stages/sandbox/clone_user.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

// These hold homes, of which a part may be shown; everything else that is always hidden holds credentials or the state
// of other programs.
bool isPlaceOfHomes(const fs::path& path) { return path == "/home" || path == "/root"; }

fs::path real(const fs::path& path) {
    std::error_code error;
    fs::path found = fs::canonical(path, error);
    return error ? path.lexically_normal() : found;
}

/// What a person wants shown, held against what is never shown.
class Wish {
  public:
    Wish(const CloneDraft& draft, fs::path path) : draft_(draft), path_(std::move(path)) {}

    /// Why it cannot be; nothing if it can.
    std::optional<std::string> objection() const {
        struct stat info {};
        if (::stat(path_.c_str(), &info) == 0 && !S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode))
            return "it is neither a file nor a directory";
        for (const char* place : {"/proc", "/sys", "/dev"})
            if (isWithin(path_, place)) return fmt::format("{} is the sandbox's own", place);
        for (const fs::path& home : homes())
            if (isWithin(home, path_)) return overlap(home);
        for (const fs::path& place : neverShown())
            if (isWithin(path_, place) || isWithin(place, path_)) return overlap(place);
        return std::nullopt;
    }

  private:
    std::string overlap(const fs::path& place) const {
        const char* how = place == path_ ? "is" : isWithin(place, path_) ? "holds" : "lies in";
        return fmt::format("it {} {}, which no sandbox shows", how, place.native());
    }

    std::vector<fs::path> neverShown() const {
        std::vector<fs::path> places = draft_.secrets;
        for (const fs::path& place : alwaysHidden())
            if (!isPlaceOfHomes(place)) places.push_back(place);
        for (const fs::path& place : draft_.request.hiddenPaths) places.push_back(real(place));
        return places;
    }

    std::vector<fs::path> homes() const {
        std::vector<fs::path> places = {"/home", "/root"};
        places.insert(places.end(), draft_.homes.begin(), draft_.homes.end());
        for (fs::path& home : homesOfPeople()) places.push_back(std::move(home));
        return places;
    }

    const CloneDraft& draft_;
    fs::path path_;
};

}  // namespace

std::optional<std::string> objectionTo(const CloneDraft& draft, const fs::path& path) {
    return Wish(draft, path).objection();
}

void showNamed(CloneDraft& draft) {
    for (const fs::path& path : draft.request.show) {
        const fs::path place = path.lexically_normal();
        const fs::path source = real(place);
        for (const fs::path& way : {place, source})
            if (const auto reason = objectionTo(draft, way))
                throw Error(ErrorCode::kNotAllowed, "{} cannot be shown: {}", path.native(), *reason)
                    .hint("take it out of `show` in [sandbox]; show a copy of what is needed instead");
        if (!isThere(source)) {
            draft.notes.push_back(fmt::format("{} is to be shown and is not there", path.native()));
            continue;
        }
        for (const fs::path& way : {source, place})
            if (!draft.view.shows(way) && draft.view.bind(source, way))
                draft.shown.push_back({way, HomeEntry::How::kReadOnly, "named by `show`"});
    }
}

}  // namespace gradus
