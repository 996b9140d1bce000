#include <algorithm>

#include "pipeline/service/past.h"
#include "pipeline/service/promoter.h"
#include "pipeline/service/service.h"
#include "pipeline/service/stage_names.h"
#include "pipeline/service/word_teller.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

std::string nameOfActor(const std::optional<Actor>& actor) {
    return actor ? fmt::format("{}:{}", nameOf(kActorKinds, actor->kind), actor->name) : "[redacted]";
}

PastStage stageThen(Sql& log, const Records& records, std::int64_t project, const std::string& name) {
    PastStage stage{.stage = name, .holds = records.stageState(project, name)};
    if (!stage.holds.promotion) return stage;
    stage.promotion = records.promotion(*stage.holds.promotion);
    if (const auto change = records.change(stage.promotion->change, stage.promotion->revision))
        stage.title = change->title;
    stage.by = nameOfActor(promoterOf(log, records, *stage.promotion));
    return stage;
}

void requireStage(const std::vector<std::string>& names, const std::string& stage) {
    if (std::find(names.begin(), names.end(), stage) != names.end()) return;
    std::string known;
    for (const std::string& name : names) known += (known.empty() ? "" : ", ") + name;
    throw Error(ErrorCode::kNotFound, "there was no stage '{}' then", printable(stage))
        .hint(known.empty() ? "there was none at all" : "the stages were " + known);
}

void describeLastEvent(Sql& log, const Records& records, PastView& view) {
    const auto events = queryEvents(log, {.afterSeq = view.moment.seq - 1, .limit = 1});
    if (events.empty()) return;
    view.kind = events.front().kind;
    if (events.front().actor) view.by = nameOfActor(records.actor(*events.front().actor));
}

bool isElsewhere(const std::optional<std::string>& of, const std::optional<std::string>& wanted) {
    return wanted && of && *of != *wanted;
}

}  // namespace

PastView Service::asOf(const fs::path& directory, const PastRequest& request) {
    const std::int64_t project = recordedProject(directory);
    Store& store = existing();
    PastView view{.moment = request.seq ? momentOf(store.sql(), *request.seq)
                                        : momentAt(store.sql(), request.time.value_or(around_.clock.now()))};
    PastState past(store.sql());
    past.advance(view.moment.seq);
    const Records& records = past.records();
    if (!records.project(project))
        throw Error(ErrorCode::kNotFound, "nothing was recorded about this project up to event {}", view.moment.seq)
            .hint("`gradus audit timeline` shows when it began");
    describeLastEvent(store.sql(), records, view);

    const auto trusted = records.trustedRules(project);
    const auto pipeline = pipelineOf(trusted);
    if (trusted)
        view.rules =
            PastRules{trusted->rules, nameOfActor(records.actor(trusted->actor)), trusted->at, pipeline.has_value()};
    const auto names = stageNames(records, project, pipeline ? &*pipeline : nullptr);
    if (request.stage) requireStage(names, *request.stage);
    for (const std::string& name : names)
        if (!request.stage || name == *request.stage)
            view.stages.push_back(stageThen(store.sql(), records, project, name));
    for (const Promotion& promotion : records.unfinished(project))
        if (!isElsewhere(promotion.stage, request.stage))
            view.unfinished.push_back({promotion, records.lastReason(promotion.id).value_or("")});
    view.words = wordsOf(records, project, request.time.value_or(view.moment.at));
    for (WordInForce& word : openApprovalsOf(records, project)) view.words.push_back(std::move(word));
    std::erase_if(view.words, [&](const WordInForce& word) { return isElsewhere(word.stage, request.stage); });
    return view;
}

}  // namespace gradus
