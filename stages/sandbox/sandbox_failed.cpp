// The sandbox of a failed check, kept for a while as it was left.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stages/sandbox/layer_entries.h"
#include "stages/sandbox/sandboxes_inside.h"

namespace gradus {

namespace {

/// How much is copied at most.
struct Bounds {
    std::uint64_t bytes = std::uint64_t{256} << 20;
    std::uint64_t entries = 100'000;
};
// A project can be shown as it is instead, so whoever waits for the verdict does not wait for long.
constexpr Bounds kOfProject{.entries = 20'000};
constexpr std::size_t kMostKept = 8;
constexpr std::string_view kNamePrefix = "failed-e";

/// How much is to be copied, looked at no further than it takes to know that it is too much.
class Amount {
  public:
    explicit Amount(const Bounds& bounds) : bounds_(bounds) {}
    /// Written inside: a directory that is closed to us is opened up when it is copied.
    void addOurs(int directory) { add(directory, {}, "", 0); }
    /// All below it but for `leftOut`. It is not ours to open up, so one that is closed is too much.
    void addTheirs(int directory, const std::set<std::string>& leftOut) {
        closedIsTooMuch_ = true;
        add(directory, leftOut, "", 0);
    }
    bool isTooMuch() const { return bytes_ > bounds_.bytes || entries_ > bounds_.entries; }

  private:
    void add(int directory, const std::set<std::string>& leftOut, const std::string& prefix, int depth) {
        constexpr int kDeepestKept = 200;
        if (depth > kDeepestKept || (directory < 0 && closedIsTooMuch_)) bytes_ = bounds_.bytes + 1;
        if (directory < 0 || isTooMuch()) return;
        for (const std::string& name : namesIn(directory)) {
            struct stat info {};
            if (isTooMuch()) return;
            if (leftOut.contains(prefix + name)) continue;
            if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
            ++entries_;
            if (S_ISREG(info.st_mode)) bytes_ += static_cast<std::uint64_t>(info.st_size);
            if (!S_ISDIR(info.st_mode)) continue;
            const FileDescriptor below(
                ::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
            add(below.get(), leftOut, prefix + name + "/", depth + 1);
        }
    }

    Bounds bounds_;
    bool closedIsTooMuch_ = false;
    std::uint64_t bytes_ = 0;
    std::uint64_t entries_ = 0;
};

/// What of the directory is no part of the copy that the kept sandbox stands on.
std::set<std::string> leftOutOf(const ResultingTree& tree) {
    std::set<std::string> all(tree.leftOut.begin(), tree.leftOut.end());
    all.insert(".git");  // shown as the project's own, as ever
    return all;
}

bool isOfFailure(const SandboxRecord& record, std::int64_t project) {
    return record.project == project && record.name && record.name->starts_with(kNamePrefix);
}

}  // namespace

// A project may hold what cannot be read: it is shown as it is then.
void Sandboxes::Inside::copyGround(std::int64_t layer, const ResultingTree& tree, bool isProject) {
    try {
        layers().makeBase(layer, tree.directory, leftOutOf(tree));
    } catch (const Error&) {
        if (!isProject) throw;
        layers().dropBase(layer);
    }
}

// Two layers: what the check wrote, over the change that it was about. They lie on a copy of what the check saw, which
// may move on, or go. Only a project that is too large for that lies below as it is, as it does below every sandbox.
// The copies are whole before a row says so.
std::optional<std::int64_t> Sandboxes::Inside::keepFailed(const SandboxRecord& record, const ResultingTree& tree,
                                                          int upper, const ExecutionReport& report,
                                                          Milliseconds lifetime) {
    const bool isProject = tree.directory == tree.project && tree.leftOut.empty();
    std::int64_t next = 0;
    try {
        Amount written{Bounds()};
        written.addOurs(upper);
        Amount all(isProject ? kOfProject : Bounds());
        all.addOurs(upper);
        all.addTheirs(openFile(tree.directory, O_RDONLY | O_DIRECTORY).get(), leftOutOf(tree));
        if (written.isTooMuch() || (all.isTooMuch() && !isProject)) return std::nullopt;
        if (!all.isTooMuch()) copyGround(record.layer, tree, isProject);
        layers().stageNext(record.layer, upper);
        write([&](SandboxWriter& writer, Writer&) {
            writer.finish(report.execution);
            writer.keep(record.id, fmt::format("{}{}", kNamePrefix, report.execution.id), lifetime);
            writer.freeze(record.id);
            writer.touch(record.id);
            next = writer.records().sandbox(record.id)->layer;
        });
    } catch (const std::exception& e) {
        around.warn(fmt::format("the sandbox of the failed check could not be kept: {}", e.what()));
        return std::nullopt;
    }
    try {
        layers().placeNext(record.layer, next);
    } catch (const std::exception& e) {
        around.warn(e.what());  // whoever uses it next tries again
    }
    return record.id;
}

// The verdict is out: nothing that goes wrong here may change it.
void Sandboxes::Inside::tidyFailed(const SandboxRecord& record) {
    try {
        layers().dropParts(record.layer);
    } catch (const std::exception& e) {
        around.warn(e.what());
    }
    std::vector<SandboxRecord> kept =
        read([](const Records& records) { return records.sandboxes().living(SandboxKind::kKept); });
    std::erase_if(kept, [&](const SandboxRecord& other) { return !isOfFailure(other, record.project); });
    for (std::size_t i = 0; i + kMostKept < kept.size(); ++i) {
        try {
            expireFailed(kept[i]);
        } catch (const std::exception& e) {
            around.warn(fmt::format("sandbox s{} of an earlier failed check is still there: {}", kept[i].id, e.what()));
        }
    }
}

// One that is in use, or that a fork stands on, is not in the way of anything. Another check may have ended it before
// the lock was ours.
void Sandboxes::Inside::expireFailed(const SandboxRecord& record) {
    auto lock = SandboxLock::attempt(layers().lockFile(record.id));
    if (!lock) return;
    const HeldSandbox held{std::move(*lock), record, {}, {}};
    std::vector<std::int64_t> theirs;
    const bool isLiving = read([&](const Records& records) {
        for (const LayerRecord& layer : records.sandboxes().chain(record.layer)) theirs.push_back(layer.id);
        const auto now = records.sandboxes().sandbox(record.id);
        return now && !now->ended;
    });
    if (!isLiving) return held.lock.removeFile();
    end(held, SandboxEnd::kExpired, std::nullopt);
    discardUnreachable(theirs);
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
