#include "pipeline/service/service.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "pipeline/service/project.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kNewestChanges = 5;

std::string loginName() {
    const passwd* entry = getpwuid(geteuid());
    return entry != nullptr ? entry->pw_name : std::to_string(geteuid());
}

Actor parseActor(const std::string& text) {
    const std::size_t colon = text.find(':');
    const auto kind = fromName(kActorKinds, text.substr(0, colon));
    if (colon == std::string::npos || !kind || colon + 1 == text.size() || firstInvalidUtf8(text))
        throw Error(ErrorCode::kUsage, "GRADUS_ACTOR is '{}', which does not say who is acting", printable(text))
            .hint("write KIND:NAME, with person, agent, daemon or ci for KIND, for example GRADUS_ACTOR=agent:fixer");
    return {*kind, text.substr(colon + 1)};
}

}  // namespace

Actor Service::caller() const {
    const auto declared = around_.environment("GRADUS_ACTOR");
    return declared && !declared->empty() ? parseActor(*declared) : Actor{ActorKind::kPerson, loginName()};
}

Store& Service::writing() {
    if (!store_ || !writable_) {
        store_.emplace(Store::openForWriting(state(), {.clock = around_.clock, .random = around_.random}));
        writable_ = true;
    }
    return *store_;
}

void Service::record(const std::function<void(Writer&)>& work) {
    writing().write(work);
    if (const auto gap = writing().anchorGap()) around_.warn(*gap);
}

Store* Service::reading() {
    if (!store_) store_ = Store::openForReading(state(), {.clock = around_.clock, .random = around_.random});
    return store_ ? &*store_ : nullptr;
}

Store* Service::writingIfThere() {
    std::error_code ignored;
    if (!fs::exists(fs::symlink_status(state().database(), ignored))) return reading();
    return &writing();
}

Store& Service::existing() {
    if (Store* store = reading()) return *store;
    throw Error(ErrorCode::kNotFound, "there is no store at {} yet", state().root.native())
        .hint("it is made by the first command that records something, such as `gradus trust`");
}

StatusReport Service::status(const fs::path& directory) {
    StatusReport report;
    report.rules = rules(directory);
    if (const auto& files = report.rules.pinned ? report.rules.pinned : report.rules.onDisk)
        report.loaded = load(*files);
    if (Store* store = reading()) {
        report.hasStore = true;
        report.counts = store->records().counts();
        if (const auto project = store->records().findProject(identify(report.rules.root))) {
            report.changes = store->records().changes(*project, kNewestChanges);
            report.unfinished = store->records().unfinished(*project);
        }
    }
    return report;
}

}  // namespace gradus
