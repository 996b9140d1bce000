#include <algorithm>
#include <map>

#include "pipeline/service/project.h"
#include "pipeline/service/service.h"
#include "policies/language/suggest.h"
#include "store/model/error.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

std::int64_t changeNumber(const std::string& text) {
    const auto handle = parseHandle(text);
    if (!handle || handle->kind != HandleKind::kChange)
        throw Error(ErrorCode::kUsage, "'{}' is not the handle of a change", text)
            .hint("a change is written c12, or c12.2 for its second revision");
    return handle->number;
}

std::int64_t knownChange(const std::string& text, const Records& records) {
    const std::int64_t number = changeNumber(text);
    if (!records.change(number))
        throw Error(ErrorCode::kNotFound, "there is no change {}", text)
            .hint("`gradus audit query --event change.submitted` lists them");
    return number;
}

std::string actorText(const Records& records, ActorId id) {
    const auto actor = records.actor(id);
    return actor ? fmt::format("{}:{}", nameOf(kActorKinds, actor->kind), actor->name) : fmt::format("#{}", id);
}

}  // namespace

AuditVerdict Service::verifyAudit(const VerifyProgress& progress) {
    // No log is no proof: a mistyped GRADUS_HOME must not read as "ok".
    Store& store = existing();
    return gradus::verifyAudit(store.sql(), store.anchor(), progress);
}

AuditQuery Service::resolve(const AuditRequest& request, const Store& store) {
    AuditQuery query = request.query;
    if (request.change) query.change = knownChange(*request.change, store.records());
    if (request.actor) {
        query.actors = actorsNamed(const_cast<Store&>(store).sql(), *request.actor);
        if (query.actors.empty())
            throw Error(ErrorCode::kNotFound, "nobody called '{}' has done anything yet", *request.actor)
                .hint("names are exact; `gradus audit query --event actor.registered` lists them");
    }
    if (request.projectDirectory) {
        const auto root = findProjectRoot(*request.projectDirectory, around_.environment);
        query.project = store.records().findProject(identify(root));
        if (!query.project)
            throw Error(ErrorCode::kNotFound, "nothing is recorded about the project {}", root.native())
                .hint("`gradus audit query --event project.registered` lists the projects");
    }
    return query;
}

void Service::requireKnownStage(const std::filesystem::path& directory, const std::string& stage) {
    Store* const store = reading();
    if (store == nullptr) return;
    AuditQuery anything;
    anything.stage = stage;
    anything.limit = 1;
    if (!queryEvents(store->sql(), anything).empty()) return;
    std::vector<std::string> known;
    try {
        for (const Stage& one : engine(directory).project().pipeline.stages) known.push_back(one.name);
    } catch (const Error&) {  // not in a project: only the log knows stages
    }
    if (std::find(known.begin(), known.end(), stage) != known.end()) return;
    const auto meant = suggest(stage, known);
    throw Error(ErrorCode::kNotFound, "there is no stage '{}', in the log or in the rules here", printable(stage))
        .hint(meant ? fmt::format("did you mean '{}'?", *meant) : "`gradus status` shows the stages");
}

std::vector<AuditEntry> Service::queryAudit(const AuditRequest& request) {
    if (request.change) changeNumber(*request.change);  // a slip is a slip, also where nothing is recorded yet
    Store* store = reading();
    if (store == nullptr) return {};
    std::vector<AuditEntry> entries;
    std::map<ActorId, std::string> actors;
    std::map<std::int64_t, std::string> projects;
    for (Event& event : queryEvents(store->sql(), resolve(request, *store))) {
        AuditEntry entry;
        if (event.actor) {
            auto [known, isNew] = actors.try_emplace(*event.actor);
            if (isNew) known->second = actorText(store->records(), *event.actor);
            entry.actor = known->second;
        }
        if (event.project) {
            auto [known, isNew] = projects.try_emplace(*event.project);
            if (isNew) known->second = store->records().project(*event.project).value_or(ProjectIdentity{}).path;
            entry.project = known->second;
        }
        entry.event = std::move(event);
        entries.push_back(std::move(entry));
    }
    return entries;
}

bool Service::redact(std::int64_t seq, const Actor& by) {
    if (by.kind != ActorKind::kPerson)
        throw Error(ErrorCode::kNotAllowed, "only a person can take text away from the audit log; {}:{} is none",
                    nameOf(kActorKinds, by.kind), by.name)
            .hint("ask the person you work for to run `gradus audit redact`");
    writingIfThere();
    existing();
    record([&](Writer& writer) { writer.redact(seq, writer.actor(by)); });
    return writing().forgetDeleted();
}

void Service::reanchor(const Actor& by) {
    if (by.kind != ActorKind::kPerson)
        throw Error(ErrorCode::kNotAllowed, "only a person can start a new anchor; {}:{} is none",
                    nameOf(kActorKinds, by.kind), by.name)
            .hint("ask the person you work for to run `gradus audit reanchor`");
    writingIfThere();
    existing();
    Store& store = writing();
    if (!store.anchorGap() && store.hasKey())
        throw Error(ErrorCode::kNotAllowed, "{} is whole; a new one would vouch for less", store.anchor().name())
            .hint("nothing was changed; `gradus audit verify` judges the whole log");
    ActorId actor = 0;
    store.write([&](Writer& writer) { actor = writer.actor(by); });
    store.reanchor(actor);
}

}  // namespace gradus
