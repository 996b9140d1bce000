// Random trees, random changes, and a user who edits at random moments: what was written is taken back, what the user
// wrote stays.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <random>
#include <set>
#include <thread>

#include "stages/changes/tree_writer.h"
#include "store/model/error.h"
#include "tests/stages/changes/tree_rig.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kNames = {"a", "b c", "d"};

/// Evenly, from the first case on.
template <typename Number>
Number pick(Number from, Number to) {
    return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<Number>(from, to));
}

Node randomNode(bool mayBeFolder) {
    const int kind = pick(0, mayBeFolder ? 6 : 4);
    if (kind >= 4) return folder(*rc::gen::element(0755U, 0700U, 0555U));
    if (kind == 3) return link(*rc::gen::element<std::string>("a", "../b c", "/nowhere"));
    return file(*rc::gen::element<std::string>("", "one\n", "two\r\n", "three", std::string(1000, '\0')),
                *rc::gen::element(0644U, 0600U, 0755U, 0444U));
}

void fillRandomly(Tree& tree, const std::string& below, int depth) {
    for (const std::string& name : kNames) {
        if (pick(0, 3) == 0) continue;
        const std::string path = below + name;
        tree[path] = randomNode(depth < 2);
        if (tree[path].type == EntryType::kDirectory) fillRandomly(tree, path + "/", depth + 1);
    }
}

Tree randomTree() {
    Tree tree;
    fillRandomly(tree, "", 0);
    return tree;
}

enum class EditKind { kOverwrite, kReplace, kRemove, kCreate, kMakeDirectory };

struct Edit {
    std::size_t moment = 0;  ///< before that call; 0 before the seal
    EditKind kind = EditKind::kOverwrite;
    std::string path;
    std::string bytes;
};

std::string randomPath() {
    std::string path = *rc::gen::elementOf(kNames);
    for (int depth = pick(0, 3); depth > 0; --depth) path += "/" + *rc::gen::elementOf(kNames);
    return path;
}

/// Most of them of paths that are part of it, at moments when something happens.
std::vector<Edit> randomEdits(const Tree& before, const Tree& after) {
    std::vector<std::string> paths{"a"};
    for (const Tree* tree : {&before, &after})
        for (const auto& [path, node] : *tree) paths.push_back(path);
    std::vector<Edit> edits;
    const int count = pick(0, 5);
    for (int i = 0; i < count; ++i) {
        const std::string path = pick(0, 4) == 0 ? randomPath() : *rc::gen::elementOf(paths);
        edits.push_back({pick<std::size_t>(0, 20 + 10 * paths.size()), static_cast<EditKind>(pick(0, 5)), path,
                         fmt::format("the user's edit {}\n", i)});
    }
    return edits;
}

/// Does what a person or an editor does, if that is possible at the moment.
class User {
  public:
    User(fs::path root, std::vector<Edit> edits) : root_(std::move(root)), edits_(std::move(edits)) {}

    void act(std::size_t moment) {
        for (const Edit& edit : edits_)
            if (edit.moment == moment && tryTo(edit)) done_.push_back(edit);
    }
    const std::vector<Edit>& done() const { return done_; }

    /// The last thing that was done to a path, if anything.
    const Edit* last(const std::string& path) const {
        const Edit* found = nullptr;
        for (const Edit& edit : done_)
            if (edit.path == path) found = &edit;
        return found;
    }
    /// Something at, above or below it was edited.
    bool isNear(const std::string& path) const {
        return std::ranges::any_of(done_, [&](const Edit& edit) {
            return edit.path == path || edit.path.starts_with(path + "/") || path.starts_with(edit.path + "/");
        });
    }

  private:
    bool tryTo(const Edit& edit) const {
        const fs::path at = root_ / edit.path;
        fs::path above = root_;
        for (const fs::path& part : fs::path(edit.path).parent_path())
            if (!fs::is_directory(fs::symlink_status(above /= part))) return false;
        const auto status = fs::symlink_status(at);
        switch (edit.kind) {
            case EditKind::kOverwrite:
                return fs::is_regular_file(status) && write(at, edit.bytes);
            case EditKind::kReplace:
                return fs::is_regular_file(status) && replace(at, edit.bytes);
            case EditKind::kCreate:
                return !fs::exists(status) && write(at, edit.bytes);
            case EditKind::kRemove:
                return fs::exists(status) && !fs::is_directory(status) && ::unlink(at.c_str()) == 0;
            default:
                return !fs::exists(status) && ::mkdir(at.c_str(), 0750) == 0;
        }
    }
    static bool write(const fs::path& at, const std::string& bytes) {
        std::ofstream out(at, std::ios::binary | std::ios::trunc);
        return static_cast<bool>(out << bytes << std::flush);
    }
    bool replace(const fs::path& at, const std::string& bytes) const {
        const fs::path beside = root_.parent_path() / "editor";
        return write(beside, bytes) && ::rename(beside.c_str(), at.c_str()) == 0;
    }

    fs::path root_;
    std::vector<Edit> edits_;
    std::vector<Edit> done_;
};

bool holdsSomewhere(const Tree& tree, const Edit& edit) {
    return std::ranges::any_of(tree, [&](const auto& item) {
        const bool isItsPlace = item.first == edit.path || item.first.find(".gradus-kept-") != std::string::npos;
        return isItsPlace && item.second.bytes == edit.bytes;
    });
}

/// What is wrong with the tree at the end, or nothing.
std::string judge(const Tree& before, const Tree& now, const User& user, const std::vector<Kept>& kept) {
    std::string wrong;
    for (const Edit& edit : user.done()) {
        if (user.last(edit.path) != &edit) continue;
        const bool hasBytes = edit.kind != EditKind::kRemove && edit.kind != EditKind::kMakeDirectory;
        if (hasBytes && !holdsSomewhere(now, edit)) wrong += "lost the edit of " + edit.path + "\n";
    }
    for (const Kept& path : kept)
        if (!user.isNear(path.path)) wrong += "kept without reason: " + path.path + ": " + path.reason + "\n";
    for (const auto& [path, node] : before) {
        if (user.isNear(path)) continue;
        const auto found = now.find(path);
        if (found == now.end() || !(found->second == node)) wrong += "not as before: " + path + "\n";
    }
    for (const auto& [path, node] : now)
        if (!before.contains(path) && !user.isNear(path) && path.find(".gradus-kept-") == std::string::npos)
            wrong += "left behind: " + path + "\n";
    return wrong;
}

struct Totals {
    std::size_t cases = 0;
    std::size_t applied = 0;
    std::size_t collided = 0;
    std::size_t refused = 0;
    std::size_t edits = 0;
    std::size_t saved = 0;
};

/// One life of a change: sealed, applied and undone, with the user's edits in between.
std::string live(TreeRig& rig, const Tree& after, User& user, Totals& totals) {
    const Tree before = rig.now();
    std::size_t moment = 0;
    WatchedOperations files([&](std::size_t, std::string_view, std::string_view) {
        user.act(++moment);
        return 0;
    });
    TreeWriter writer = rig.writer(files);
    const Plan plan = writer.plan(changesBetween(plain(before), after, rig.objects()));
    if (!plan.isClear()) return "a conflict where there is none: " + describe(plan.conflicts.front());
    user.act(0);
    std::vector<Kept> kept;
    try {
        const JournalRef ref = writer.seal(plan);
        const ApplyReport report = writer.apply(ref);
        if (report.applied && user.done().empty() && plain(rig.now()) != after) return "not applied as it should be";
        if (!report.applied && user.done().empty())
            return "a collision with nobody: " + describe(report.conflicts.front());
        ++(report.applied ? totals.applied : totals.collided);
        totals.saved += report.saved.size();
        const UndoReport undone = writer.undo(ref);
        kept = report.applied ? undone.kept : report.kept;
        totals.saved += undone.saved.size();
    } catch (const Error& error) {
        if (error.code() != ErrorCode::kNotAllowed || user.done().empty()) return error.what();
        ++totals.refused;
    }
    totals.edits += user.done().size();
    ++totals.cases;
    return judge(before, rig.now(), user, kept);
}

void setCases(int usual, int extended) {
    const char* given = std::getenv("RC_PARAMS");
    const int wanted = std::getenv("GRADUS_LONG") != nullptr ? extended : usual;
    static const std::string kGiven = given != nullptr ? given : "seed=2026";
    ::setenv("RC_PARAMS", fmt::format("{} max_success={}", kGiven, wanted).c_str(), 1);
}

TEST(TreeWriterProperty, WhatWasWrittenIsTakenBackAndWhatTheUserWroteStays) {
    setCases(1500, 30'000);
    TreeRig rig;
    Totals totals;
    EXPECT_TRUE(rc::check("apply, then undo, with edits at any moment", [&] {
        const Tree before = randomTree();
        const Tree after = randomTree();
        rig.reset(before);
        User user(rig.root(), randomEdits(before, after));
        const std::string wrong = live(rig, after, user, totals);
        if (!wrong.empty()) {
            for (const Edit& edit : user.done())
                RC_LOG(
                    fmt::format("edit {} of {} before call {}", static_cast<int>(edit.kind), edit.path, edit.moment));
            RC_LOG(difference(plain(before), after));
            RC_FAIL(wrong);
        }
    }));
    std::cout << fmt::format("{} cases: {} applied, {} collided, {} refused; {} edits, {} of them saved beside\n",
                             totals.cases, totals.applied, totals.collided, totals.refused, totals.edits, totals.saved);
}

/// The writer is killed somewhere, the user goes on working, then comes recovery, and undo if it was applied.
std::string dieAndRecover(TreeRig& rig, const Tree& after, std::size_t deadly, User& user) {
    const Tree before = rig.now();
    const ChangeSet changes = changesBetween(plain(before), after, rig.objects());
    fs::remove_all(rig.journals());
    inChild([&] {
        WatchedOperations files([&](std::size_t number, std::string_view, std::string_view) {
            if (number == deadly) dieNow();
            return 0;
        });
        rig.apply(changes, files);
    });
    user.act(0);
    RealFileOperations real;
    std::vector<Kept> kept;
    for (const JournalRef& ref : JournalDirectory(rig.journals(), real).list()) {
        TreeWriter writer = rig.writer(real);
        const bool isApplied = writer.stateOf(ref) == WriteState::kApplied;
        const UndoReport report = writer.recover(ref);
        kept = isApplied ? writer.undo(ref).kept : report.kept;
    }
    return judge(before, rig.now(), user, kept);
}

TEST(TreeWriterProperty, EditsMadeBetweenACrashAndTheRecoveryStay) {
    setCases(400, 10'000);
    TreeRig rig;
    std::size_t edits = 0;
    EXPECT_TRUE(rc::check("killed, edited, recovered", [&] {
        const Tree before = randomTree();
        const Tree after = randomTree();
        rig.reset(before);
        std::vector<Edit> wanted = randomEdits(before, after);
        for (Edit& edit : wanted) edit.moment = 0;
        User user(rig.root(), wanted);
        const auto deadly = pick<std::size_t>(1, 20 + 8 * (before.size() + after.size()));
        const std::string wrong = dieAndRecover(rig, after, deadly, user);
        edits += user.done().size();
        if (!wrong.empty()) {
            for (const Edit& edit : user.done())
                RC_LOG(fmt::format("edit {} of {}", static_cast<int>(edit.kind), edit.path));
            RC_LOG(fmt::format("killed before call {}\n{}", deadly, difference(plain(before), after)));
            RC_FAIL(wrong);
        }
    }));
    std::cout << edits << " edits\n";
}

/// Exchanges a directory of the tree for a link that leads out of it, and back: as fast as it can, or, by the seed,
/// resting now and then for longer than anybody is patient with a link.
class Flipper {
  public:
    Flipper(const fs::path& directory, const fs::path& link, int seed)
        : thread_([this, directory, link, seed] {
              std::minstd_rand random(static_cast<unsigned>(seed) + 1);
              while (!stop_) {
                  ::renameat2(AT_FDCWD, directory.c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE);
                  ++flips_;
                  if (random() % 4 < static_cast<unsigned>(seed % 4))
                      std::this_thread::sleep_for(std::chrono::microseconds(random() % 100));
              }
              if (flips_ % 2 == 1) ::renameat2(AT_FDCWD, directory.c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE);
          }) {}
    ~Flipper() { stop(); }
    std::size_t stop() {
        stop_ = true;
        if (thread_.joinable()) thread_.join();
        return flips_;
    }

  private:
    std::atomic<bool> stop_{false};
    std::size_t flips_ = 0;
    std::thread thread_;
};

TEST(TreeWriterProperty, NothingIsWrittenOutsideWhileADirectoryTurnsIntoALink) {
    GRADUS_CASES("CA6");
    const Tree inside = {
        {"dir", folder()}, {"dir/closed", folder(0755)}, {"dir/f", file("old\n")}, {"dir/gone", file("old too\n")}};
    const Tree wanted = {{"dir", folder()},
                         {"dir/f", file("new\n")},
                         {"dir/added", file("more\n")},
                         {"dir/closed", folder(0700)},
                         {"dir/sub", folder()},
                         {"dir/sub/x", file("deep\n")},
                         {"dir/mode", folder(0700)}};
    TreeRig rig;
    build(rig.outside(), {{"f", file("canary\n")}, {"gone", file("canary\n")}, {"mode", folder()}});
    const Tree canary = readTree(rig.outside());
    const int rounds = std::getenv("GRADUS_LONG") != nullptr ? 10'000 : 1000;
    std::size_t flips = 0;
    std::map<std::string, int> ends;
    for (int round = 0; round < rounds; ++round) {
        rig.reset(inside);
        const ChangeSet changes = rig.changesTo(wanted);
        const Tree before = rig.now();
        fs::create_directory_symlink(rig.outside(), rig.root() / "link");
        RealFileOperations real;
        TreeWriter writer = rig.writer(real);
        const Plan plan = writer.plan(changes);
        std::optional<Flipper> flipper;
        const auto flip = [&] { flipper.emplace(rig.root() / "dir", rig.root() / "link", round); };
        std::string end = "refused";
        JournalRef ref;
        try {
            if (round % 3 == 0) flip();
            ref = writer.seal(plan);
            if (round % 3 == 1) flip();
            end = writer.apply(ref).applied ? "applied" : "collided";
            if (!flipper) flip();
            if (!writer.undo(ref).blocked.empty()) end += ", blocked";
        } catch (const Error& error) {
            if (!ref.name.empty()) end = "blocked";
        }
        flips += flipper->stop();
        // The way back may have led through the link at that moment; now it is free.
        const UndoReport last = ref.name.empty() ? UndoReport() : writer.undo(ref);
        const auto inWords = [](const Kept& one) { return one.path + ": " + one.reason; };
        for (const Kept& one : last.kept) FAIL() << "round " << round << ", " << end << ", kept " << inWords(one);
        for (const Kept& one : last.blocked) FAIL() << "round " << round << ", " << end << ", blocked " << inWords(one);
        ++ends[end];
        fs::remove(rig.root() / "link");
        ASSERT_EQ(difference(readTree(rig.outside()), canary), "") << "round " << round;
        ASSERT_EQ(difference(rig.now(), before), "") << "round " << round << ", " << end;
    }
    std::cout << fmt::format("{} rounds, {} flips: {}\n", rounds, flips, fmt::join(ends, " "));
}

}  // namespace
}  // namespace gradus::test
