// Anything done in a real overlay, in any order: what is harvested equals what a slow comparison of the two trees
// finds.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <sstream>

#include "stages/changes/harvest.h"
#include "tests/stages/changes/overlay_rig.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::OverlayRig;
using Tree = std::map<std::string, Entry>;

/// One step of a sandbox's life. Many make no sense where they land and fail there, as in real life.
struct Act {
    int what = 0;
    int where = 0;
    int other = 0;
};

std::ostream& operator<<(std::ostream& out, const Act& act) {
    return out << act.what << ' ' << act.where << ' ' << act.other;
}

std::string placeOf(int number) {
    static constexpr const char* kNames[] = {"a", "b", "c"};
    std::string path = kNames[number % 3];
    for (number /= 3; number > 0; number /= 4) path += std::string("/") + kNames[number % 4 % 3];
    return path;
}

void write(const fs::path& path, const std::string& text, std::ios::openmode mode) {
    std::error_code ignored;
    if (!fs::is_symlink(path, ignored)) std::ofstream(path, mode | std::ios::binary) << text;
}

void perform(const fs::path& root, const Act& act) {
    std::error_code ignored;
    const fs::path path = root / placeOf(act.where);
    const fs::path other = root / placeOf(act.other);
    static constexpr int kModes[] = {0644, 0755, 0600, 0700};
    switch (act.what) {
        case 0:
            return write(path, "text" + std::to_string(act.other % 5), std::ios::trunc);
        case 1:
            return write(path, "more", std::ios::app);
        case 2:
            fs::create_directory(path, ignored);
            return;
        case 3:
            fs::create_directories(path, ignored);
            return;
        case 4:
            fs::remove(path, ignored);
            return;
        case 5:
            fs::remove_all(path, ignored);
            return;
        case 6:
            fs::rename(path, other, ignored);
            return;
        case 7:
            fs::create_symlink(placeOf(act.other), path, ignored);
            return;
        case 8:
            if (!fs::is_symlink(path, ignored)) fs::permissions(path, fs::perms(kModes[act.other % 4]), ignored);
            return;
        case 9:
            fs::create_hard_link(path, other, ignored);
            return;
        case 10:
            fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
            return;
        case 11:
            fs::remove_all(path, ignored);
            fs::create_directory(path, ignored);
            return write(path / "a", "inside", std::ios::trunc);
        case 12:
            fs::remove_all(path, ignored);
            return write(path, "text0", std::ios::trunc);
        default:
            return write(path, "", std::ios::trunc);
    }
}

Entry entryOf(const fs::path& path) {
    if (fs::is_symlink(path)) return test::linkEntry(fs::read_symlink(path).native());
    const auto mode = static_cast<std::uint32_t>(fs::status(path).permissions());
    if (fs::is_directory(path)) return test::directoryEntry(mode);
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return test::fileEntry(text.str(), mode);
}

Tree treeOf(const fs::path& root) {
    Tree tree;
    for (const auto& item : fs::recursive_directory_iterator(root))
        tree[item.path().lexically_relative(root).native()] = entryOf(item.path());
    return tree;
}

ChangeSet difference(const Tree& before, const Tree& after) {
    std::vector<PathChange> changes;
    for (const auto& [path, entry] : before) {
        const auto found = after.find(path);
        if (found == after.end()) {
            changes.push_back({path, entry, std::nullopt, true});
        } else if (found->second != entry) {
            changes.push_back({path, entry, found->second, true});
        }
    }
    for (const auto& [path, entry] : after)
        if (!before.contains(path)) changes.push_back({path, std::nullopt, entry, true});
    return ChangeSet(std::move(changes));
}

Tree applied(Tree tree, const ChangeSet& changes) {
    for (const PathChange& change : changes.changes()) {
        if (change.after) tree[change.path] = *change.after;
        if (!change.after) tree.erase(change.path);
    }
    return tree;
}

rc::Gen<std::vector<Act>> someActs() {
    return rc::gen::container<std::vector<Act>>(rc::gen::build<Act>(
        rc::gen::set(&Act::what, rc::gen::inRange(0, 14)), rc::gen::set(&Act::where, rc::gen::inRange(0, 48)),
        rc::gen::set(&Act::other, rc::gen::inRange(0, 48))));
}

TEST(HarvestProperty, EqualsTheSlowComparisonOfBothTrees) {
    if (const auto reason = test::enterMounts()) GTEST_SKIP() << *reason;
    ::umask(022);
    std::size_t changed = 0;
    const auto holds = [&changed] {
        const auto built = *someActs();
        const auto layers = *rc::gen::resize(
            3, rc::gen::nonEmpty(rc::gen::container<std::vector<std::vector<Act>>>(rc::gen::resize(40, someActs()))));
        OverlayRig rig;
        for (const Act& act : built) perform(rig.base, act);
        const Tree before = treeOf(rig.base);
        rig.begin();
        for (std::size_t i = 0; i < layers.size(); ++i) {
            if (i > 0) rig.snapshot();
            for (const Act& act : layers[i]) perform(rig.merged, act);
        }
        const Tree after = treeOf(rig.merged);
        const Harvest harvest = rig.harvest();
        RC_ASSERT(harvest.refused.empty());
        RC_ASSERT(harvest.changes == difference(before, after));
        RC_ASSERT(applied(before, harvest.changes) == after);
        RC_ASSERT(treeOf(rig.base) == before);
        changed += harvest.changes.changes().size();
    };
    for (int i = 0; i < (std::getenv("GRADUS_LONG") != nullptr ? 50 : 1); ++i) {
        rc::detail::TestParams params = rc::detail::configuration().testParams;
        params.seed += static_cast<std::uint64_t>(i);
        const auto result = rc::detail::checkTestable(holds, rc::detail::TestMetadata{}, params);
        ASSERT_TRUE(result.template is<rc::detail::SuccessResult>()) << [&] {
            std::ostringstream out;
            rc::detail::printResultMessage(result, out);
            return out.str();
        }();
    }
    EXPECT_GT(changed, 100U);
}

}  // namespace
}  // namespace gradus
