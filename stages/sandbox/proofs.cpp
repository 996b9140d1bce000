#include "stages/sandbox/proofs.h"

#include <algorithm>

#include "store/file.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMostProof = 64 * 1024;

bool contains(const std::vector<Guarantee>& all, Guarantee one) {
    return std::find(all.begin(), all.end(), one) != all.end();
}

std::optional<ProbeResult> readProof(const fs::path& file, const ProbeKey& key) {
    std::error_code error;
    if (!fs::is_regular_file(fs::symlink_status(file, error))) return std::nullopt;
    return parseProbe(key, readSmallFile(file, kMostProof, "a cached proof"));
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

[[noreturn]] void refuse(const ProbeResult& proofs, Guarantee guarantee) {
    const Proof* proof = proofs.find(guarantee);
    const std::string why = proof == nullptr ? "it was never proven" : proof->evidence;
    std::string cure =
        proof == nullptr || proof->cure.empty() ? "`gradus doctor` shows every guarantee with its proof" : proof->cure;
    throw Error(ErrorCode::kInfrastructure, "the backend {} does not give {} here: {}", proofs.backend,
                guaranteeName(guarantee), why)
        .hint(std::move(cure));
}

}  // namespace

ProbeResult provenBy(IsolationBackend& backend, const fs::path& cache) {
    const ProbeKey key = backend.probeKey();
    const fs::path file = cache / (std::string(backend.name()) + "-" + key.digest().hex());
    if (auto known = readProof(file, key)) return std::move(*known);
    ProbeResult result = backend.probe();
    makeDirectories(cache);
    writeFileDurably(file, formatProbe(key, result));
    return result;
}

std::vector<Guarantee> lowered(const CommandRequest& request) {
    std::vector<Guarantee> all;
    for (const Guarantee guarantee : kFloor)
        if (contains(request.without, guarantee) ||
            (guarantee == Guarantee::kNoNetwork && request.network == Network::kHost))
            all.push_back(guarantee);
    return all;
}

void demand(const ProbeResult& proofs, const CommandRequest& request) {
    const std::vector<Guarantee> without = lowered(request);
    for (const Guarantee guarantee : request.required) {
        if (contains(without, guarantee))
            throw Error(ErrorCode::kUsage, "{} is required and given up at once", guaranteeName(guarantee))
                .hint("take it out of one of the two; the host's network gives up no-network");
        if (!proofs.proves(guarantee)) refuse(proofs, guarantee);
    }
    for (const Guarantee guarantee : kFloor)
        if (!contains(without, guarantee) && !proofs.proves(guarantee)) refuse(proofs, guarantee);
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
