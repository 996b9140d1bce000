#include "plugins/isolation/examination.h"

#include <future>

namespace gradus {

namespace {

constexpr std::uint64_t kMebibyte = 1U << 20;

std::string oneLine(const std::string& text) {
    std::string line;
    for (const char letter : text) line += letter == '\n' ? std::string("; ") : std::string(1, letter);
    while (line.ends_with("; ")) line.resize(line.size() - 2);
    return line;
}

Proof answer(const Question& question) {
    try {
        return question.ask();
    } catch (const Error& error) {
        return Proof{question.guarantee, false, error.what(), error.hint()};
    }
}

}  // namespace

Examination::Examination(IsolationBackend& backend, Workspace workspace, std::filesystem::path program,
                         Identity identity)
    : backend_(backend), workspace_(std::move(workspace)), program_(std::move(program)), identity_(identity) {}

Outcome Examination::ask(const Limits& limits, const std::string& what, const std::string& argument) {
    Limits bounded = limits;
    if (!bounded[LimitName::kWallTime]) bounded[LimitName::kWallTime] = Limit{10'000, true};
    const auto sandbox = backend_.open(workspace_, bounded, Network::kNone, identity_);
    Command command;
    command.arguments = {program_, "--prove", what, argument};
    return sandbox->run(command);
}

Proof Examination::judged(Guarantee guarantee, const Outcome& outcome, bool seenFromOutside) {
    Proof proof{guarantee, outcome.verdict == Verdict::kOk && seenFromOutside, oneLine(outcome.out.head), {}};
    if (outcome.failure) proof.evidence = outcome.failure->text();
    if (!proof.holds && proof.evidence.empty())
        proof.evidence = fmt::format("its examination ended without a word: {}", verdictName(outcome.verdict));
    return proof;
}

Proof Examination::kernelFilter(const std::string& expected) {
    return judged(Guarantee::kKernelFilter, ask({}, "kernel-filter", expected));
}

Proof Examination::memoryLimit() {
    Limits limits;
    limits[LimitName::kMemory] = Limit{32 * kMebibyte, true};
    const Outcome outcome = ask(limits, "memory");
    return limited(Guarantee::kMemoryLimit, outcome, outcome.verdict == Verdict::kOom, "256 MiB against 32 MiB");
}

Proof Examination::taskLimit() {
    Limits limits;
    limits[LimitName::kTasks] = Limit{16, true};
    const Outcome outcome = ask(limits, "tasks", "16");
    Proof proof = limited(Guarantee::kTaskLimit, outcome, outcome.verdict == Verdict::kOk, "200 against 16");
    proof.evidence += "; " + oneLine(outcome.out.head);
    return proof;
}

Proof Examination::cpuLimit() {
    Limits time;
    time[LimitName::kCpuTime] = Limit{100, true};
    const Outcome stopped = ask(time, "cpu");
    const bool timeHeld = stopped.verdict == Verdict::kLimit && stopped.cpuMillis < 1000;
    Limits share;
    share[LimitName::kCpuShare] = Limit{20, true};
    share[LimitName::kWallTime] = Limit{250, true};
    const Outcome slowed = ask(share, "cpu");
    const bool shareHeld = slowed.verdict == Verdict::kTimeout && slowed.cpuMillis * 2 < slowed.wallMillis;
    return limited(Guarantee::kCpuLimit, stopped, timeHeld && shareHeld,
                   fmt::format("two busy processes against 100 ms of CPU time: stopped after {} ms; against a fifth "
                               "of a core: used {} ms in {} ms",
                               stopped.cpuMillis, slowed.cpuMillis, slowed.wallMillis));
}

Proof Examination::diskLimit() {
    Limits limits;
    limits[LimitName::kDisk] = Limit{4 * kMebibyte, true};
    const Outcome outcome = ask(limits, "disk", "4");
    Proof proof = limited(Guarantee::kDiskLimit, outcome, outcome.verdict == Verdict::kOk, "16 MiB against 4 MiB");
    proof.evidence += "; " + oneLine(outcome.out.head) + " in the scratch space";
    return proof;
}

Outcome Examination::fill(const Workspace& more, const std::filesystem::path& directory, std::uint64_t megabytes) {
    Workspace workspace = workspace_;
    workspace.overlays.insert(workspace.overlays.end(), more.overlays.begin(), more.overlays.end());
    workspace.images = more.images;
    workspace.boundedUppers = more.boundedUppers;
    Limits limits;
    limits[LimitName::kDisk] = Limit{megabytes * kMebibyte, true};
    limits[LimitName::kWallTime] = Limit{10'000, true};
    const auto sandbox = backend_.open(workspace, limits, Network::kNone, identity_);
    Command command;
    command.arguments = {program_, "--prove", "disk", std::to_string(megabytes)};
    command.environment = {"FILL=" + (directory / "fill").native()};
    return sandbox->run(command);
}

// A watcher stops an excess that has happened; that is worth having and no proof.
Proof Examination::limited(Guarantee guarantee, const Outcome& outcome, bool held, const std::string& tried) {
    const LimitReport& report = outcome.limits.front();
    const bool watched = report.enforcedBy == Enforcer::kWatch;
    Proof proof{guarantee, held && !watched, {}, {}};
    proof.evidence =
        fmt::format("{}: {}, held by {}", tried, verdictName(outcome.verdict), enforcerName(report.enforcedBy));
    if (watched) {
        proof.evidence += ", which looks only from time to time";
        if (!outcome.shortfall.empty()) proof.evidence += fmt::format(" ({})", outcome.shortfall);
        proof.cure =
            "run as root, or as a user whose systemd can be asked for a control group (systemctl --user status)";
    }
    return proof;
}

std::vector<Proof> answers(const std::vector<Question>& questions) {
    std::vector<std::future<Proof>> asked;
    for (const Question& question : questions)
        asked.push_back(std::async(std::launch::async, [&question] { return answer(question); }));
    std::vector<Proof> all;
    for (std::future<Proof>& proof : asked) all.push_back(proof.get());
    return all;
}

}  // namespace gradus
