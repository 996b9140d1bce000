#include "pipeline/engine/check_runner.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "pipeline/engine/built.h"
#include "pipeline/engine/check_answer.h"
#include "pipeline/engine/check_question.h"
#include "pipeline/engine/check_schedule.h"
#include "pipeline/engine/confinement.h"
#include "plugins/host/host_command.h"
#include "stages/changes/tree_stamp.h"
#include "stages/sandbox/proofs.h"
#include "store/model/canonical.h"
#include "store/model/error.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostNamed = 3;

/// The worst first.
constexpr std::array kByWeight{Cause::kFailed, Cause::kCancelled, Cause::kTimedOut, Cause::kErrored};

void limitTime(const Check& check, Limits& limits) {
    const auto most = static_cast<std::uint64_t>(check.settings.duration("timeout").count());
    auto& wall = limits[LimitName::kWallTime];
    if (most > 0 && (!wall || wall->value > most)) wall = Limit{most, true};
}

std::vector<std::string> withVariables(std::vector<std::string> environment, const std::vector<std::string>& set) {
    for (const std::string& variable : set) {
        const std::size_t equals = variable.find('=');
        if (equals == std::string::npos) continue;  // passed in by name: it is there, or not set
        const std::string name = variable.substr(0, equals + 1);
        std::erase_if(environment, [&](const std::string& other) { return other.starts_with(name); });
        environment.push_back(variable);
    }
    return environment;
}

/// One round of a stage's checks.
class Round {
  public:
    struct Subject {
        const Pipeline& pipeline;
        const Stage& stage;
        const TreeUnderTest* tree;  ///< of checks that come before
        const fs::path* directory;  ///< of those that come after
        const Evidence& evidence;
        const CheckProgress& progress;
        std::stop_token cancel;
    };
    Round(const CheckRunner::Surroundings& around, const Subject& subject, CheckWhen when)
        : around_(around), subject_(subject), schedule_(subject.pipeline, subject.stage, when) {
        if (subject.tree != nullptr) left_ = subject.tree->atMost;
        if (subject.tree != nullptr && subject.tree->now && subject.tree->base == nullptr)
            stamp_.emplace(subject.tree->directory);
    }

    std::vector<CheckReport> run(std::size_t atOnce) {
        if (subject_.tree != nullptr && subject_.tree->source) lookForBuilds();
        if (subject_.tree != nullptr && subject_.tree->proven) lookForProofs();
        {
            std::vector<std::jthread> others;
            for (std::size_t i = 1; i < std::min(atOnce, schedule_.size()); ++i)
                others.emplace_back([this] { work(); });
            work();
        }
        if (stamp_)
            for (const auto ignored = stamp_->movedIgnored(kMostNamed); auto& [name, report] : reports_)
                report.ignoredMoved = ignored;
        return inOrder();
    }

  private:
    // Before any other thread begins: what was proven is asked of the store, which is for one thread at a time.
    void lookForProofs() {
        for (const std::string& name : subject_.stage.checks) {
            const Check& check = subject_.pipeline.checks.at(name);
            if (check.when != CheckWhen::kBefore || builds(check)) continue;
            CommandRequest request;
            try {
                request = confinedCheck(subject_.pipeline, subject_.stage, check, subject_.tree->project);
            } catch (const Error&) {
                continue;  // the run itself says what is wrong with it
            }
            const auto asked = questionOf(around_.sandboxes, check, request, evidenceOf(check));
            if (!asked) continue;
            asked_.emplace(name, *asked);
            // What is built only now is a question that nobody has answered.
            const auto seen = builtBefore(check);
            auto proof = seen ? subject_.tree->proven(overOutputs(*asked, *seen)) : std::nullopt;
            if (proof) proofs_.emplace(name, std::move(*proof));
        }
    }

    std::vector<std::string> buildersOf(const Check& check) const {
        if (subject_.tree == nullptr) return {};
        return buildersFor(subject_.pipeline, subject_.stage, check);
    }

    /// What it will see of other checks' outputs, as far as that is known before any of them runs.
    std::optional<std::vector<Digest>> builtBefore(const Check& check) const {
        std::vector<Digest> outputs;
        for (const std::string& builder : buildersOf(check)) {
            const auto build = builds_.find(builder);
            if (build == builds_.end()) return std::nullopt;
            outputs.push_back(build->second.result.outputs.value_or(Digest()));
        }
        return outputs;
    }

    /// The same once they have passed.
    std::vector<Digest> builtFor(const Check& check) {
        const std::lock_guard guard(mutex_);
        std::vector<Digest> outputs;
        for (const std::string& builder : buildersOf(check))
            if (const auto report = reports_.find(builder); report != reports_.end() && report->second.outputs())
                outputs.push_back(*report->second.outputs());
        return outputs;
    }

    Digest buildOf(const Check& check, const CommandRequest& request) {
        if (!source_) source_ = subject_.tree->source();
        const Digest own = Canonical("gradus.built.2")
                               .digest(*source_)
                               .digest(buildDigest(check, around_.hostEnvironment))
                               .digest(surroundingsOf(request))
                               .hash();
        std::vector<Digest> others;
        for (const std::string& builder : buildersOf(check))
            others.push_back(builtOf_.contains(builder) ? builtOf_.at(builder) : Digest());
        return overOutputs(own, others);
    }

    // What was built of the same tree in the same way comes along; running it again would give other bytes.
    void lookForBuilds() {
        for (const std::string& name : subject_.stage.checks) {
            const Check& check = subject_.pipeline.checks.at(name);
            if (check.when != CheckWhen::kBefore || !builds(check)) continue;
            try {
                const auto request = confinedCheck(subject_.pipeline, subject_.stage, check, subject_.tree->project);
                const Digest of = buildOf(check, request);
                builtOf_.emplace(name, of);
                leftOver_.emplace(name, subject_.tree->leftOver(check.settings.list("outputs")));
                const bool mayCount = subject_.tree->built && check.settings.flag("reuse") && builtBefore(check);
                const auto build = mayCount ? subject_.tree->built(of, demanded(request)) : std::nullopt;
                if (build) builds_.emplace(name, *build);
                if (build && !subject_.tree->asksAll) proofs_.emplace(name, *build);
            } catch (const Error& e) {
                builtOf_.erase(name);
                unbuildable_.emplace(name, e);
            }
        }
    }

    Evidence evidenceOf(const Check& check) const {
        Evidence evidence = subject_.evidence;
        evidence.check = checkDigest(subject_.stage, check, around_.hostEnvironment);
        return evidence;
    }

    static CheckReport answeredBefore(const EarlierProof& proof) {
        CheckReport report;
        report.reused = proof;
        report.answer.verdict = proof.result.verdict;
        report.answer.exitCode = proof.result.exitCode;
        report.answer.execution = proof.result.execution;
        report.answer.reason = proof.result.reason;
        report.log = proof.result.log;
        return report;
    }

    void work() {
        while (const Check* check = schedule_.next()) {
            show([&] { subject_.progress.started(*check); });
            // On record before anybody begins who needs it.
            const CheckReport& report = keep(judge(*check));
            const bool goesOn = !report.moved && report.answer.verdict != Cause::kCancelled;
            schedule_.finish(*check, report.answer.verdict == Cause::kPassed);
            if (!goesOn) schedule_.stop();
            show([&] { subject_.progress.finished(report); });
        }
    }

    const CheckReport& keep(CheckReport report) {
        const std::lock_guard guard(mutex_);
        const std::string name = report.check;
        return reports_.emplace(name, std::move(report)).first->second;
    }

    CheckReport judge(const Check& check) {
        const auto proof = proofs_.find(check.name);
        CheckReport report = proof == proofs_.end() ? ask(check) : answeredBefore(proof->second);
        if (proof == proofs_.end()) keepBuild(check, report);
        report.check = check.name;
        report.evidence = evidenceOf(check);
        const std::vector<Digest> built = builtFor(check);
        report.evidence.check = overOutputs(report.evidence.check, built);
        report.evidence.environment = report.answer.environment.value_or(hostEnvironmentDigest());
        report.definition = checkDefinition(subject_.stage, check);
        if (const auto asked = asked_.find(check.name); asked != asked_.end())
            report.asked = overOutputs(asked->second, built);
        if (const auto of = builtOf_.find(check.name); of != builtOf_.end()) report.builtOf = of->second;
        keepLog(report);
        return report;
    }

    // A yes is about the tree; the bytes that stages have and others have looked at are those of the first build.
    void keepBuild(const Check& check, CheckReport& report) const {
        const auto build = builds_.find(check.name);
        if (build == builds_.end() || report.answer.verdict != Cause::kPassed) return;
        report.builtBy = build->second;
        if (report.answer.outputs != report.outputs())
            report.answer.reason += fmt::format("; it built other bytes than in {}, and those stay",
                                                promotionHandle(build->second.result.promotion));
    }

    CheckReport ask(const Check& check) {
        CheckReport report;
        const int most = 1 + static_cast<int>(check.settings.number("retries"));
        const auto started = std::chrono::steady_clock::now();
        for (report.attempts = 1;; ++report.attempts) {
            report.answer = attempt(check, report.moved);
            const bool isDone = report.answer.verdict != Cause::kErrored || report.moved;
            if (isDone || report.attempts >= most || subject_.cancel.stop_requested()) break;
        }
        report.answer.wallMs =
            std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - started).count();
        return report;
    }

    CheckAnswer attempt(const Check& check, bool& moved) {
        try {
            if (subject_.cancel.stop_requested()) return cancelled();
            const auto kind = around_.kinds.find(check.kind);
            if (kind == around_.kinds.end())
                throw Error(ErrorCode::kInfrastructure, "checks of kind '{}' cannot be run here", check.kind);
            CheckAnswer answer = kind->second->run(contextFor(check));
            if ((moved = hasMoved(check))) return voided(std::move(answer));
            return answer;
        } catch (const std::exception& fault) {
            return erroredBy(fault);
        }
    }

    CheckContext contextFor(const Check& check) {
        return {
            .check = check,
            .confined = [this, &check](const auto& words) { return runConfined(check, words); },
            .onHost = [this, &check](const auto& words) { return runOnHost(check, words); },
            .cancel = subject_.cancel,
            .progress = [this, &check](std::string_view line) { tell(check, Stream::kOut, std::string(line) + "\n"); }};
    }

    CheckAnswer runConfined(const Check& check, const std::vector<std::string>& words) {
        if (subject_.tree == nullptr)
            throw Error(ErrorCode::kNotAllowed, "check '{}' runs in a sandbox and comes after, where none is",
                        check.name)
                .hint("write on = \"host\", or when = \"before\"");
        const TreeUnderTest& tree = *subject_.tree;
        CommandRequest request = confinedCheck(subject_.pipeline, subject_.stage, check, tree.project);
        request.arguments = words;
        request.cancel = subject_.cancel;
        request.live = [this, &check](Stream stream, std::string_view bytes) { tell(check, stream, bytes); };
        limitTime(check, request.limits);
        {
            const std::lock_guard guard(mutex_);
            capLimits(request.limits, left_);
        }
        if (const auto fault = unbuildable_.find(check.name); fault != unbuildable_.end()) throw Error(fault->second);
        const ExecutionReport report =
            around_.sandboxes.runOver(shownTo(check), request, {.patterns = check.settings.list("outputs")});
        {
            const std::lock_guard guard(mutex_);
            spendTime(left_, report.execution.cpuMillis);
        }
        CheckAnswer answer = answerOf(report, subject_.cancel.stop_requested());
        if (wasNotFound(report.execution)) answer.reason += absentText(words, tree);
        if (report.outputs) answer.outputs = around_.objects.put(report.outputs->encode());
        // It ran and came to its end, but not to what it is there for.
        if (answer.verdict == Cause::kPassed && !report.outputsFault.empty()) {
            answer.verdict = Cause::kFailed;
            answer.reason = report.outputsFault;
        }
        return answer;
    }

    /// A program that is not there, as the sandbox or a shell inside says it.
    static bool wasNotFound(const Execution& execution) {
        constexpr int kNotExecutable = 126;
        constexpr int kNotFound = 127;
        return execution.verdict == Verdict::kSetupFailed || execution.exitCode == kNotExecutable ||
               execution.exitCode == kNotFound;
    }

    /// The tree without what earlier builds left in it, and with what the checks built that it needs.
    ResultingTree shownTo(const Check& check) {
        const TreeUnderTest& tree = *subject_.tree;
        ResultingTree shown{tree.project, tree.directory, tree.leftOut, tree.changes, tree.base};
        std::vector<std::string> builders = buildersOf(check);
        builders.push_back(check.name);
        for (const std::string& builder : builders)
            if (const auto over = leftOver_.find(builder); over != leftOver_.end())
                shown.leftOut.insert(shown.leftOut.end(), over->second.begin(), over->second.end());
        if (const auto built = builtFor(check); !built.empty())
            shown.changes = withBuilt(shown.changes, builtTogether(around_.objects, built, subject_.stage.name));
        return shown;
    }

    CheckAnswer runOnHost(const Check& check, const std::vector<std::string>& words) {
        if (subject_.directory == nullptr)
            throw Error(ErrorCode::kNotAllowed, "check '{}' runs on the host, and nothing is there before", check.name)
                .hint("write on = \"sandbox\", or when = \"after\"");
        HostCommand command;
        command.arguments = words;
        command.environment = withVariables(around_.hostEnvironment, check.settings.list("env"));
        command.directory = (*subject_.directory / check.settings.text("directory")).lexically_normal();
        command.timeout = check.settings.duration("timeout");
        command.cancel = subject_.cancel;
        command.live = [this, &check](Stream stream, std::string_view bytes) { tell(check, stream, bytes); };
        return answerOf(gradus::runOnHost(command));
    }

    bool hasMoved(const Check& check) {
        if (subject_.tree == nullptr) return false;
        const std::lock_guard guard(looking_);
        // What is built is of every file below, not only of those that the change touches.
        if (source_ && builds(check) && subject_.tree->source() != *source_) return true;
        if (!subject_.tree->now) return false;
        if (stamp_ && !(moved_ = stamp_->moved(kMostNamed)).empty()) return true;
        return subject_.tree->now() != subject_.tree->was;
    }

    static CheckAnswer cancelled() {
        CheckAnswer answer;
        answer.verdict = Cause::kCancelled;
        answer.reason = "cancelled";
        return answer;
    }

    CheckAnswer voided(CheckAnswer answer) {
        const std::lock_guard guard(looking_);
        std::string names;
        for (const std::string& path : moved_)
            names += fmt::format("{}'{}'", names.empty() ? "" : ", ", printable(path));
        answer.verdict = Cause::kErrored;
        answer.reason = fmt::format("{} moved while it looked, so its answer is about no tree that is there",
                                    names.empty() ? "the files" : names);
        return answer;
    }

    void keepLog(CheckReport& report) {
        try {
            if (!report.answer.log.empty()) report.log = around_.objects.put(report.answer.log);
        } catch (const std::exception& fault) {
            // Without its log a verdict is not evidence that anybody could look into.
            report.answer = erroredBy(fault);
        }
    }

    void tell(const Check& check, Stream stream, std::string_view bytes) {
        show([&] { subject_.progress.output(check, stream, bytes); });
    }

    template <typename Show>
    void show(const Show& what) {
        const std::lock_guard guard(showing_);
        what();
    }

    std::vector<CheckReport> inOrder() {
        std::vector<CheckReport> all;
        for (const std::string& name : subject_.stage.checks)
            if (const auto found = reports_.find(name); found != reports_.end())
                all.push_back(std::move(found->second));
        return all;
    }

    const CheckRunner::Surroundings& around_;
    const Subject& subject_;
    CheckSchedule schedule_;
    std::optional<TreeStamp> stamp_;  ///< of what lies below, where that may move
    std::vector<std::string> moved_;  ///< what was not still, at the last look
    std::mutex mutex_;
    Limits left_;  ///< of what they may take: of processor time, all of them together
    std::map<std::string, CheckReport> reports_;
    std::map<std::string, Digest> asked_;
    std::map<std::string, EarlierProof> proofs_;
    std::map<std::string, EarlierProof> builds_;  ///< what was built before, and stays
    std::optional<Digest> source_;                ///< that is built of, where something is
    std::map<std::string, Digest> builtOf_;
    std::map<std::string, std::vector<std::string>> leftOver_;
    std::map<std::string, Error> unbuildable_;
    std::mutex showing_;
    std::mutex looking_;
};

}  // namespace

std::vector<CheckReport> CheckRunner::before(const Pipeline& pipeline, const Stage& stage, const TreeUnderTest& tree,
                                             const CheckProgress& progress, std::stop_token cancel) {
    const Round::Subject subject{pipeline, stage, &tree, nullptr, tree.evidence, progress, std::move(cancel)};
    return Round(around_, subject, CheckWhen::kBefore).run(tree.atOnce);
}

std::vector<CheckReport> CheckRunner::after(const Pipeline& pipeline, const Stage& stage, const fs::path& directory,
                                            const Evidence& evidence, const CheckProgress& progress,
                                            std::stop_token cancel) {
    const Round::Subject subject{pipeline, stage, nullptr, &directory, evidence, progress, std::move(cancel)};
    return Round(around_, subject, CheckWhen::kAfter).run(1);
}

void capLimits(Limits& limits, const Limits& most) {
    for (std::size_t i = 0; i < kLimitNames.size(); ++i) {
        const auto name = static_cast<LimitName>(i);
        if (most[name] && (!limits[name] || limits[name]->value > most[name]->value)) limits[name] = most[name];
    }
}

void spendTime(Limits& most, std::uint64_t cpuMillis) {
    auto& cpu = most[LimitName::kCpuTime];
    if (cpu) cpu->value -= std::min(cpu->value - 1, cpuMillis);
}

std::string failuresOf(const std::vector<CheckReport>& reports) {
    std::string text;
    for (const CheckReport& report : reports)
        if (report.answer.verdict != Cause::kPassed)
            text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", report.check, report.answer.reason);
    return text;
}

Cause verdictOf(const std::vector<CheckReport>& reports) {
    for (const Cause cause : kByWeight)
        if (std::any_of(reports.begin(), reports.end(), [&](const auto& r) { return r.answer.verdict == cause; }))
            return cause;
    return Cause::kPassed;
}

// Programs are named by a path, or found by tools in the places that these tools use.
std::string absentText(const std::vector<std::string>& command, const TreeUnderTest& tree) {
    if (tree.directory == tree.project) return {};
    std::vector<std::string> names;
    for (const std::string& word : command)
        for (std::size_t begin = 0; begin < word.size();) {
            const std::size_t end = std::min(word.find_first_of(" \t\n;|&()'\"=", begin), word.size());
            std::string_view path = std::string_view(word).substr(begin, end - begin);
            if (path.starts_with("./")) path.remove_prefix(2);
            if (const std::size_t slash = path.find('/'); slash != std::string_view::npos && slash > 0)
                names.emplace_back(path.substr(0, slash));
            begin = end + 1;
        }
    for (const char* known : {".venv", "venv", "node_modules"}) names.emplace_back(known);
    for (const std::string& name : names) {
        std::error_code here;
        std::error_code there;
        const bool isHere = std::filesystem::exists(std::filesystem::symlink_status(tree.project / name, here));
        if (!isHere || std::filesystem::exists(std::filesystem::symlink_status(tree.directory / name, there))) continue;
        const auto made = [&](const PathChange& change) {
            return change.path == name || change.path.starts_with(name + "/");
        };
        if (std::any_of(tree.changes.changes().begin(), tree.changes.changes().end(), made)) continue;
        return fmt::format(
            "; '{0}' is in your project, but no part of the tree that the stage holds: git ignores it, and a release "
            "does "
            "not contain it. Let a check build it: outputs = [\"{0}/**\"]",
            printable(name));
    }
    return {};
}

}  // namespace gradus
