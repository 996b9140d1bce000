#include <unistd.h>

#include <algorithm>

#include "pipeline/engine/person.h"
#include "pipeline/service/login.h"
#include "pipeline/service/project.h"
#include "pipeline/service/service.h"
#include "pipeline/service/word_teller.h"
#include "store/model/error.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

const Change& changeIn(const Spoken& what) {
    if (what.change) return *what.change;
    throw Error(ErrorCode::kUsage, "'{}' is a stage; name a change", what.stage.value_or(""));
}

std::optional<std::int64_t> idOf(const Spoken& what) {
    return what.change ? std::optional(what.change->id) : std::nullopt;
}

std::string scopeOf(const std::optional<std::int64_t>& change, const std::optional<std::string>& stage) {
    return (change ? changeHandle(*change) : "") + (change && stage ? " in " : "") + stage.value_or("");
}

/// As a command names it: "c2 --stage production".
std::string wordsFor(const Hold& hold) {
    if (!hold.change) return hold.stage.value_or("");
    return changeHandle(*hold.change) + (hold.stage ? " --stage " + *hold.stage : "");
}

/// Names the hold that may be meant.
[[noreturn]] void throwNotHeld(const std::vector<Hold>& holds, const Spoken& what, Time now) {
    std::string hint = "`gradus status` shows what is held";
    for (const Hold& hold : holds) {
        if (hold.until && *hold.until <= now) continue;
        const bool sameChange = hold.change && hold.change == idOf(what);
        const bool sameStage = hold.stage && hold.stage == what.stage;
        if (sameChange || sameStage)
            hint = fmt::format("{} is: gradus unhold {}", scopeOf(hold.change, hold.stage), wordsFor(hold));
    }
    throw Error(ErrorCode::kNotFound, "{} is not held", scopeOf(idOf(what), what.stage)).hint(hint);
}

// A hold that ends sooner in the place of another one would lift it.
void requireMayReplace(const Records& records, const Hold& hold, const Actor& by, Time now) {
    if (by.kind == ActorKind::kPerson) return;
    for (const Hold& other : records.words().holds(hold.project)) {
        const bool stands = !other.until || *other.until > now;
        if (other.stage != hold.stage || other.change != hold.change || !stands) continue;
        const auto holder = records.actor(other.by);
        if (holder == by) continue;
        throw Error(ErrorCode::kNotAllowed, "it is held already, by {}: another hold would take the place of that one",
                    holder ? fmt::format("{}:{}", nameOf(kActorKinds, holder->kind), holder->name) : "somebody else")
            .hint("that one stands; only a person lifts or changes it");
    }
}

}  // namespace

WhoAmI Service::whoAmI(const fs::path& directory) {
    WhoAmI who{.actor = caller(), .login = loginName()};
    const auto declared = around_.environment("GRADUS_ACTOR");
    who.declared = declared && !declared->empty();
    const ProjectRules project = rules(directory);
    if (project.pinned) {
        const LoadResult loaded = load(*project.pinned);
        if (loaded.pipeline && who.actor.kind == ActorKind::kPerson) who.roles = engine(directory).rolesOf(who.actor);
    }
    return who;
}

std::int64_t Service::projectOf(const fs::path& directory) {
    const ProjectIdentity identity = identify(projectRoot(directory));
    if (const auto known = writing().records().findProject(identity)) return *known;
    std::int64_t id = 0;
    record([&](Writer& writer) { id = writer.project(identity, writer.actor(caller())); });
    return id;
}

void Service::say(const std::function<void(WordWriter&)>& work) {
    record([&](Writer& writer) {
        WordWriter words(writer, writer.actor(caller()), static_cast<std::int64_t>(::getuid()));
        work(words);
    });
}

Spoken Service::spokenOf(const fs::path& directory, const std::string& words, const std::optional<std::string>& stage) {
    Spoken what;
    const auto& stages = engine(directory).project().pipeline;
    const auto handle = stages.findStage(words) != nullptr ? std::nullopt : parseHandle(words);
    if (handle && handle->kind == HandleKind::kPromotion) {
        const Promotion promotion = promotionNamed(directory, words);
        what.promotion = promotion.id;
        what.stage = promotion.stage;
        what.change = viewChange(directory, fmt::format("c{}.{}", promotion.change, promotion.revision)).change;
        what.revisionNamed = true;
    } else if (handle && handle->kind != HandleKind::kSandbox && handle->kind != HandleKind::kExecution) {
        what.change = viewChange(directory, words).change;
        what.revisionNamed = handle->revision.has_value();
    } else {
        what.stage = words;
    }
    if (stage) what.stage = stage;
    if (what.stage && stages.findStage(*what.stage) == nullptr) {
        std::string known;
        for (const Stage& one : stages.stages) known += (known.empty() ? "" : ", ") + one.name;
        throw Error(ErrorCode::kNotFound, "there is no stage '{}'", printable(*what.stage))
            .hint("name a change (c2) or a stage: " + known);
    }
    return what;
}

void Service::hold(const fs::path& directory, const Spoken& what, const std::string& reason,
                   const std::optional<Time>& until) {
    const std::int64_t project = projectOf(directory);
    const Hold hold{.project = project, .stage = what.stage, .change = idOf(what), .until = until, .reason = reason};
    say([&](WordWriter& words) {
        requireMayReplace(writing().records(), hold, caller(), around_.clock.now());
        words.hold(hold);
    });
}

std::optional<Time> Service::unhold(const fs::path& directory, const Spoken& what, bool onlyTry) {
    requirePerson(caller(), "lift a hold");
    const std::int64_t project = projectOf(directory);
    const auto holds = writing().records().words().holds(project);
    const auto found = std::ranges::find_if(
        holds, [&](const Hold& hold) { return hold.stage == what.stage && hold.change == idOf(what); });
    if (found == holds.end()) throwNotHeld(holds, what, around_.clock.now());
    if (found->until && *found->until <= around_.clock.now()) return found->until;
    if (!onlyTry) say([&](WordWriter& words) { words.release(project, idOf(what), what.stage); });
    return std::nullopt;
}

Pin Service::pin(const fs::path& directory, const Spoken& what, const std::string& reason, bool onlyTry) {
    requirePerson(caller(), "pin a stage");
    if (!what.stage)
        throw Error(ErrorCode::kUsage, "'{}' is a change; name the stage that shall keep it",
                    what.change ? changeHandle(what.change->id) : "")
            .hint(fmt::format("gradus pin {} {}", engine(directory).project().pipeline.stages.back().name,
                              what.change ? changeHandle(what.change->id) : "CHANGE"));
    Pin pin{.project = projectOf(directory), .stage = what.stage.value_or(""), .reason = reason};
    if (what.change) {
        pin.change = what.change->id;
        if (what.revisionNamed) pin.revision = what.change->revision;
    } else {
        const Records& records = writing().records();
        const auto holder = records.stageState(pin.project, pin.stage).promotion;
        if (!holder)
            throw Error(ErrorCode::kNotFound, "{} holds no change to be pinned to", pin.stage)
                .hint(fmt::format("name one: gradus pin {} CHANGE", pin.stage));
        const Promotion promotion = *records.promotion(*holder);
        pin.change = promotion.change;
        pin.revision = promotion.revision;
    }
    if (!onlyTry) say([&](WordWriter& words) { words.pin(pin); });
    return pin;
}

void Service::unpin(const fs::path& directory, const std::string& words) {
    requirePerson(caller(), "unpin a stage");
    const std::int64_t project = projectOf(directory);
    // Releases before this one took a change without a stage, and pinned none: such a pin is named by its change.
    const auto handle = parseHandle(words);
    const auto pins = writing().records().words().pins(project);
    const bool isOfNoStage = std::ranges::any_of(pins, [&](const Pin& pin) {
        return pin.stage.empty() && handle && handle->kind == HandleKind::kChange && pin.change == handle->number;
    });
    const std::string stage = isOfNoStage ? "" : words;
    say([&](WordWriter& words) { words.unpin(project, stage); });
}

Veto Service::veto(const fs::path& directory, const Spoken& what, const std::string& reason, bool onlyTry) {
    const Change& change = changeIn(what);
    Veto veto{.project = projectOf(directory),
              .change = change.id,
              .changeSet = change.changeSet,
              .patch = change.patch,
              .stage = what.stage,
              .reason = reason};
    if (!onlyTry) say([&](WordWriter& words) { words.veto(veto); });
    return veto;
}

std::vector<Veto> Service::unveto(const fs::path& directory, const Spoken& what, bool onlyTry) {
    requirePerson(caller(), "take a veto back");
    const Change& change = changeIn(what);
    std::vector<Veto> met;
    for (const Veto& veto : writing().records().words().vetoes(projectOf(directory))) {
        const bool same = veto.change == change.id || veto.changeSet == change.changeSet || veto.patch == change.patch;
        if (same && (!what.stage || veto.stage == what.stage)) met.push_back(veto);
    }
    if (met.empty()) throw Error(ErrorCode::kNotFound, "nobody vetoed {}", changeHandle(change.id));
    if (!onlyTry)
        say([&](WordWriter& words) {
            for (const Veto& veto : met) words.unveto(veto);
        });
    return met;
}

void Service::halt(const fs::path& directory, bool everywhere, const std::string& reason) {
    const auto project = everywhere ? std::nullopt : std::optional(projectOf(directory));
    say([&](WordWriter& words) { words.halt(project, reason); });
}

void Service::resume(const fs::path& directory, bool everywhere) {
    requirePerson(caller(), "resume work");
    const auto project = everywhere ? std::nullopt : std::optional(projectOf(directory));
    const auto standing = writing().records().words().halt(projectOf(directory));
    try {
        say([&](WordWriter& words) { words.resume(project); });
    } catch (const Error& e) {
        if (e.code() != ErrorCode::kNotFound || !standing) throw;
        throw Error(e.code(), "{}", e.what()).hint(everywhere ? "gradus resume" : "gradus resume --everywhere");
    }
}

std::vector<WordInForce> Service::wordsInForce(const fs::path& directory) {
    Store* store = reading();
    if (store == nullptr) return {};
    const auto project = store->records().findProject(identify(projectRoot(directory)));
    return wordsOf(store->records(), project.value_or(0), around_.clock.now());
}

}  // namespace gradus
