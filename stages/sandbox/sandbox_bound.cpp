// Disk limits of kept sandboxes: a layer in an image of its own cannot hold more than the image.

#include <fcntl.h>
#include <sys/statvfs.h>

#include <algorithm>

#include "plugins/isolation/loop_image.h"
#include "stages/sandbox/sandboxes_inside.h"
#include "store/privilege.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kRounding = 4096;

std::string megabytes(std::uint64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / 1048576); }

bool isDemanded(const CommandRequest& command) {
    return std::find(command.required.begin(), command.required.end(), Guarantee::kDiskLimit) != command.required.end();
}

// An image is sparse: a promise of space that the disk must be able to keep.
void checkRoom(const fs::path& state, std::uint64_t wanted) {
    struct statvfs disk {};
    if (::statvfs(state.c_str(), &disk) != 0) return;
    const std::uint64_t free = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
    if (free >= wanted) return;
    throw Error(ErrorCode::kInfrastructure, "the sandbox may hold {} more, and {} has {} free", megabytes(wanted),
                state.native(), megabytes(free))
        .hint("give a lower --disk, or free some space (`gradus gc`)");
}

}  // namespace

std::optional<std::uint64_t> Sandboxes::Inside::limitOf(const std::vector<LayerRecord>& chain) {
    for (const LayerRecord& layer : chain)
        if (const auto limit = layers().limitOf(layer.id)) return limit;
    return std::nullopt;
}

void Sandboxes::Inside::useStandingLimit(const HeldSandbox& held, Limits& limits) {
    std::optional<Limit>& limit = limits[LimitName::kDisk];
    if (const auto given = limitOf(held.chain); given && !limit) limit = Limit{*given, false};
}

std::optional<std::uint64_t> Sandboxes::Inside::boundLayers(HeldSandbox& held, const CommandRequest& command,
                                                            Limits& limits) {
    std::optional<Limit>& limit = limits[LimitName::kDisk];
    const Layers& all = layers();
    const auto own = all.imageOf(held.record.layer);
    if (!limit && !own) return std::nullopt;
    if (!isMachineRoot()) {
        if (isDemanded(command))
            throw Error(ErrorCode::kNotAllowed,
                        "disk-limit cannot be held for a kept sandbox of an ordinary user: what it writes lies on a "
                        "file system without a quota, and would only be watched")
                .hint(
                    "call as root, or use `gradus try`, whose changes are in memory; without --require the limit is "
                    "watched");
        if (limit && limit->value != limitOf(held.chain)) all.setLimit(held.record.layer, limit->value);
        return std::nullopt;
    }
    std::uint64_t below = 0;
    for (const LayerRecord& layer : held.chain)
        if (layer.id != held.record.layer) below += all.size(layer.id);
    const std::uint64_t bound = own ? below + fs::file_size(own->file) : 0;
    if (!limit) limit = Limit{bound, false};
    if (own && limit->value >= bound && limit->value - bound < kRounding) return below;
    const bool used = held.chain.front().used;
    if (used) below += all.size(held.record.layer);
    if (limit->value < below + kLeastImageBytes)
        throw Error(ErrorCode::kNotAllowed, "sandbox s{} holds {}, which its disk limit of {} leaves no room beside",
                    held.record.id, megabytes(below), megabytes(limit->value))
            .hint(fmt::format("give at least --disk {}M, or go back to an earlier snapshot",
                              (below + 2 * kLeastImageBytes) / kLeastImageBytes));
    const std::uint64_t wanted = limit->value - below;
    try {
        checkRoom(around.state.root, wanted);
        // Tried before anything is recorded: where there are no loop devices the layers stay as they are.
        const fs::path trial = around.state.root / "sandboxes/images" / fmt::format("trial-{}", held.record.id);
        makeLoopImage(trial, kLeastImageBytes, trial.parent_path());
        openLoopImage(trial, false);
        fs::remove(trial);
    } catch (const Error& error) {
        if (isDemanded(command)) throw;
        around.warn(fmt::format("the disk limit is only watched: {}", error.what()));
        return std::nullopt;
    }
    if (used) {
        write([&](SandboxWriter& writer, Writer&) { writer.freeze(held.record.id); });
        held.record = living(held.record.id);
        held.chain = read([&](const Records& records) { return records.sandboxes().chain(held.record.layer); });
    } else {
        all.remove(held.record.layer);
    }
    const std::optional<std::int64_t> under = held.chain.front().below;
    const FileDescriptor model =
        under ? all.openUpper(*under) : openFile(groundOf(held).base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    all.makeBounded(held.record.layer, model.get(), wanted, limit->value);
    return below;
}

}  // namespace gradus
