#include "stages/sandbox/proofs.h"

#include <algorithm>

#include "store/model/error.h"

namespace gradus {

namespace {

bool contains(const std::vector<Guarantee>& all, Guarantee one) {
    return std::find(all.begin(), all.end(), one) != all.end();
}

struct LimitGuarantee {
    Guarantee guarantee;
    LimitName limit;
};
constexpr std::array kLimitGuarantees{LimitGuarantee{Guarantee::kMemoryLimit, LimitName::kMemory},
                                      LimitGuarantee{Guarantee::kTaskLimit, LimitName::kTasks},
                                      LimitGuarantee{Guarantee::kCpuLimit, LimitName::kCpuTime},
                                      LimitGuarantee{Guarantee::kCpuLimit, LimitName::kCpuShare},
                                      LimitGuarantee{Guarantee::kDiskLimit, LimitName::kDisk}};

// A watcher stops an excess, it does not prevent one.
bool isHeld(const Outcome& outcome, Guarantee guarantee) {
    return std::any_of(outcome.limits.begin(), outcome.limits.end(), [&](const LimitReport& report) {
        if (report.enforcedBy == Enforcer::kNone || report.enforcedBy == Enforcer::kWatch) return false;
        return std::any_of(kLimitGuarantees.begin(), kLimitGuarantees.end(), [&](const LimitGuarantee& row) {
            return row.guarantee == guarantee && row.limit == report.name;
        });
    });
}

bool isAboutLimits(Guarantee guarantee) {
    return std::any_of(kLimitGuarantees.begin(), kLimitGuarantees.end(),
                       [&](const LimitGuarantee& row) { return row.guarantee == guarantee; });
}

}  // namespace

std::vector<Guarantee> lowered(const CommandRequest& request) {
    std::vector<Guarantee> all;
    for (const Guarantee guarantee : kFloor)
        if (contains(request.without, guarantee) ||
            (guarantee == Guarantee::kNoNetwork && request.network != Network::kNone))
            all.push_back(guarantee);
    return all;
}

std::vector<Guarantee> demanded(const CommandRequest& request) {
    const std::vector<Guarantee> without = lowered(request);
    std::vector<Guarantee> all;
    for (const Guarantee guarantee : kFloor)
        if (!contains(without, guarantee)) all.push_back(guarantee);
    for (const Guarantee guarantee : request.required) {
        if (contains(without, guarantee))
            throw Error(ErrorCode::kUsage, "{} is required and given up at once", guaranteeName(guarantee))
                .hint("take it out of one of the two; a network, the host's or by name, gives up no-network");
        if (!contains(all, guarantee)) all.push_back(guarantee);
    }
    return all;
}

Limits insisted(const CommandRequest& request) {
    Limits limits = request.limits;
    for (const Guarantee guarantee : request.required) {
        if (!isAboutLimits(guarantee)) continue;
        bool said = false;
        for (const LimitGuarantee& row : kLimitGuarantees) {
            if (row.guarantee != guarantee || !limits[row.limit]) continue;
            limits[row.limit]->required = true;
            said = true;
        }
        if (!said)
            throw Error(ErrorCode::kUsage, "{} is required, and nothing says how much", guaranteeName(guarantee))
                .hint("give the limit as well: --memory, --tasks, --cpu-time or --disk, or `limits` in [sandbox]");
    }
    return limits;
}

std::vector<Guarantee> held(const ProbeResult& proofs, const CommandRequest& request, const Outcome& outcome) {
    const std::vector<Guarantee> without = lowered(request);
    std::vector<Guarantee> all;
    for (const Proof& proof : proofs.proofs) {
        if (!proof.holds || contains(without, proof.guarantee)) continue;
        if (!isAboutLimits(proof.guarantee) || isHeld(outcome, proof.guarantee)) all.push_back(proof.guarantee);
    }
    return all;
}

}  // namespace gradus
