#include <sys/vfs.h>
#include <unistd.h>

#include "pipeline/service/service.h"

namespace gradus {

namespace {

/// How a sandbox's state would be kept: an answer, also where it cannot.
StateFinding lookAtState(const StateDirectory& state) {
    StateFinding finding{state.root, {}, {}};
    try {
        prepareState(state);
    } catch (const Error& error) {
        finding.problem = error.what();
        finding.cure = error.hint();
    }
    return finding;
}

}  // namespace

DoctorReport Service::doctor(const std::filesystem::path& directory) {
    DoctorReport report;
    report.machine = machineFacts(::geteuid());
    report.state = lookAtState(state());
    for (IsolationBackend* backend : backends()) {
        report.backends.push_back(backend->probe());
        if (IsolationBackend* system = backend->forSystem()) report.backends.push_back(system->probe());
    }
    try {
        const auto root = projectRoot(directory);
        CloneRequest request{.project = root, .directory = root, .environment = around_.environment};
        const ClonePlan plan = planClone(request);
        report.home = plan.home;
        report.notes = plan.notes;
    } catch (const Error& error) {
        report.notes.emplace_back(error.what());
    }
    return report;
}

bool DoctorReport::isWell() const {
    const bool stopped = std::any_of(machine.begin(), machine.end(),
                                     [](const MachineFact& fact) { return fact.word == MachineFact::Word::kStops; });
    const bool confined = std::any_of(backends.begin(), backends.end(), [](const ProbeResult& backend) {
        return std::all_of(kFloor.begin(), kFloor.end(),
                           [&](Guarantee guarantee) { return backend.proves(guarantee); });
    });
    return !stopped && confined && state.problem.empty();
}

}  // namespace gradus
