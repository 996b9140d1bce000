// A project's files held still, for several sandboxes to stand on.

#include <chrono>
#include <thread>

#include "stages/sandbox/sandboxes_inside.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::chrono::milliseconds kPause{20};
constexpr int kMostAttempts = 150;     // of three seconds in all: a file system may keep no more of the time than that
constexpr int kMostForTheIgnored = 5;  // what git ignores may be a log that is never still
constexpr int kMostCopies = 5;

}  // namespace

std::unique_ptr<PinnedBase> Sandboxes::pin(const PinRequest& request) {
    reap();
    inside_->forgetCopies();
    const ProjectIdentity project = identify(request.project);
    std::string touched;
    int copies = 0;
    for (int attempt = 0; attempt < kMostAttempts && copies < kMostCopies; ++attempt) {
        if (attempt > 0) std::this_thread::sleep_for(kPause);
        const timespec since = fileSystemNow();
        auto plan = PinPlan::make(project.path, request.budget);
        if (!plan) return nullptr;
        // What was saved a moment ago cannot be told from what will be saved in a moment.
        if (auto path = plan->firstTouched(since)) {
            touched = std::move(*path);
            continue;
        }
        if (attempt < kMostForTheIgnored && plan->firstMoved(since)) continue;
        const std::vector<std::string> restless = plan->settle(since);
        ++copies;
        const Digest before = request.look();
        auto pinned = inside_->copied(project, std::move(*plan), since, restless);
        if (!pinned || request.look() != before) continue;
        const auto moved = pinned->plan().firstTouched(since);
        if (!moved) return pinned;
        touched = *moved;
    }
    throw Error(ErrorCode::kBusy, "{} keeps changing, so there is no moment to take as the base{}",
                project.path.native(), touched.empty() ? "" : ": " + printable(touched))
        .hint("let it rest, then call again");
}

// What is left of a base whose owner was killed may be as large as a project: it is not left for `gradus gc` to find.
void Sandboxes::Inside::forgetCopies() {
    try {
        layers().prepare();
        emptyTrash();
    } catch (const Error& e) {
        around.warn(e.what());
    }
}

// The record comes first, as for every sandbox: should we die, whoever starts next ends it and takes the copy away.
std::unique_ptr<PinnedBase> Sandboxes::Inside::copied(const ProjectIdentity& project, PinPlan plan,
                                                      const timespec& since, const std::vector<std::string>& restless) {
    SandboxDraft draft;
    draft.kind = SandboxKind::kTransient;
    draft.since = since;
    draft.owner = me();
    SandboxRecord record;
    write([&](SandboxWriter& writer, Writer& all) {
        draft.project = all.project(project, all.actor(around.actor));
        record = writer.create(draft);
    });
    const auto remove = [this, record] {
        try {
            layers().remove(record.layer);
            write([&](SandboxWriter& writer, Writer&) { writer.end(record.id, SandboxEnd::kDiscarded); });
        } catch (const std::exception&) {
            // `gradus gc` finds it: its owner is dead by then.
        }
    };
    const std::filesystem::path copy = layers().upper(record.layer);
    bool isWhole = false;
    try {
        isWhole = layers().makeFrom(record.layer, plan);
    } catch (const std::exception&) {
        remove();
        throw;
    }
    StandingBase base{.directory = copy, .lowers = {copy}, .since = since, .hasGit = plan.hasGit()};
    if (!plan.shownAsTheyAre().empty()) base.lowers.push_back(project.path);
    auto pinned = std::make_unique<PinnedBase>(std::move(plan), std::move(base), restless, remove);
    return isWhole ? std::move(pinned) : nullptr;
}

}  // namespace gradus
