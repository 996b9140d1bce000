// A tree that does not exist yet, seen from inside: it must be the directory with the change applied by hand.
#include "stages/sandbox/change_layer.h"

#include <fcntl.h>
#include <rapidcheck.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <sstream>

#include "tests/stages/sandbox/sandboxes_fixture.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

/// A tree as a value: paths in order, so that parents come first.
struct Thing {
    EntryType type = EntryType::kFile;
    mode_t mode = 0644;
    std::string text;  ///< content, or where a link leads
    bool operator==(const Thing&) const = default;
};
using Tree = std::map<std::string, Thing>;

std::string parentOf(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "" : path.substr(0, slash);
}

void removeAt(Tree& tree, const std::string& path) {
    std::erase_if(tree, [&](const auto& item) { return item.first == path || item.first.starts_with(path + "/"); });
}

void putAt(Tree& tree, const std::string& path, const Thing& thing) {
    if (const std::string parent = parentOf(path); !parent.empty()) {
        const auto there = tree.find(parent);
        if (there == tree.end() || there->second.type != EntryType::kDirectory)
            putAt(tree, parent, {EntryType::kDirectory, 0755, ""});
    }
    const auto there = tree.find(path);
    const bool staysDirectory =
        there != tree.end() && there->second.type == EntryType::kDirectory && thing.type == EntryType::kDirectory;
    if (!staysDirectory) removeAt(tree, path);
    tree[path] = thing;
}

/// One step of somebody's work.
struct Step {
    std::string path;
    int what = 0;
    int look = 0;
};

Thing thingOf(const Step& step) {
    constexpr std::array kDirectoryModes{0755U, 0700U, 0750U};
    constexpr std::array kFileModes{0644U, 0600U, 0755U, 0640U};
    const auto look = static_cast<std::size_t>(step.look);
    if (step.what % 4 == 0) return {EntryType::kDirectory, kDirectoryModes[look % kDirectoryModes.size()], ""};
    if (step.what % 4 == 1) return {EntryType::kSymlink, 0777, "to/" + std::to_string(look % 3)};
    return {EntryType::kFile, kFileModes[look % kFileModes.size()],
            std::string(look % 3, 'x') + std::to_string(look % 5)};
}

void perform(Tree& tree, const std::vector<Step>& steps) {
    for (const Step& step : steps) {
        if (step.what >= 8)
            removeAt(tree, step.path);
        else
            putAt(tree, step.path, thingOf(step));
    }
}

std::vector<Step> anySteps(int most) {
    const auto name = rc::gen::element<std::string>("a", "b", "c");
    const auto path =
        rc::gen::map(rc::gen::resize(3, rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(name))),
                     [](const std::vector<std::string>& names) {
                         std::string all;
                         for (const std::string& one : names) all += (all.empty() ? "" : "/") + one;
                         return all;
                     });
    const auto step =
        rc::gen::build<Step>(rc::gen::set(&Step::path, path), rc::gen::set(&Step::what, rc::gen::inRange(0, 12)),
                             rc::gen::set(&Step::look, rc::gen::inRange(0, 60)));
    return *rc::gen::resize(most, rc::gen::container<std::vector<Step>>(step));
}

class ChangeLayerTest : public SandboxesTest {
  protected:
    ChangeLayerTest() : objects_(state_.objects(), clock_) {}

    Entry entryOf(const Thing& thing) {
        if (thing.type == EntryType::kDirectory) return {thing.type, thing.mode, {}, 0};
        const mode_t mode = thing.type == EntryType::kSymlink ? 0777 : thing.mode;
        return {thing.type, mode, objects_.put(thing.text), thing.text.size()};
    }

    ChangeSet between(const Tree& before, const Tree& after) {
        std::map<std::string, PathChange> changes;
        for (const auto& [path, thing] : before) changes[path] = {path, entryOf(thing), std::nullopt};
        for (const auto& [path, thing] : after) {
            changes[path].path = path;
            changes[path].after = entryOf(thing);
        }
        std::vector<PathChange> all;
        for (auto& [path, change] : changes)
            if (change.before != change.after) all.push_back(change);
        return ChangeSet(std::move(all));
    }

    /// What a patch says: nothing of new directories that something is in.
    static ChangeSet withoutNewDirectories(const ChangeSet& changes, const Tree& after) {
        std::vector<PathChange> all;
        for (const PathChange& change : changes.changes()) {
            const bool isNew = !change.before && change.after && change.after->type == EntryType::kDirectory;
            const auto next = after.upper_bound(change.path);
            const bool holds = next != after.end() && next->first.starts_with(change.path + "/");
            if (!(isNew && holds && change.after->mode == 0755)) all.push_back(change);
        }
        return ChangeSet(std::move(all));
    }

    void write(const fs::path& root, const Tree& tree) const {
        for (const auto& [path, thing] : tree) {
            const fs::path at = root / path;
            if (thing.type == EntryType::kDirectory) fs::create_directory(at);
            if (thing.type == EntryType::kSymlink) fs::create_symlink(thing.text, at);
            if (thing.type == EntryType::kFile) project_.write(path, thing.text);
            EXPECT_EQ(::lchown(at.c_str(), projectOwner().uid, projectOwner().gid), 0);
            if (thing.type != EntryType::kSymlink) fs::permissions(at, fs::perms(thing.mode));
        }
    }

    void clear() const {
        for (const auto& entry : fs::directory_iterator(project_.path())) fs::remove_all(entry.path());
    }

    static std::string textOf(const Tree& tree) {
        std::string text;
        for (const auto& [path, thing] : tree) {
            const char letter = thing.type == EntryType::kFile ? 'f' : thing.type == EntryType::kDirectory ? 'd' : 'l';
            const bool isLink = thing.type == EntryType::kSymlink;
            text += fmt::format("{}|{}|{:o}|{}|{}\n", path, letter, isLink ? 0777 : thing.mode,
                                isLink ? thing.text : "", projectOwner().uid);
        }
        for (const auto& [path, thing] : tree)
            if (thing.type == EntryType::kFile) text += path + "=" + thing.text + "\n";
        return text;
    }

    std::string seenOver(const ChangeSet& changes, const std::vector<std::string>& leftOut = {}) {
        const ExecutionReport report = sandboxes().runOver(
            {project_.path(), project_.path(), leftOut, changes},
            shell("export LC_ALL=C; find . -mindepth 1 -printf '%P|%y|%m|%l|%U\\n' | sort -t'|' -k1,1; "
                  "find . -type f -printf '%P\\n' | sort | while read -r f; do printf '%s=' \"$f\"; cat \"$f\"; echo; "
                  "done"));
        EXPECT_EQ(report.execution.verdict, Verdict::kOk) << describe(report);
        return report.out.text();
    }

    Objects objects_;
};

template <typename Property>
void expectAlways(Property&& property) {
    rc::detail::TestParams params = rc::detail::configuration().testParams;
    params.maxSuccess = std::getenv("GRADUS_LONG") != nullptr ? 1000 : 60;
    const auto result = rc::detail::checkTestable(std::forward<Property>(property), rc::detail::TestMetadata{}, params);
    std::ostringstream out;
    rc::detail::printResultMessage(result, out);
    EXPECT_TRUE(result.template is<rc::detail::SuccessResult>()) << out.str();
}

TEST_F(ChangeLayerTest, ShowsWhatApplyingByHandWouldGive) {
    expectAlways([&] {
        Tree before;
        perform(before, anySteps(12));
        Tree after = before;
        perform(after, anySteps(10));
        clear();
        write(project_.path(), before);
        const ChangeSet changes = between(before, after);
        const bool asPatch = *rc::gen::arbitrary<bool>();
        RC_ASSERT(seenOver(asPatch ? withoutNewDirectories(changes, after) : changes) == textOf(after));
        RC_ASSERT(layerDirectories() == 0U);
    });
}

TEST_F(ChangeLayerTest, HidesWhatIsLeftOutOfASeed) {
    expectAlways([&] {
        Tree everything;
        perform(everything, anySteps(12));
        std::vector<std::string> leftOut;
        Tree seed = everything;
        for (const Step& step : anySteps(3)) {
            leftOut.push_back(step.path);
            removeAt(seed, step.path);
        }
        Tree after = seed;
        perform(after, anySteps(10));
        clear();
        write(project_.path(), everything);
        RC_ASSERT(seenOver(between(seed, after), leftOut) == textOf(after));
    });
}

TEST_F(ChangeLayerTest, ShowsAnotherDirectoryAtTheProjectsPath) {
    const HostProject release(projectOwner());
    release.write("only-there", "released\n");
    const ExecutionReport report = sandboxes().runOver({project_.path(), release.path(), {}, {}},
                                                       shell("pwd; cat only-there; echo x > only-there"));
    EXPECT_EQ(report.out.text(), project_.path().native() + "\nreleased\n") << describe(report);
    EXPECT_EQ(release.read("only-there"), "released\n");
}

TEST_F(ChangeLayerTest, RefusesAChangeThatLeadsThroughAFile) {
    project_.write("file", "x");
    const ChangeSet changes({{"file/below", std::nullopt, entryOf({})}});
    EXPECT_THROW(sandboxes().runOver({project_.path(), project_.path(), {}, changes}, shell("true")), Error);
    EXPECT_EQ(layerDirectories(), 0U);
    expectConsistent();
}

TEST_F(ChangeLayerTest, SaysWhenAContentIsNotStored) {
    const ChangeSet changes({{"new", std::nullopt, Entry{EntryType::kFile, 0644, sha256("nowhere"), 7}}});
    EXPECT_THROW(sandboxes().runOver({project_.path(), project_.path(), {}, changes}, shell("true")), Error);
    EXPECT_EQ(layerDirectories(), 0U);
    expectConsistent();
}

TEST_F(ChangeLayerTest, DirectoriesOnTheWayKeepTheirTimes) {
    fs::create_directory(project_.path() / "d");
    project_.write("d/old", "x");
    ::lchown((project_.path() / "d").c_str(), projectOwner().uid, projectOwner().gid);
    const timespec times[2] = {{1000, 0}, {1000, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, (project_.path() / "d").c_str(), times, 0), 0);
    const ChangeSet changes({{"d/new", std::nullopt, entryOf({})}});
    const ExecutionReport report =
        sandboxes().runOver({project_.path(), project_.path(), {}, changes}, shell("stat -c %Y d; ls d"));
    EXPECT_EQ(report.out.text(), "1000\nnew\nold\n");
}

}  // namespace
}  // namespace gradus
