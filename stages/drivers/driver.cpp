#include "stages/drivers/driver.h"

#include <array>

#include "stages/drivers/branch.h"
#include "stages/drivers/command.h"
#include "stages/drivers/release_directory.h"
#include "stages/drivers/sandbox.h"
#include "stages/drivers/worktree.h"
#include "store/model/error.h"
#include "store/project_identity.h"

namespace gradus {

namespace {

template <typename Driver>
std::unique_ptr<StageDriver> make(const DriverContext& context) {
    return std::make_unique<Driver>(context);
}

struct Maker {
    std::string_view name;
    std::unique_ptr<StageDriver> (*make)(const DriverContext& context);
};

constexpr std::array kMakers{
    Maker{"sandbox", &make<SandboxDriver>},
    Maker{"worktree", &make<WorktreeDriver>},
    Maker{"release-directory", &make<ReleaseDirectoryDriver>},
    Maker{"branch", &make<BranchDriver>},
    Maker{"command", &make<CommandDriver>},
};

constexpr Milliseconds kPatience{10 * 60 * 1000};

}  // namespace

bool TargetIdentity::isNamedBy(const std::string& recorded) const {
    if (recorded == canonical) return true;
    // A device's number may have changed since, so it says nothing.
    return !older.empty() && recorded.ends_with(older) && recorded.size() > older.size() &&
           recorded.find_first_not_of("0123456789") == recorded.size() - older.size();
}

TargetIdentity TargetIdentity::at(std::string driver, const std::filesystem::path& directory, const std::string& inside,
                                  std::filesystem::path marker, bool isInProject) {
    const ProjectIdentity found = identify(directory);
    const std::string older = fmt::format(":{}{}", found.inode, inside);
    const std::string canonical = found.key.empty() ? std::to_string(found.device) + older : found.key + inside;
    return {std::move(driver), canonical, std::move(marker), isInProject, older};
}

Milliseconds patienceOf(const Stage& stage) {
    const Milliseconds own = stage.settings.duration("timeout");
    return own > Milliseconds(0) ? own : kPatience;
}

std::optional<HeldTree> StageDriver::vouchedFor(const std::optional<Digest>& /*tree*/, Adopting /*how*/) {
    throw Error(ErrorCode::kUsage, "what the stage holds can be looked at, so nobody needs to vouch for it")
        .hint("leave --holds out: gradus adopt STAGE takes what is there");
}

std::unique_ptr<StageDriver> makeDriver(const DriverContext& context) {
    for (const Maker& maker : kMakers)
        if (maker.name == context.stage.driver) return maker.make(context);
    std::string known;
    for (const Maker& maker : kMakers) known.append(known.empty() ? "" : ", ").append(maker.name);
    throw Error(ErrorCode::kNotAllowed, "stage '{}': there is no driver '{}'; there are: {}", context.stage.name,
                context.stage.driver, known)
        .hint("give the stage one of these");
}

}  // namespace gradus
