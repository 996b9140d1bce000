#include "pipeline/service/pinned_rules.h"
#include "pipeline/service/project.h"
#include "pipeline/service/service.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMostPinned = std::uint64_t{64} << 20;

std::vector<std::string> differing(const RuleFiles& a, const RuleFiles& b) {
    std::vector<std::string> paths;
    for (const RuleFile& file : a.files) {
        const RuleFile* other = b.find(file.path);
        if (other == nullptr || other->bytes != file.bytes) paths.push_back(file.path);
    }
    for (const RuleFile& file : b.files)
        if (a.find(file.path) == nullptr) paths.push_back(file.path);
    return paths;
}

bool hasPipelineFile(const fs::path& root) {
    std::error_code ignored;
    return fs::exists(fs::symlink_status(root / kPipelineFile, ignored));
}

/// Trusted files that cannot be read back are as good as none: nothing is in force until a person trusts again, which
/// also stores them anew.
void readPinnedInto(ProjectRules& rules, const Objects& objects, const Digest& digest) {
    try {
        if (objects.contains(digest)) {
            rules.pinned = decodeRuleFiles(objects.readAll(digest, kMostPinned));
        } else {
            rules.lost =
                fmt::format("the rules that were trusted are gone: there is no {}", objects.pathOf(digest).native());
        }
    } catch (const Error& e) {
        rules.lost = fmt::format("the rules that were trusted cannot be read: {}", e.what());
    }
}

RulesState stateOf(const ProjectRules& rules, bool fileIsThere) {
    if (!rules.pinned) return fileIsThere ? RulesState::kUntrusted : RulesState::kNone;
    return rules.onDisk && rules.changedFiles.empty() ? RulesState::kTrusted : RulesState::kChanged;
}

}  // namespace

LoadResult Service::load(const RuleFiles& files) const {
    return gradus::load(files, around_.vocabulary, readCeiling(around_.ceiling));
}

ProjectRules Service::rulesToTrust(const fs::path& directory) {
    writingIfThere();
    return rules(directory);
}

ProjectRules Service::rules(const fs::path& directory) {
    ProjectRules rules;
    rules.root = findProjectRoot(directory, around_.environment);
    const bool fileIsThere = hasPipelineFile(rules.root);
    if (fileIsThere) {
        try {
            rules.onDisk = readRuleFiles(rules.root);
        } catch (const Error& e) {
            rules.unreadable = e.what();
        }
    }
    if (Store* store = reading())
        if (const auto project = store->records().findProject(identify(rules.root)))
            if (const auto trusted = store->records().trustedRules(*project))
                readPinnedInto(rules, objects(), trusted->files);
    if (rules.pinned) rules.changedFiles = differing(rules.onDisk.value_or(RuleFiles{}), *rules.pinned);
    rules.state = stateOf(rules, fileIsThere);
    return rules;
}

fs::path Service::projectRoot(const fs::path& directory) const {
    return findProjectRoot(directory, around_.environment);
}

void Service::requireTruster(const Actor& by) {
    if (by.kind != ActorKind::kPerson)
        throw Error(ErrorCode::kNotAllowed, "only a person can trust rules; {}:{} is none",
                    nameOf(kActorKinds, by.kind), by.name)
            .hint("ask the person you work for to run `gradus trust`");
}

TrustReport Service::trust(const fs::path& directory, const Actor& by, const std::optional<Digest>& seen) {
    requireTruster(by);
    TrustReport report;
    report.before = rulesToTrust(directory);
    report.before.onDisk = readRuleFiles(report.before.root);  // again, for its message where it cannot be read
    if (seen && report.before.onDisk->digest() != *seen)
        throw Error(ErrorCode::kBusy, "the rules in {} changed while they were looked at; nothing was trusted",
                    report.before.root.native())
            .hint("read them again, then run `gradus trust` again");
    report.loaded = load(*report.before.onDisk);
    if (!report.loaded.pipeline || report.before.state == RulesState::kTrusted) return report;

    const Digest files = objects().put(encodeRuleFiles(*report.before.onDisk));
    record([&](Writer& writer) {
        const ActorId actor = writer.actor(by);
        const std::int64_t project = writer.project(identify(report.before.root), actor);
        // Looked at once more, now that nobody else writes: another terminal may have said the same meanwhile.
        const auto trusted = store_->records().trustedRules(project);
        report.recorded = !trusted || trusted->files != files;
        if (report.recorded) writer.trustRules(project, actor, report.before.onDisk->digest(), files);
    });
    return report;
}

}  // namespace gradus
