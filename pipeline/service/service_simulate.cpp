#include <algorithm>
#include <limits>
#include <utility>

#include "pipeline/engine/checked_evidence.h"
#include "pipeline/engine/gather_facts.h"
#include "pipeline/service/service.h"
#include "pipeline/service/simulation.h"
#include "policies/language/time_zone.h"
#include "store/change_sets.h"
#include "store/model/error.h"
#include "store/past_state.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();

/// The event by which it was last decided what a promotion may do.
struct Decided {
    Event event;
    Passage was = Passage::kWaited;

    std::int64_t commit() const { return event.seq - event.batch; }
};

std::optional<Passage> passageOf(const Event& event) {
    const std::string& to = event.fields.text("to");
    if (to == nameOf(kPromotionStates, PromotionState::kApplying)) return Passage::kEntered;
    if (to == nameOf(kPromotionStates, PromotionState::kChecking)) return Passage::kChecked;
    if (to == nameOf(kPromotionStates, PromotionState::kWaiting)) return Passage::kWaited;
    return std::nullopt;
}

/// By promotion: applied beats everything, otherwise the last counts.
std::vector<Decided> decisionsIn(Sql& sql, std::int64_t project, Time since) {
    std::map<std::int64_t, Decided> last;
    for (Event& event :
         queryEvents(sql, {.since = since, .kind = EventKind::kPromotionMoved, .project = project, .limit = kAll})) {
        const auto passage = passageOf(event);
        if (!passage || !event.promotion) continue;
        Decided& decided = last[*event.promotion];
        if (decided.event.seq == 0 || decided.was != Passage::kEntered) decided = {std::move(event), *passage};
    }
    std::vector<Decided> all;
    for (auto& [promotion, decided] : last) all.push_back(std::move(decided));
    std::ranges::sort(all, {}, [](const Decided& decided) { return decided.event.seq; });
    return all;
}

/// What was proven when it was decided: by the checks that are recorded with it, or as the event itself says.
std::optional<CheckedFact> checkedThen(Sql& sql, const Decided& decided, const Digest& rules) {
    const Event& event = decided.event;
    if (const auto evidence = event.fields.optionalDigest("evidence")) return CheckedFact{*evidence, rules, event.at};
    if (decided.was != Passage::kEntered) return std::nullopt;
    std::vector<Digest> evidence;
    for (const Event& beside : queryEvents(sql, {.afterSeq = decided.commit() - 1, .limit = event.batch}))
        if (beside.kind == EventKind::kCheckFinished && beside.promotion == event.promotion)
            evidence.push_back(beside.fields.digest("evidence"));
    return CheckedFact{evidenceOver(evidence), rules, event.at};
}

Passage passageUnder(const Decision& decision) {
    if (decision.step == NextStep::kApply) return Passage::kEntered;
    return decision.step == NextStep::kCheck ? Passage::kChecked : Passage::kWaited;
}

std::vector<GateAnswer> closedIn(const Decision& decision) {
    std::vector<GateAnswer> closed;
    for (const GateAnswer& answer : decision.gates)
        if (answer.state == GateState::kClosed && !answer.instead) closed.push_back(answer);
    return closed;
}

std::vector<EffectiveRule> rulesOfCheck(const Pipeline& pipeline, const std::string& check) {
    std::vector<EffectiveRule> rules;
    for (EffectiveRule& rule : effectiveRules(pipeline))
        if (rule.key.starts_with("check." + check + ".")) rules.push_back(std::move(rule));
    return rules;
}

bool isSameCheck(const Pipeline& a, const Pipeline& b, const std::string& check) {
    const auto was = rulesOfCheck(a, check);
    const auto is = rulesOfCheck(b, check);
    return std::ranges::equal(
        was, is, [](const EffectiveRule& x, const EffectiveRule& y) { return x.key == y.key && x.value == y.value; });
}

class Simulator {
  public:
    Simulator(Store& store, const Objects& objects, const Pipeline& pipeline,
              std::function<std::optional<Pipeline>(const std::optional<TrustedRules>&)> pipelineThen)
        : store_(store),
          objects_(objects),
          pipeline_(pipeline),
          zones_(readZones(pipeline)),
          pipelineThen_(std::move(pipelineThen)),
          past_(store.sql()) {}

    /// Moments come in the order of the log.
    SimulatedPromotion run(const Decided& decided, const Promotion& promotion) {
        past_.advance(decided.commit() - 1);
        SimulatedPromotion result{.promotion = promotion, .at = decided.event.at, .was = decided.was};
        const Stage* stage = pipeline_.findStage(promotion.stage);
        if (stage == nullptr) {
            result.unclear = "these rules have no such stage";
            return result;
        }
        try {
            judge(decided, *stage, result);
        } catch (const Error& e) {
            result.unclear = e.what();
        }
        return result;
    }

  private:
    void judge(const Decided& decided, const Stage& stage, SimulatedPromotion& result) {
        lookAtRules(result.promotion.project);
        const Facts facts = factsThen(decided, result.promotion);
        const Decision now = decide(facts, stage, pipeline_, zones_, decided.event.at);
        result.closed = closedIn(now);
        // Checks that were begun are begun under either rules; only being kept from them is another passage.
        result.would = passageUnder(now);
        if (decided.was == Passage::kChecked && result.would == Passage::kEntered) result.would = Passage::kChecked;
        judgeThen(decided, facts, result);
        lookAtChecks(stage, result);
        if (result.was == Passage::kEntered && result.would == Passage::kEntered && !result.neverRan.empty())
            result.would = Passage::kUnknown;
    }

    /// Which rules were trusted at the moment that is looked at.
    void lookAtRules(std::int64_t project) {
        const auto before = std::exchange(trusted_, past_.records().trustedRules(project));
        if (before && trusted_ && trusted_->files == before->files) return;
        then_ = trusted_ ? pipelineThen_(trusted_) : std::nullopt;
        zonesThen_ = then_ ? readZones(*then_) : Zones{};
    }

    /// What the words of that moment were given under: a promotion that waited goes on under rules that came later.
    Digest rulesThen(const Promotion& promotion) const {
        const bool cameLater = trusted_ && trusted_->at > promotion.openedAt;
        return cameLater && then_ ? rulesDigest(*then_) : promotion.rules;
    }

    Facts factsThen(const Decided& decided, const Promotion& promotion) {
        const Event& event = decided.event;
        const Records& records = past_.records();
        const auto change = records.change(promotion.change, promotion.revision);
        if (!change) throw Error(ErrorCode::kDamaged, "its change was not recorded then");
        if (!objects_.contains(change->changeSet))
            throw Error(ErrorCode::kNotFound, "its contents are not kept any more");
        const ChangeSet changes = readChanges(objects_, change->changeSet);
        EngineProject project;
        project.id = promotion.project;
        project.rules = rulesThen(promotion);
        const Stage named{.name = promotion.stage};
        Actor by{ActorKind::kAgent, ""};
        // Who asked for it, whoever drove it.
        const auto asked = event.fields.optionalNumber("for");
        if (asked || event.actor) by = store_.records().actor(asked.value_or(event.actor.value_or(0))).value_or(by);
        auto base = event.fields.optionalDigest("previous-tree");
        if (!base) base = event.fields.optionalDigest("base");
        return gatherFacts({project, FactSources{records, objects_, by, event.at}, named, *change, changes,
                            promotion.id, base ? *base : promotion.base.value_or(Digest{}),
                            checkedThen(store_.sql(), decided, project.rules)});
    }

    /// The rules of that time must lead to what happened, or what was known then is not all that counted.
    void judgeThen(const Decided& decided, const Facts& facts, SimulatedPromotion& result) {
        const Stage* stage = then_ ? then_->findStage(result.promotion.stage) : nullptr;
        if (stage == nullptr) return;
        const Decision decision = decide(facts, *stage, *then_, zonesThen_, decided.event.at);
        result.closedThen = closedIn(decision);
        const Passage retold = passageUnder(decision);
        const bool isRetold = retold == result.was || (result.was == Passage::kChecked && retold == Passage::kEntered);
        // One that found its target in use waits although every gate is open.
        if (!isRetold)
            result.unclear = fmt::format("by the rules of that time it would have {}, and it {}",
                                         nameOf(kPassages, retold), nameOf(kPassages, result.was));
    }

    void lookAtChecks(const Stage& stage, SimulatedPromotion& result) {
        const auto ran = store_.records().checkResults(result.promotion.id);
        for (const std::string& name : stage.checks) {
            const bool hasRun = std::ranges::any_of(ran, [&](const CheckResult& one) { return one.check == name; });
            if (!hasRun)
                result.neverRan.push_back(name);
            else if (then_ && !isSameCheck(*then_, pipeline_, name))
                result.ranOtherwise.push_back(name);
        }
    }

    Store& store_;
    const Objects& objects_;
    const Pipeline& pipeline_;
    Zones zones_;
    std::function<std::optional<Pipeline>(const std::optional<TrustedRules>&)> pipelineThen_;
    PastState past_;
    std::optional<TrustedRules> trusted_;  ///< at the last moment looked at
    std::optional<Pipeline> then_;         ///< of these
    Zones zonesThen_;
};

}  // namespace

Simulation Service::simulate(const fs::path& directory, const SimulationWish& wish) {
    Simulation simulation{.loaded = load(wish.rules)};
    if (!simulation.loaded.pipeline) return simulation;
    const std::int64_t project = recordedProject(directory);
    Store& store = existing();
    const auto trusted = store.records().trustedRules(project);
    simulation.isInForce = trusted && trusted->rules == wish.rules.digest();
    const Objects contents = objects();
    Simulator simulator(store, contents, *simulation.loaded.pipeline,
                        [this](const std::optional<TrustedRules>& rules) { return pipelineOf(rules); });
    for (const Decided& decided : decisionsIn(store.sql(), project, wish.since)) {
        const auto promotion = store.records().promotion(*decided.event.promotion);
        if (!promotion) continue;
        if (promotion->undoes)
            ++simulation.takenBack;
        else
            simulation.promotions.push_back(simulator.run(decided, *promotion));
    }
    return simulation;
}

}  // namespace gradus
