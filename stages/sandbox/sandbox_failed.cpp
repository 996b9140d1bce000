// The sandbox of a failed check, kept for a while as it was left.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stages/sandbox/layer_entries.h"
#include "stages/sandbox/sandboxes_inside.h"

namespace gradus {

namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;
constexpr std::uint64_t kMostEntries = 100'000;
constexpr std::size_t kMostKept = 8;
constexpr std::string_view kNamePrefix = "failed-e";

/// How much lies below a directory, looked at no further than it takes to know that it is too much.
struct Amount {
    std::uint64_t bytes = 0;
    std::uint64_t entries = 0;

    bool isTooMuch() const { return bytes > kMostBytes || entries > kMostEntries; }
    void add(int directory, int depth) {
        if (depth > 200) bytes = kMostBytes + 1;
        for (const std::string& name : namesIn(directory)) {
            struct stat info {};
            if (isTooMuch()) return;
            if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
            ++entries;
            if (S_ISREG(info.st_mode)) bytes += static_cast<std::uint64_t>(info.st_size);
            if (!S_ISDIR(info.st_mode)) continue;
            const FileDescriptor below(
                ::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
            if (below) add(below.get(), depth + 1);
        }
    }
};

bool isOfFailure(const SandboxRecord& record, std::int64_t project) {
    return record.project == project && record.name && record.name->starts_with(kNamePrefix);
}

}  // namespace

// Two layers: what the check wrote, over the change that it was about. The copy is on the disk before a row says so.
std::optional<std::int64_t> Sandboxes::Inside::keepFailed(const SandboxRecord& record, int upper,
                                                          const ExecutionReport& report, Milliseconds lifetime) {
    Amount amount;
    amount.add(upper, 0);
    if (amount.isTooMuch()) return std::nullopt;
    std::vector<SandboxRecord> others;
    for (SandboxRecord& other :
         read([](const Records& records) { return records.sandboxes().living(SandboxKind::kKept); }))
        if (isOfFailure(other, record.project)) others.push_back(std::move(other));
    try {
        layers().stageNext(record.layer, upper);
    } catch (const Error& e) {
        around.warn(fmt::format("the sandbox of the failed check could not be kept: {}", e.what()));
        return std::nullopt;
    }
    std::int64_t next = 0;
    write([&](SandboxWriter& writer, Writer&) {
        writer.finish(report.execution);
        writer.keep(record.id, fmt::format("{}{}", kNamePrefix, report.execution.id), lifetime);
        writer.freeze(record.id);
        writer.touch(record.id);
        next = writer.records().sandbox(record.id)->layer;
    });
    try {
        layers().placeNext(record.layer, next);
    } catch (const Error& e) {
        around.warn(e.what());  // whoever uses it next tries again
    }
    // The oldest make room. One that is in use, or that a fork stands on, is not in the way of anything.
    for (std::size_t i = 0; i + kMostKept <= others.size(); ++i) {
        auto lock = SandboxLock::attempt(layers().lockFile(others[i].id));
        if (!lock) continue;
        HeldSandbox held{std::move(*lock), others[i], {}, {}};
        const auto chain = read([&](const Records& records) { return records.sandboxes().chain(held.record.layer); });
        end(held, SandboxEnd::kExpired, std::nullopt);
        std::vector<std::int64_t> theirs;
        for (const LayerRecord& layer : chain) theirs.push_back(layer.id);
        discardUnreachable(theirs);
    }
    return record.id;
}

std::optional<SandboxRecord> Sandboxes::leftBy(std::int64_t execution) {
    return inside_->read([&](const Records& all) -> std::optional<SandboxRecord> {
        const auto found = all.sandboxes().execution(execution);
        auto record = found ? all.sandboxes().sandbox(found->sandbox) : std::nullopt;
        const std::string name = fmt::format("{}{}", kNamePrefix, execution);
        if (!record || record->ended || record->kind != SandboxKind::kKept || record->name != name) return std::nullopt;
        return record;
    });
}

}  // namespace gradus
