// Merging against git's own, and edits that have nothing to do with each other in either order.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "stages/changes/merge.h"
#include "stages/changes/text_merge.h"
#include "tests/stages/changes/change_rig.h"
#include "tests/stages/changes/git_program.h"

namespace gradus {
namespace {

using Lines = std::vector<std::string>;

std::string joined(const Lines& lines, const std::string& end, bool lastEnds) {
    std::string text;
    for (std::size_t i = 0; i < lines.size(); ++i) text += lines[i] + (i + 1 < lines.size() || lastEnds ? end : "");
    return text;
}

// A few edits of whole lines: replaced, removed, inserted.
Lines edited(Lines lines, const std::string& mark) {
    const int count = *rc::gen::inRange(0, 4);
    for (int i = 0; i < count; ++i) {
        const auto at = *rc::gen::inRange<std::size_t>(0, lines.size() + 1);
        const auto place = lines.begin() + static_cast<std::ptrdiff_t>(at);
        const int what = *rc::gen::inRange(0, 3);
        if (what == 0 || at == lines.size())
            lines.insert(place, mark + std::to_string(*rc::gen::inRange(0, 5)));
        else if (what == 1)
            lines.erase(place);
        else
            *place = mark + std::to_string(*rc::gen::inRange(0, 5));
    }
    return lines;
}

TEST(MergeProperty, GivesWhatGitGivesWhereGitSucceeds) {
    if (!test::hasGit()) GTEST_SKIP() << "there is no git";
    const test::ScratchDirectory scratch;
    int clean = 0;
    const bool held = rc::check("as git merge-file", [&] {
        const auto base = *rc::gen::container<Lines>(rc::gen::element<std::string>("a", "b", "c", "d", "e", ""));
        const std::string end = *rc::gen::element<std::string>("\n", "\r\n");
        const std::string ancestor = joined(base, end, *rc::gen::arbitrary<bool>());
        const std::string ours = joined(edited(base, "x"), end, *rc::gen::arbitrary<bool>());
        const std::string theirs = joined(edited(base, "y"), end, *rc::gen::arbitrary<bool>());
        test::writeText(scratch / "a", ancestor);
        test::writeText(scratch / "o", ours);
        test::writeText(scratch / "t", theirs);
        const std::string said = test::shell(scratch.path(), "git merge-file -p -q o a t > m; echo $?");
        const auto merged = mergeText(ancestor, ours, theirs);
        RC_ASSERT(merged.has_value() == (said == "0\n"));
        if (!merged) return;
        ++clean;
        RC_ASSERT(*merged == test::readText(scratch / "m"));
        RC_ASSERT(mergeText(ancestor, theirs, ours) == merged);
    });
    EXPECT_TRUE(held);
    EXPECT_GT(clean, 0);
}

TEST(MergeProperty, CommutesWithIndependentEdits) {
    test::ChangeRig rig;
    const bool held = rc::check("in either order", [&] {
        Lines base;
        for (int i = 0; i < 40; ++i) base.push_back("line " + std::to_string(i));
        Lines front = base;
        Lines back = base;
        const auto top = *rc::gen::inRange<std::size_t>(0, 15);
        const auto bottom = *rc::gen::inRange<std::size_t>(22, 40);
        front[top] = "front";
        back[bottom] = "back";
        const Entry a = rig.file(joined(base, "\n", true));
        const Entry f = rig.file(joined(front, "\n", true));
        const Entry b = rig.file(joined(back, "\n", true));
        Lines both = front;
        both[bottom] = "back";
        rig.put("t", joined(back, "\n", true));
        const auto frontLast = mergeOnto(ChangeSet({{"t", a, f}}), rig.reader(), rig.objects);
        rig.put("t", joined(front, "\n", true));
        const auto backLast = mergeOnto(ChangeSet({{"t", a, b}}), rig.reader(), rig.objects);
        RC_ASSERT(frontLast.merged.changes().at(0).after == backLast.merged.changes().at(0).after);
        RC_ASSERT(rig.text(frontLast.merged.changes()[0].after) == joined(both, "\n", true));
    });
    EXPECT_TRUE(held);
}

}  // namespace
}  // namespace gradus
