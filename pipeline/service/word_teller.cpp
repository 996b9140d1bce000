#include "pipeline/service/word_teller.h"

#include <fmt/format.h>

#include "store/model/handle.h"

namespace gradus {

namespace {

std::string because(const std::optional<std::string>& reason) {
    return reason && !reason->empty() ? " (" + *reason + ")" : std::string();
}

/// Words and the name of who said them.
class Teller {
  public:
    explicit Teller(const Records& records) : records_(records) {}

    WordInForce tell(const Hold& hold) const {
        WordInForce word = start("hold", hold.by, hold.at);
        word.stage = hold.stage;
        word.change = hold.change;
        word.until = hold.until;
        const std::string what = (hold.change ? changeHandle(*hold.change) : "") +
                                 (hold.change && hold.stage ? " in " : "") + hold.stage.value_or("");
        if (hold.promotion) word.by = "gradus";
        word.text = fmt::format("{} is held{} by {}{}", what, hold.onlyMachines ? " for machines" : "", word.by,
                                because(hold.reason));
        return word;
    }
    WordInForce tell(const Pin& pin) const {
        WordInForce word = start("pin", pin.by, pin.at);
        word.stage = pin.stage;
        word.change = pin.change;
        word.text = fmt::format("{} is pinned to {}{} by {}{}", pin.stage, changeHandle(pin.change),
                                pin.revision ? fmt::format(".{}", *pin.revision) : "", word.by, because(pin.reason));
        return word;
    }
    WordInForce tell(const Veto& veto) const {
        WordInForce word = start("veto", veto.by, veto.at);
        word.stage = veto.stage;
        word.change = veto.change;
        word.text = fmt::format("{} is vetoed{} by {}{}", changeHandle(veto.change),
                                veto.stage ? " in " + *veto.stage : "", word.by, because(veto.reason));
        return word;
    }
    WordInForce tell(const Halt& halt) const {
        WordInForce word = start("halt", halt.by, halt.at);
        word.text = fmt::format("{} is halted by {}{}", halt.project ? "this project" : "everything", word.by,
                                because(halt.reason));
        return word;
    }

    WordInForce tell(const Approval& approval) const {
        WordInForce word = start("approval", approval.by, approval.at);
        word.stage = approval.stage;
        word.change = approval.change;
        word.text = fmt::format("{}.{} is approved for {} by {}{}", changeHandle(approval.change), approval.revision,
                                approval.stage, word.by, because(approval.reason));
        return word;
    }

  private:
    WordInForce start(const char* kind, ActorId by, Time at) const {
        const auto actor = records_.actor(by);
        return {.kind = kind,
                .text = {},
                .by = actor ? fmt::format("{}:{}", nameOf(kActorKinds, actor->kind), actor->name) : "somebody",
                .at = at};
    }
    const Records& records_;
};

}  // namespace

std::vector<std::string> tellMakers(const Records& records, std::int64_t change) {
    const auto name = [&](ActorId id) {
        const auto actor = records.actor(id);
        return actor ? fmt::format("{}:{}", nameOf(kActorKinds, actor->kind), actor->name) : "somebody";
    };
    std::vector<std::string> makers;
    for (const RevisionMaker& maker : records.words().makers(change))
        makers.push_back(name(maker.actor) + (maker.sponsor ? " for " + name(*maker.sponsor) : ""));
    return makers;
}

std::vector<WordInForce> wordsOf(const Records& records, std::int64_t project, Time now) {
    std::vector<WordInForce> all;
    const Teller teller(records);
    if (const auto halt = records.words().halt(project)) all.push_back(teller.tell(*halt));
    for (const Hold& hold : records.words().holds(project))
        if (!hold.until || now < *hold.until) all.push_back(teller.tell(hold));
    for (const Pin& pin : records.words().pins(project)) all.push_back(teller.tell(pin));
    for (const Veto& veto : records.words().vetoes(project)) all.push_back(teller.tell(veto));
    return all;
}

WordInForce tellHold(const Records& records, const Hold& hold) { return Teller(records).tell(hold); }

std::vector<WordInForce> openApprovalsOf(const Records& records, std::int64_t project) {
    std::vector<WordInForce> all;
    const Teller teller(records);
    // Their numbers have no gaps.
    for (std::int64_t id = 1;; ++id) {
        const auto approval = records.words().approval(id);
        if (!approval) return all;
        if (approval->project == project && !approval->withdrawn && !approval->usedBy)
            all.push_back(teller.tell(*approval));
    }
}

}  // namespace gradus
