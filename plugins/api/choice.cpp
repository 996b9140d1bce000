#include "plugins/api/choice.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "store/file.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kCacheCap = 64 * 1024;

// Ours, and nobody else could have put a file there.
bool isPrivatePlace(const fs::path& directory) {
    struct stat info {};
    return ::lstat(directory.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
           (info.st_mode & 022) == 0;
}

bool isPrivateFile(const fs::path& file) {
    struct stat info {};
    return ::lstat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid() &&
           (info.st_mode & 077) == 0;
}

fs::path cacheOf(const IsolationBackend& backend, const fs::path& directory) {
    return directory / ("probe-" + std::string(backend.name()));
}

std::optional<ProbeResult> readCache(const fs::path& file, const ProbeKey& key, std::string_view backend) {
    if (!isPrivateFile(file)) return std::nullopt;
    try {
        auto result = parseProbe(key, readSmallFile(file, kCacheCap, "the probe's result"));
        if (result && (result->backend != backend || result->proofs.size() != kGuaranteeNames.size()))
            return std::nullopt;
        return result;
    } catch (const Error&) {
        return std::nullopt;  // gone, too large, unreadable: asked again
    }
}

void writeCache(const fs::path& file, const ProbeKey& key, const ProbeResult& result) {
    try {
        writeFileDurably(file, formatProbe(key, result), 0600);
    } catch (const Error&) {
        return;  // a full or read-only disk: the next start asks again
    }
}

/// Why a backend will not do, and the ways out.
struct Shortfall {
    struct Lack {
        std::string what;
        std::string reason;
    };
    std::vector<Lack> lacks;
    std::vector<std::string> cures;

    std::string text() const {
        std::string all;
        for (const Lack& lack : lacks)
            all += fmt::format("{}{} ({})", all.empty() ? "" : "; ", lack.what,
                               lack.reason.empty() ? "not proved" : lack.reason);
        return all;
    }
};

// One reason is often that of several.
void lack(Shortfall& shortfall, std::string_view what, const std::string& reason, const std::string& cure) {
    if (!shortfall.lacks.empty() && shortfall.lacks.back().reason == reason)
        shortfall.lacks.back().what += fmt::format(", {}", what);
    else
        shortfall.lacks.push_back({std::string(what), reason});
    if (!cure.empty()) shortfall.cures.push_back(cure);
}

Shortfall shortfallOf(IsolationBackend& backend, const IsolationDemand& demand, const ProbeFunction& probe) {
    Shortfall shortfall;
    if (demand.ownView && !backend.clones())
        lack(shortfall, "a copy of the project", "it runs on the files as they are", "");
    if (demand.networkByName && !backend.allowsByName())
        lack(shortfall, "a network by name", "it cannot let listed names through and nothing else",
             "use a machine on which the backend namespaces works (`gradus doctor` says why it does not here), or "
             "--network none");
    if (demand.guarantees.empty() || !shortfall.lacks.empty()) return shortfall;
    const ProbeResult result = probe(backend);
    for (const Guarantee guarantee : demand.guarantees) {
        const Proof* proof = result.find(guarantee);
        if (proof == nullptr)
            lack(shortfall, guaranteeName(guarantee), "", "");
        else if (!proof->holds)
            lack(shortfall, guaranteeName(guarantee), proof->evidence, proof->cure);
    }
    return shortfall;
}

}  // namespace

std::optional<ProbeResult> keptProbe(const IsolationBackend& backend, const fs::path& directory) {
    if (!isPrivatePlace(directory)) return std::nullopt;
    return readCache(cacheOf(backend, directory), backend.probeKey(), backend.name());
}

ProbeResult cachedProbe(IsolationBackend& backend, const fs::path& directory) {
    if (auto kept = keptProbe(backend, directory)) return std::move(*kept);
    ProbeResult result = backend.probe();
    if (isPrivatePlace(directory)) writeCache(cacheOf(backend, directory), backend.probeKey(), result);
    return result;
}

IsolationBackend& chooseBackend(const std::vector<IsolationBackend*>& backends, const IsolationDemand& demand,
                                const ProbeFunction& probe) {
    std::string reasons;
    std::vector<std::string> cures;
    for (IsolationBackend* backend : backends) {
        Shortfall shortfall = shortfallOf(*backend, demand, probe);
        if (shortfall.lacks.empty()) return *backend;
        reasons += fmt::format("{}{} lacks {}", reasons.empty() ? " " : "; ", backend->name(), shortfall.text());
        for (std::string& cure : shortfall.cures)
            if (std::find(cures.begin(), cures.end(), cure) == cures.end()) cures.push_back(std::move(cure));
    }
    throw Error(ErrorCode::kInfrastructure, "no isolation here gives all that is demanded:{}",
                reasons.empty() ? " there is none" : reasons)
        .hint(fmt::format("{}", fmt::join(cures, "; or ")));
}

}  // namespace gradus
