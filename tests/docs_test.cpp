// The examples in README.md and docs/ are run as they stand, page by page, with the program itself.
//
// ```console          lines `$ COMMAND`, each followed by what it shows and, unless it exits with 0, by `(exit 2)`
// <!-- file: NAME --> before a fence: the block is written to that file of the scratch project
// <!-- story: climb --> the log from here on holds a change that climbed into one stage and fell back from the next
//
// In what is shown, … stands for anything within a line, and a line of only … for any lines.

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <span>
#include <sstream>

#include "pipeline/service/project.h"
#include "store/store.h"
#include "tests/support/scratch.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAnything = "…";

struct Line {
    std::string text;
    int number = 0;
};

/// One thing that a page wants done.
struct Step {
    enum class Kind { kCommand, kFile, kStory };
    Kind kind = Kind::kCommand;
    std::string word;  ///< the command, the file's name or the story's
    int line = 0;
    std::vector<Line> body;  ///< what is shown, or the file's lines
    int exit = 0;
};

struct Page {
    std::vector<Step> steps;
    std::vector<std::string> faults;  ///< "12: what is wrong with the page itself"
};

std::string trimmedRight(std::string text) {
    text.erase(text.find_last_not_of(" \t\r") + 1);
    return text;
}

std::vector<Line> linesOf(std::istream& in) {
    std::vector<Line> lines;
    for (std::string text; std::getline(in, text);) lines.push_back({text, static_cast<int>(lines.size()) + 1});
    return lines;
}

/// What stands between `<!-- key: ` and ` -->`.
std::optional<std::string> directive(const std::string& line, const std::string& key) {
    const std::string opening = "<!-- " + key + ": ";
    if (!line.starts_with(opening) || !line.ends_with(" -->")) return std::nullopt;
    return line.substr(opening.size(), line.size() - opening.size() - 4);
}

/// `(exit 2)` after the last command's output.
bool takeExit(Step& step, const std::string& line) {
    int code = 0;
    char closing = '\0';
    if (std::sscanf(line.c_str(), "(exit %d%c", &code, &closing) != 2 || closing != ')') return false;
    step.exit = code;
    return true;
}

void readConsole(Page& page, std::span<const Line> lines) {
    bool begun = false;
    for (const Line& line : lines) {
        if (line.text.starts_with("$ ")) {
            page.steps.push_back({Step::Kind::kCommand, line.text.substr(2), line.number, {}, 0});
            begun = true;
        } else if (!begun) {
            page.faults.push_back(fmt::format("{}: a console block begins with a command", line.number));
        } else if (!takeExit(page.steps.back(), line.text)) {
            page.steps.back().body.push_back({trimmedRight(line.text), line.number});
        }
    }
}

/// A command that is shown but not run is a claim that nobody checks.
void refuseUnchecked(Page& page, std::span<const Line> lines) {
    for (const Line& line : lines)
        if (line.text.starts_with("$ gradus "))
            page.faults.push_back(fmt::format("{}: a command outside of a console block", line.number));
}

Page readPage(std::istream& in) {
    Page page;
    const std::vector<Line> lines = linesOf(in);
    std::optional<std::string> file;
    for (std::size_t at = 0; at < lines.size(); ++at) {
        const std::string& text = lines[at].text;
        if (const auto story = directive(text, "story"))
            page.steps.push_back({Step::Kind::kStory, *story, lines[at].number, {}, 0});
        if (!text.starts_with("```")) {
            if (!text.empty()) file = directive(text, "file");
            continue;
        }
        std::size_t end = at + 1;
        while (end < lines.size() && lines[end].text != "```") ++end;
        const auto inside = std::span(lines).subspan(at + 1, end - at - 1);
        if (end == lines.size()) page.faults.push_back(fmt::format("{}: the block never ends", lines[at].number));
        if (file) page.steps.push_back({Step::Kind::kFile, *file, lines[at].number, {inside.begin(), inside.end()}, 0});
        text == "```console" ? readConsole(page, inside) : refuseUnchecked(page, inside);
        file.reset();
        at = end;
    }
    return page;
}

bool lineMatches(std::string_view wanted, std::string_view shown) {
    const auto gap = wanted.find(kAnything);
    if (gap == std::string_view::npos) return wanted == shown;
    if (!shown.starts_with(wanted.substr(0, gap))) return false;
    const std::string_view rest = wanted.substr(gap + kAnything.size());
    for (std::size_t from = gap; from <= shown.size(); ++from)
        if (lineMatches(rest, shown.substr(from))) return true;
    return false;
}

/// `reached` is the furthest place up to which both could be followed.
struct Reached {
    std::size_t wanted = 0;
    std::size_t shown = 0;
};

bool linesMatch(std::span<const Line> wanted, std::span<const std::string> shown, Reached at, Reached& reached) {
    if (at.wanted + at.shown > reached.wanted + reached.shown) reached = at;
    if (at.wanted == wanted.size()) return at.shown == shown.size();
    if (wanted[at.wanted].text == kAnything) {
        for (std::size_t next = at.shown; next <= shown.size(); ++next)
            if (linesMatch(wanted, shown, {at.wanted + 1, next}, reached)) return true;
        return false;
    }
    return at.shown < shown.size() && lineMatches(wanted[at.wanted].text, shown[at.shown]) &&
           linesMatch(wanted, shown, {at.wanted + 1, at.shown + 1}, reached);
}

struct Ended {
    int exit = 0;
    std::vector<std::string> shown;
};

/// What differs, beginning with the number of the page's line; empty if nothing does.
std::string difference(const Step& step, const Ended& ended) {
    Reached reached;
    const std::string whole = fmt::format("{}", fmt::join(ended.shown, "\n"));
    if (!linesMatch(step.body, ended.shown, {}, reached)) {
        const bool missing = reached.wanted < step.body.size();
        return fmt::format("{}: `{}` shows\n  {}\nwhere the page says\n  {}\nall of it:\n{}",
                           missing ? step.body[reached.wanted].number : step.line, step.word,
                           reached.shown < ended.shown.size() ? ended.shown[reached.shown] : "(nothing more)",
                           missing ? step.body[reached.wanted].text : "(nothing more)", whole);
    }
    if (ended.exit != step.exit)
        return fmt::format("{}: `{}` exits with {}, the page says {}\n{}", step.line, step.word, ended.exit, step.exit,
                           whole);
    return "";
}

/// A project, a state directory and a person, all of the page's own.
class Stage {
  public:
    Stage() {
        fs::create_directories(project());
        fs::create_directories(scratch_ / "home");
    }

    /// Empty, or what went wrong, beginning with the number of the page's line.
    std::string take(const Step& step) {
        if (step.kind == Step::Kind::kFile) return write(step);
        if (step.kind == Step::Kind::kStory) return tell(step);
        return difference(step, run(step.word));
    }

  private:
    fs::path project() const { return scratch_ / "shop"; }

    std::string write(const Step& step) {
        const fs::path path = project() / fs::path(step.word).lexically_normal();
        if (fs::path(step.word).is_absolute() || path.lexically_relative(project()).native().starts_with(".."))
            return fmt::format("{}: '{}' is not a file of the project", step.line, step.word);
        fs::create_directories(path.parent_path());
        std::ofstream out(path, std::ios::trunc);
        for (const Line& line : step.body) out << line.text << '\n';
        return "";
    }

    std::string tell(const Step& step) {
        if (step.word != "climb") return fmt::format("{}: there is no story '{}'", step.line, step.word);
        clock_.set(fromMillis(1'740'992'400'000));  // 2025-03-03T09:00:00Z
        Store store = Store::openForWriting({scratch_ / "state"}, {.clock = clock_, .random = random_});
        std::int64_t change = 0;
        ActorId agent = 0;
        std::int64_t project = 0;
        store.write([&](Writer& w) {
            agent = w.actor({ActorKind::kAgent, "fixer"});
            project = w.project(identify(this->project()), agent);
            change = w.submit(project, agent,
                              {sha256("set"), sha256("base"), sha256("patch"), "Cache the price list", {"speed"}, {}});
        });
        for (const bool healthy : {true, false}) {
            clock_.advance(std::chrono::minutes(30));
            store.write([&](Writer& w) { climb(w, {project, change, 1, "", sha256("rules"), {}}, agent, healthy); });
        }
        return "";
    }

    static void climb(Writer& w, PromotionDraft draft, ActorId by, bool healthy) {
        using S = PromotionState;
        draft.stage = healthy ? "staging" : "production";
        const std::int64_t id = w.openPromotion(draft, by);
        const auto move = [&](S from, S to, Cause cause) { w.movePromotion({id, from, to, cause}, by); };
        move(S::kQueued, S::kWaiting, Cause::kProceeded);
        move(S::kWaiting, S::kChecking, Cause::kProceeded);
        w.recordCheck({id, "unit", Cause::kPassed, sha256("evidence"), 0, 4200, std::nullopt}, by);
        move(S::kChecking, S::kApplying, Cause::kPassed);
        w.movePromotion({.promotion = id, .from = S::kApplying, .to = S::kVerifying, .tree = sha256("tree")}, by);
        const Cause verdict = healthy ? Cause::kPassed : Cause::kFailed;
        w.recordCheck({id, "health", verdict, sha256("evidence"), std::nullopt, 15, std::nullopt}, by);
        move(S::kVerifying, healthy ? S::kSoaking : S::kRollingBack, verdict);
        if (healthy) return move(S::kSoaking, S::kPromoted, Cause::kPassed);
        w.movePromotion({.promotion = id, .from = S::kRollingBack, .to = S::kRolledBack, .back = true}, by);
    }

    Ended run(const std::string& command) {
        const fs::path shown = scratch_ / "shown";
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        // Both into one file, as a terminal would show them.
        const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND;
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, shown.c_str(), flags, 0600);
        posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
        const std::string script = fmt::format("cd '{}' && {}", project().native(), command);
        std::array<const char*, 4> words = {"/bin/sh", "-c", script.c_str(), nullptr};
        std::vector<std::string> environment = this->environment();
        std::vector<char*> variables;
        for (std::string& variable : environment) variables.push_back(variable.data());
        variables.push_back(nullptr);
        pid_t pid = 0;
        const int error =
            posix_spawn(&pid, "/bin/sh", &actions, nullptr, const_cast<char**>(words.data()), variables.data());
        posix_spawn_file_actions_destroy(&actions);
        if (error != 0) throw std::runtime_error("cannot run /bin/sh");
        int status = 0;
        waitpid(pid, &status, 0);
        Ended ended{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), {}};
        std::ifstream in(shown);
        for (Line& line : linesOf(in)) ended.shown.push_back(trimmedRight(std::move(line.text)));
        return ended;
    }

    std::vector<std::string> environment() const {
        return {fmt::format("PATH={}:/usr/local/bin:/usr/bin:/bin", fs::path(GRADUS_PROGRAM).parent_path().native()),
                fmt::format("HOME={}", (scratch_ / "home").native()),
                fmt::format("GRADUS_HOME={}", (scratch_ / "state").native()), "GRADUS_ACTOR=person:alice",
                "LC_ALL=C.UTF-8"};
    }

    test::ScratchDirectory scratch_;
    test::FakeClock clock_;
    SystemRandom random_;
};

/// Everything wrong with a page, each beginning with the page's name and line. A page goes on after a wrong example.
std::vector<std::string> faultsOf(const std::string& name, std::istream& in) {
    const Page page = readPage(in);
    std::vector<std::string> faults;
    for (const std::string& fault : page.faults) faults.push_back(name + ":" + fault);
    Stage stage;
    for (const Step& step : page.steps)
        if (const std::string fault = stage.take(step); !fault.empty()) faults.push_back(name + ":" + fault);
    return faults;
}

std::string faultsOf(const std::string& text) {
    std::istringstream in(text);
    return fmt::format("{}", fmt::join(faultsOf("page", in), "\n"));
}

// ---- the pages ----

const fs::path kRoot = GRADUS_SOURCE_DIR;

std::vector<std::string> pages() {
    std::vector<std::string> names = {"README.md"};
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / "docs"))
        if (entry.path().extension() == ".md") names.push_back(fs::relative(entry.path(), kRoot).string());
    std::ranges::sort(names);
    return names;
}

class EveryPage : public testing::TestWithParam<std::string> {};

TEST_P(EveryPage, SaysWhatTheProgramSays) {
    std::ifstream in(kRoot / GetParam());
    for (const std::string& fault : faultsOf(GetParam(), in)) ADD_FAILURE() << fault;
}

TEST_P(EveryPage, LinksToWhatIsThere) {
    std::ifstream in(kRoot / GetParam());
    for (const Line& line : linesOf(in)) {
        for (std::size_t at = 0; (at = line.text.find("](", at)) != std::string::npos;) {
            at += 2;
            const std::string target = line.text.substr(at, line.text.find_first_of("#)", at) - at);
            if (target.empty() || target.find("://") != std::string::npos) continue;
            EXPECT_TRUE(fs::exists(kRoot / fs::path(GetParam()).parent_path() / target))
                << GetParam() << ":" << line.number << ": " << target << " is not there";
        }
    }
}

std::string nameOfPage(const testing::TestParamInfo<std::string>& info) {
    std::string name = info.param;
    std::ranges::replace_if(
        name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
    return name;
}
INSTANTIATE_TEST_SUITE_P(Docs, EveryPage, testing::ValuesIn(pages()), nameOfPage);

TEST(Docs, HoldExamplesAtAll) {
    std::size_t commands = 0;
    std::size_t withCommands = 0;
    for (const std::string& name : pages()) {
        std::ifstream in(kRoot / name);
        const auto steps = readPage(in).steps;
        const auto own = std::ranges::count(steps, Step::Kind::kCommand, &Step::kind);
        commands += static_cast<std::size_t>(own);
        withCommands += own > 0 ? 1 : 0;
    }
    std::cout << commands << " commands on " << withCommands << " of " << pages().size() << " pages\n";
    EXPECT_GE(commands, 40U);
    EXPECT_GE(withCommands, 5U);
}

// ---- the reader of pages itself ----

std::string console(const std::string& lines) { return "```console\n" + lines + "```\n"; }

TEST(DocsReader, AcceptsWhatIsTrue) {
    EXPECT_EQ(faultsOf(console("$ gradus version\ngradus …\n$ echo one; echo two\none\ntwo\n")), "");
}

TEST(DocsReader, NamesTheLineThatIsWrong) {
    EXPECT_EQ(faultsOf("# Title\n\n" + console("$ echo one; echo two\none\nthree\n")),
              "page:6: `echo one; echo two` shows\n  two\nwhere the page says\n  three\nall of it:\none\ntwo");
}

TEST(DocsReader, NoticesLinesThatAreMissingOrTooMany) {
    EXPECT_TRUE(faultsOf(console("$ echo one\n")).starts_with("page:2: `echo one` shows\n  one\n"));
    EXPECT_TRUE(faultsOf(console("$ true\nmore\n")).starts_with("page:3: `true` shows\n  (nothing more)\n"));
}

TEST(DocsReader, AsksForTheExitCode) {
    EXPECT_EQ(faultsOf(console("$ exit 3\n(exit 3)\n")), "");
    EXPECT_EQ(faultsOf(console("$ exit 3\n")), "page:2: `exit 3` exits with 3, the page says 0\n");
    EXPECT_EQ(faultsOf(console("$ true\n(exit 1)\n")), "page:2: `true` exits with 0, the page says 1\n");
}

TEST(DocsReader, AnEllipsisStandsForAnything) {
    EXPECT_EQ(faultsOf(console("$ echo a1b22c\na…b…c\n")), "");
    EXPECT_EQ(faultsOf(console("$ echo a; echo b; echo c\na\n…\nc\n$ echo a; echo b\n…\na\n…\nb\n…\n")), "");
    EXPECT_NE(faultsOf(console("$ echo abd\na…c\n")), "");
    EXPECT_NE(faultsOf(console("$ echo a; echo b; echo c\na\n…\nd\n")), "");
}

TEST(DocsReader, WritesTheFilesThatThePageShows) {
    const std::string file = "<!-- file: sub/a.toml -->\n```toml\nx = 1\n```\n";
    EXPECT_EQ(faultsOf(file + console("$ cat sub/a.toml\nx = 1\n")), "");
    EXPECT_EQ(faultsOf("<!-- file: ../a -->\n```\nx\n```\n"), "page:2: '../a' is not a file of the project");
    EXPECT_EQ(faultsOf("<!-- file: a -->\nwords in between\n```\nx\n```\n" + console("$ test ! -e a\n")), "");
}

TEST(DocsReader, TellsTheStoryThatThePageAsksFor) {
    EXPECT_EQ(faultsOf("<!-- story: climb -->\n" + console("$ gradus audit verify\nok  22 events, …\n")), "");
    EXPECT_EQ(faultsOf("<!-- story: other -->\n"), "page:1: there is no story 'other'");
}

TEST(DocsReader, KeepsEverythingInThePagesOwnPlace) {
    EXPECT_EQ(faultsOf(console("$ test \"$PWD\" = \"$(dirname \"$GRADUS_HOME\")/shop\"\n$ ls\n")), "");
}

TEST(DocsReader, RefusesAPageThatCannotBeRun) {
    EXPECT_EQ(faultsOf("```console\n$ true\n"), "page:1: the block never ends");
    EXPECT_EQ(faultsOf(console("words\n")), "page:2: a console block begins with a command");
    EXPECT_EQ(faultsOf("```\n$ gradus version\n```\n"), "page:2: a command outside of a console block");
}

}  // namespace
}  // namespace gradus
