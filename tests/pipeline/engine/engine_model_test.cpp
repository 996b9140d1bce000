// The engine against a model of it that fits on a page: random commands, crashes, a clock that jumps, people who edit.
// A sequence on which the two disagree is shortened to one in which every command matters, and printed.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <iostream>
#include <random>

#include "store/model/error.h"
#include "store/word_writer.h"
#include "tests/pipeline/engine/engine_rig.h"
#include "tests/support/case.h"

namespace gradus::test {
namespace {

using S = PromotionState;
using Contents = std::map<std::string, std::string>;

constexpr std::array kStages{"sandbox", "local", "production"};
constexpr unsigned kShared = 3;
constexpr Milliseconds kHour{3'600'000};

enum class Verb { kSubmit, kPromote, kBusy, kKill, kUndo, kApprove, kHold, kVeto, kHalt, kEdit, kClock, kAnswer };
constexpr std::array kVerbNames{"submit",
                                "promote",
                                "promote, its target taken",
                                "promote, killed",
                                "undo",
                                "approve",
                                "hold",
                                "veto",
                                "halt or resume",
                                "edit",
                                "clock",
                                "answer"};

/// Numbers are taken modulo what there is, so that a sequence stays one when commands are left out of it.
struct Command {
    Verb verb = Verb::kSubmit;
    unsigned a = 0;
    unsigned b = 0;

    std::string text() const { return fmt::format("{} {} {}", kVerbNames.at(static_cast<std::size_t>(verb)), a, b); }
};

Command someCommand(std::mt19937& random) {
    constexpr std::array kWeights{Verb::kSubmit,  Verb::kSubmit,  Verb::kSubmit,  Verb::kPromote, Verb::kPromote,
                                  Verb::kPromote, Verb::kPromote, Verb::kBusy,    Verb::kKill,    Verb::kKill,
                                  Verb::kUndo,    Verb::kUndo,    Verb::kApprove, Verb::kApprove, Verb::kHold,
                                  Verb::kVeto,    Verb::kHalt,    Verb::kEdit,    Verb::kEdit,    Verb::kClock,
                                  Verb::kClock,   Verb::kAnswer,  Verb::kAnswer};
    return {kWeights.at(random() % kWeights.size()), static_cast<unsigned>(random() % 1000),
            static_cast<unsigned>(random() % 1000)};
}

/// Berlin's local time, by the C library: the engine has its own.
Time berlin(int year, int month, int day, int hour, int minute) {
    std::tm local{};
    local.tm_year = year - 1900;
    local.tm_mon = month - 1;
    local.tm_mday = day;
    local.tm_hour = hour;
    local.tm_min = minute;
    local.tm_isdst = -1;
    return fromMillis(std::int64_t{std::mktime(&local)} * 1000);
}

/// Production takes nothing for two hours from half past one at night: over the hour that is left out or doubled.
bool isClosedWindow(Time now) {
    const std::time_t seconds = toMillis(now) / 1000;
    std::tm local{};
    localtime_r(&seconds, &local);
    for (const int back : {0, 1}) {
        const Time begin = berlin(local.tm_year + 1900, local.tm_mon + 1, local.tm_mday - back, 1, 30);
        if (now >= begin && now < begin + 2 * kHour) return true;
    }
    return false;
}

/// What the engine should do, in as few words as possible.
class Model {
  public:
    struct Change {
        std::int64_t id = 0;
        bool byMachine = false;
        std::string path;
        std::optional<std::string> before;
        std::string after;
        std::map<std::string, bool> has;       ///< by stage: it stands there
        std::map<std::string, bool> held;      ///< machines do not try again
        std::map<std::string, Cause> answers;  ///< by stage, "/after" for those after
        std::optional<Time> vetoed;
        std::vector<std::string> restores;  ///< stages in which it can be taken back
    };
    struct Approval {
        std::int64_t change = 0;
        Time at{};
        Contents ground;
        bool used = false;
    };
    struct Landing {
        std::int64_t change = 0;
        std::int64_t promotion = 0;
        std::optional<Contents> before;
    };

    std::vector<Change> changes;
    Contents project;
    std::optional<Contents> production;
    std::vector<Landing> landings;  ///< in production, oldest first
    std::vector<Landing> locals;
    std::vector<Approval> approvals;
    std::vector<std::pair<std::optional<std::int64_t>, Time>> holds;  ///< of production: whom, until when
    bool halted = false;
    bool isLocalHeld = false;  ///< for machines

    const Contents& ground(const std::string& stage) const {
        return stage == "production" && production ? *production : project;
    }
    static std::optional<std::string> at(const Contents& tree, const std::string& path) {
        const auto found = tree.find(path);
        return found == tree.end() ? std::nullopt : std::optional(found->second);
    }
    static bool fits(const Change& change, const Contents& tree) {
        const auto now = at(tree, change.path);
        return now == change.before || now == change.after;
    }
    static Contents with(const Change& change, Contents tree) {
        tree[change.path] = change.after;
        return tree;
    }
    static Cause answer(const Change& change, const std::string& asked) {
        const auto found = change.answers.find(asked);
        return found == change.answers.end() ? Cause::kPassed : found->second;
    }

    /// Where one promotion into one stage ends.
    S expected(const Change& change, const std::string& stage, bool machine, const std::optional<std::string>& taken,
               Time now) const {
        if (!fits(change, ground(stage))) return S::kStale;
        if (halted || change.vetoed) return S::kWaiting;
        if (machine && (isHeld(change, stage) || (stage == "local" && isLocalHeld))) return S::kWaiting;
        if (stage == "production") {
            for (const auto& [whom, until] : holds)
                if (now < until && (!whom || *whom == change.id)) return S::kWaiting;
            if (isClosedWindow(now)) return S::kWaiting;
        }
        if (answer(change, stage) != Cause::kPassed) return S::kRejected;
        if (taken == stage) return S::kWaiting;
        if (stage == "production" && !consent(change, now)) return S::kWaiting;
        if (stage != "sandbox" && answer(change, stage + "/after") != Cause::kPassed) return S::kRolledBack;
        return S::kPromoted;
    }
    static bool isHeld(const Change& change, const std::string& stage) {
        const auto found = change.held.find(stage);
        return found != change.held.end() && found->second;
    }
    std::optional<std::size_t> consent(const Change& change, Time now) const {
        for (std::size_t i = 0; i < approvals.size(); ++i)
            if (const Approval& one = approvals[i];
                one.change == change.id && !one.used && now < one.at + 24 * kHour && one.ground == ground("production"))
                return i;
        return std::nullopt;
    }

    void land(Change& change, const std::string& stage, std::int64_t promotion) {
        change.has[stage] = true;
        if (stage == "local") {
            locals.push_back({change.id, promotion, project});
            project = with(change, project);
        } else if (stage == "production") {
            landings.push_back({change.id, promotion, production});
            production = with(change, ground("production"));
        }
    }
};

/// Runs a sequence on both; the first thing that they do not agree about.
class Run {
  public:
    Run() {
        ::setenv("TZ", "Europe/Berlin", 1);
        ::tzset();
        rig_.productionPolicy = "approvals = [{ count = 1, expires = \"24h\" }]";
        rig_.moreRules =
            "[[window]]\nstages = [\"production\"]\n"
            "deny = { cron = \"30 1 * * *\", for = \"2h\", timezone = \"Europe/Berlin\" }\n";
        Tree tree;
        for (unsigned i = 0; i < kShared; ++i) {
            model_.project[shared(i)] = "base\n";
            tree[shared(i)] = file("base\n");
        }
        build(rig_.project(), tree);
        setClock(berlin(2026, 3, 28, 12, 0));
    }

    /// How often a promotion came to each state: what is never reached is not tested.
    static std::map<S, int>& reached() {
        static std::map<S, int> counts;
        return counts;
    }

    std::optional<std::string> all(const std::vector<Command>& commands) {
        for (const Command& command : commands) {
            problem_.clear();
            try {
                step(command);
                compare();
            } catch (const std::exception& e) {
                problem_ += fmt::format("threw: {}", e.what());
            }
            if (!problem_.empty()) return fmt::format("after '{}': {}", command.text(), problem_);
        }
        whole();
        return problem_.empty() ? std::nullopt : std::optional(problem_);
    }

  private:
    static std::string shared(unsigned k) { return fmt::format("shared{}", k % kShared); }
    Time now() { return rig_.clock().now(); }
    void setClock(Time time) { rig_.clock().advance(std::chrono::duration_cast<Milliseconds>(time - now())); }
    void fail(const std::string& text) { problem_ += (problem_.empty() ? "" : "; ") + text; }
    Model::Change* changeAt(unsigned n) {
        return model_.changes.empty() ? nullptr : &model_.changes[n % model_.changes.size()];
    }
    void say(const std::function<void(WordWriter&, std::int64_t project)>& what) {
        const std::int64_t project = rig_.engine()->project().id;
        rig_.store().write([&](Writer& writer) {
            WordWriter words(writer, writer.actor({ActorKind::kPerson, "ben"}), 0);
            what(words, project);
        });
    }

    void step(const Command& command) {
        if (command.verb == Verb::kSubmit) return submit(command);
        if (command.verb == Verb::kEdit) return edit(command);
        if (command.verb == Verb::kClock) return jump(command);
        if (command.verb == Verb::kHalt) return halt();
        if (command.verb == Verb::kUndo) return undo(command);
        Model::Change* change = changeAt(command.a);
        if (change == nullptr) return;
        const bool machine = command.b % 4 == 0;
        switch (command.verb) {
            case Verb::kPromote:
                return promote(*change, kStages.at(command.b % kStages.size()), machine, std::nullopt);
            case Verb::kBusy:
                return promote(*change, "production", machine, command.b % 2 == 0 ? "local" : "production");
            case Verb::kKill:
                return kill(*change, command.b);
            case Verb::kApprove:
                return approve(*change);
            case Verb::kHold:
                return hold(command.b % 2 == 0 ? std::optional(change->id) : std::nullopt);
            case Verb::kVeto:
                return veto(*change);
            default:
                return answer(*change, command.b);
        }
    }

    void submit(const Command& command) {
        Model::Change change;
        const auto number = model_.changes.size();
        change.byMachine = command.a % 3 == 0;
        change.path = command.b % 2 == 0 ? fmt::format("new{}", number) : shared(command.b);
        const auto found = model_.project.find(change.path);
        if (found != model_.project.end()) change.before = found->second;
        change.after = fmt::format("c{}\n", number);
        Tree before;
        if (change.before) before[change.path] = file(*change.before);
        const Actor by = change.byMachine ? Actor{ActorKind::kAgent, "bot"} : Actor{ActorKind::kPerson, "ada"};
        change.id = rig_.submitChanges(changesBetween(before, {{change.path, file(change.after)}}, rig_.objects()), by);
        model_.changes.push_back(std::move(change));
    }

    void edit(const Command& command) {
        const std::string path = command.a % 2 == 0 ? shared(command.b) : fmt::format("user{}", command.b % 3);
        const std::string text = fmt::format("edit {} {}\n", command.a, command.b);
        std::filesystem::remove(rig_.project() / path);
        build(rig_.project(), {{path, file(text)}});
        model_.project[path] = text;
    }

    void jump(const Command& command) {
        const std::array<Time, 4> around{berlin(2026, 3, 29, 1, 20), berlin(2026, 3, 29, 3, 29),
                                         berlin(2026, 10, 25, 1, 40), berlin(2026, 10, 25, 3, 20)};
        if (command.a % 3 == 0) return setClock(around.at(command.b % around.size()) + Milliseconds(command.a));
        rig_.clock().advance(kHour * (static_cast<int>(command.b % 40) - 8));
    }

    void halt() {
        say([&](WordWriter& words, std::int64_t project) {
            if (model_.halted) return words.resume(project);
            words.halt(project, "stop");
        });
        model_.halted = !model_.halted;
    }

    void hold(const std::optional<std::int64_t>& change) {
        const Time until = now() + 3 * kHour;
        say([&](WordWriter& words, std::int64_t project) {
            Hold hold;
            hold.project = project;
            hold.stage = "production";
            hold.change = change;
            hold.until = until;
            words.hold(hold);
        });
        std::erase_if(model_.holds, [&](const auto& one) { return one.first == change; });
        model_.holds.emplace_back(change, until);
    }

    void veto(Model::Change& change) {
        const auto row = rig_.store().records().change(change.id);
        say([&](WordWriter& words, std::int64_t project) {
            Veto veto;
            veto.project = project;
            veto.change = change.id;
            veto.changeSet = row->changeSet;
            veto.patch = row->patch;
            if (!change.vetoed) return words.veto(veto);
            for (const Veto& given : rig_.store().records().words().vetoes(project))
                if (given.change == change.id) words.unveto(given);
        });
        change.vetoed = change.vetoed ? std::nullopt : std::optional(now());
    }

    static void answer(Model::Change& change, unsigned n) {
        constexpr std::array kCauses{Cause::kPassed, Cause::kFailed, Cause::kErrored};
        constexpr std::array kAsked{"sandbox", "local", "production", "local/after", "production/after"};
        change.answers[kAsked.at(n % kAsked.size())] = kCauses.at(n / 7 % kCauses.size());
    }

    void approve(Model::Change& change) {
        rig_.actor = {ActorKind::kPerson, "ben"};
        bool mayBe = Model::fits(change, model_.ground("production"));
        try {
            rig_.engine()->approve(change.id, "production", "", false);
            if (mayBe) model_.approvals.push_back({change.id, now(), model_.ground("production"), false});
        } catch (const Error&) {
            if (mayBe) fail("a consent was refused");
        }
    }

    void ask(const Model::Change& change, bool machine) {
        rig_.actor = machine ? Actor{ActorKind::kAgent, "bot"} : Actor{ActorKind::kPerson, "ada"};
        rig_.answers.before = [change](const std::string& stage) { return Model::answer(change, stage); };
        rig_.answers.after = [change](const std::string& stage) { return Model::answer(change, stage + "/after"); };
    }

    /// After three failures of one revision's checks machines wait: a gate of time, which has tests of its own.
    static bool pauses(const StageReport& report) {
        return report.promotion.state == S::kWaiting && report.reason.find("machines pause") != std::string::npos;
    }

    void promote(Model::Change& change, const std::string& to, bool machine, const std::optional<std::string>& taken) {
        ask(change, machine);
        std::optional<TargetLock> lock;
        if (taken) lock.emplace(rig_.lockTarget(*taken));
        const Climb climb = rig_.engine()->promote(change.id, to, {}, {});
        for (const StageReport& report : climb.stages) {
            const std::string& stage = report.promotion.stage;
            const bool isQueued = !othersFirst(climb, stage, change, taken);
            if (!problem_.empty()) return;
            if (report.already != stands(change, stage))
                return fail(fmt::format("{} {} already there", stage, report.already ? "is" : "is not"));
            if (report.already) continue;
            S wanted = model_.expected(change, stage, machine, taken, now());
            if (isQueued && wanted != S::kStale) wanted = S::kWaiting;
            if (machine && pauses(report)) wanted = S::kWaiting;
            if (report.promotion.state != wanted)
                return fail(fmt::format("c{} into {} is {}, not {} ({})", change.id, stage,
                                        nameOf(kPromotionStates, report.promotion.state),
                                        nameOf(kPromotionStates, wanted), report.reason));
            happened(change, report.promotion);
        }
        if (climb.stages.back().promotion.stage != to && climb.succeeded()) fail("it ended on the way");
    }

    /// Those that were before it and ready went in before it did, under whoever asked for them; the checks are the same
    /// for all that one command drives. False: one of them is still before it.
    bool othersFirst(const Climb& climb, const std::string& stage, const Model::Change& asked,
                     const std::optional<std::string>& taken) {
        bool isItsTurn = true;
        for (const StageReport& report : climb.others) {
            if (report.promotion.stage != stage) continue;
            Model::Change& other = changeOf(report.promotion.change);
            const auto promoter = rig_.store().records().movedBy(report.promotion.id);
            Model::Change judged = other;
            judged.answers = asked.answers;
            const bool machine = promoter->kind != ActorKind::kPerson;
            const S wanted =
                machine && pauses(report) ? S::kWaiting : model_.expected(judged, stage, machine, taken, now());
            if (report.promotion.state != wanted)
                fail(fmt::format("c{}, which was before it in {}, is {}, not {} ({})", other.id, stage,
                                 nameOf(kPromotionStates, report.promotion.state), nameOf(kPromotionStates, wanted),
                                 report.reason));
            happened(other, report.promotion);
            if (report.promotion.state == S::kWaiting) isItsTurn = false;
        }
        return isItsTurn;
    }
    Model::Change& changeOf(std::int64_t id) { return *std::ranges::find(model_.changes, id, &Model::Change::id); }

    static bool stands(const Model::Change& change, const std::string& stage) {
        const auto found = change.has.find(stage);
        return found != change.has.end() && found->second && !change.vetoed;
    }

    /// What follows from how it ended.
    void happened(Model::Change& change, const Promotion& promotion) {
        const std::string& stage = promotion.stage;
        ++reached()[promotion.state];
        const bool touched = promotion.state == S::kPromoted || promotion.state == S::kRolledBack;
        if (stage == "production" && touched)
            if (const auto used = model_.consent(change, now())) model_.approvals[*used].used = true;
        if (promotion.state == S::kPromoted) model_.land(change, stage, promotion.id);
        const bool isNo = promotion.cause == Cause::kFailed;
        if (isNo && (promotion.state == S::kRejected || promotion.state == S::kRolledBack)) change.has[stage] = false;
        if (promotion.state == S::kRolledBack && isNo) change.held[stage] = true;
    }

    /// Killed somewhere, then recovered: what the records say of each stage must be what is there.
    void kill(Model::Change& change, unsigned n) {
        ask(change, false);
        std::map<std::int64_t, S> known;
        for (const Promotion& promotion : rig_.promotions()) known.emplace(promotion.id, promotion.state);
        rig_.close();
        inChild([&] {
            std::size_t count = 0;
            const auto tick = [&] {
                if (++count == n % 90 + 1) dieNow();
                return 0;
            };
            WatchedOperations files([&](std::size_t, std::string_view, std::string_view) { return tick(); });
            EngineProgress progress;
            progress.moved = [&](const Promotion&, const std::string&) { tick(); };
            rig_.engine(files)->promote(change.id, "production", progress, {});
        });
        rig_.engine()->recover({}, {});
        auto all = rig_.promotions();
        // It climbs through the stages in their order, and those before it in a queue go first.
        std::ranges::stable_sort(all, {}, [](const Promotion& one) { return one.stage == "production"; });
        for (const Promotion& promotion : all) {
            if (const auto was = known.find(promotion.id); was != known.end() && was->second == promotion.state)
                continue;
            if (!isFinal(promotion.state) && promotion.state != S::kWaiting) fail("it did not come to an end");
            happened(changeOf(promotion.change), promotion);
        }
        for (const Model::Change& one : model_.changes) resyncConsent(one);
    }
    void resyncConsent(const Model::Change& change) {
        std::vector<bool> used;
        for (const Approval& approval : rig_.store().records().words().approvals(change.id, "production"))
            used.push_back(approval.usedBy.has_value());
        std::size_t at = 0;
        for (Model::Approval& one : model_.approvals)
            if (one.change == change.id && at < used.size()) one.used = used[at++];
    }

    void undo(const Command& command) {
        const bool isLocal = command.a % 2 == 0;
        auto& list = isLocal ? model_.locals : model_.landings;
        if (list.empty()) return;
        const Model::Landing last = list.back();
        rig_.actor = {ActorKind::kPerson, "ada"};
        rig_.answers = {};
        const StageReport report = rig_.engine()->rollBack(last.promotion, {}, {});
        if (!report.succeeded()) return fail("an undo did not succeed: " + report.reason);
        list.pop_back();
        Model::Change& change = *std::ranges::find(model_.changes, last.change, &Model::Change::id);
        change.has[isLocal ? "local" : "production"] = false;
        if (!isLocal) {
            model_.production = last.before;
            return;
        }
        // Of a work tree only the path that it wrote comes back, and only if nobody wrote there since.
        const auto before = Model::at(*last.before, change.path);
        const auto now = Model::at(model_.project, change.path);
        const bool wrote = before != change.after;
        // What somebody wrote there is kept, and machines wait for a person to look at it.
        if (now != change.after && now != before && wrote) model_.isLocalHeld = true;
        if (now != change.after) return;
        if (before)
            model_.project[change.path] = *before;
        else
            model_.project.erase(change.path);
    }

    static Contents contentsOf(const Tree& tree) {
        Contents contents;
        for (const auto& [path, node] : tree)
            if (node.type == EntryType::kFile) contents[path] = node.bytes;
        return contents;
    }
    void compare() {
        if (contentsOf(rig_.projectTree()) != model_.project) fail("the work tree differs");
        const auto production = rig_.productionTree();
        if (production.has_value() != model_.production.has_value())
            return fail(production ? "production is not empty" : "production is empty");
        if (production && contentsOf(*production) != *model_.production) fail("production differs");
    }
    void whole() {
        const AuditVerdict verdict = verifyAudit(rig_.store().sql(), rig_.store().anchor());
        if (verdict.kind != Tampering::kNone) fail(fmt::format("the log: {}", verdict.detail));
        for (const std::string& problem : rig_.store().check()) fail(problem);
    }

    EngineRig rig_;
    Model model_;
    std::string problem_;
};

std::optional<std::string> run(const std::vector<Command>& commands) { return Run().all(commands); }

/// Leaves out whatever is not needed for the two to disagree.
std::vector<Command> shortened(std::vector<Command> commands) {
    for (std::size_t piece = commands.size() / 2; piece > 0; piece /= 2)
        for (std::size_t at = 0; at + piece <= commands.size();) {
            std::vector<Command> fewer = commands;
            fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(at),
                        fewer.begin() + static_cast<std::ptrdiff_t>(at + piece));
            if (run(fewer))
                commands = std::move(fewer);
            else
                at += piece;
        }
    return commands;
}

class EngineModel : public testing::TestWithParam<unsigned> {};

TEST_P(EngineModel, AgreesWithTheEngine) {
    constexpr unsigned kSequences = 25;
    constexpr std::size_t kCommands = 100;
    const unsigned first = isLong() ? std::random_device()() : GetParam() * kSequences;
    for (unsigned i = 0; i < (isLong() ? 4 * kSequences : kSequences); ++i) {
        std::mt19937 random(first + i);
        std::vector<Command> commands;
        for (std::size_t n = 0; n < kCommands; ++n) commands.push_back(someCommand(random));
        if (!run(commands)) continue;
        const auto script = shortened(commands);
        std::string text;
        for (const Command& command : script) text += "  " + command.text() + "\n";
        FAIL() << "seed " << first + i << ":\n" << text << run(script).value_or("it came and went");
    }
    std::cout << (isLong() ? 4 : 1) * kSequences * kCommands << " commands, seeds from " << first << ":";
    for (const S state : {S::kPromoted, S::kRejected, S::kRolledBack, S::kWaiting, S::kStale, S::kCancelled}) {
        std::cout << " " << Run::reached()[state] << " " << nameOf(kPromotionStates, state);
        EXPECT_GT(Run::reached()[state], 3);
    }
    std::cout << "\n";
}

INSTANTIATE_TEST_SUITE_P(Quarter, EngineModel, testing::Range(0U, 4U));

}  // namespace
}  // namespace gradus::test
