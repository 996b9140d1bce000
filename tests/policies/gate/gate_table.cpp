#include "tests/policies/gate/gate_table.h"

#include <algorithm>
#include <set>

#include "tests/policies/gate/gate_fixture.h"

namespace gradus::test {

namespace {

using Words = std::vector<std::string>;

Words split(const std::string& text, char by) {
    Words words;
    std::istringstream stream(text);
    for (std::string word; std::getline(stream, word, by);)
        if (!word.empty()) words.push_back(word);
    return words;
}

/// "role:sre" gives {"role", "sre"}; "machines" gives {"machines", ""}.
std::pair<std::string, std::string> halves(const std::string& word, char by) {
    const std::size_t at = word.find(by);
    return at == std::string::npos ? std::pair(word, std::string())
                                   : std::pair(word.substr(0, at), word.substr(at + 1));
}

Milliseconds durationOf(const std::string& text) { return parseDuration(text).value.value(); }

Actor actorOf(const std::string& text) {
    const auto [kind, name] = halves(text, ':');
    return name.empty() ? Actor{ActorKind::kPerson, kind} : Actor{fromName(kActorKinds, kind).value(), name};
}

/// "agent:fixer/anna": an agent that acts for anna.
Maker makerOf(const std::string& text) {
    const auto [actor, sponsor] = halves(text, '/');
    Maker maker{actorOf(actor), std::nullopt};
    if (!sponsor.empty()) maker.sponsor = actorOf(sponsor);
    return maker;
}

Digest sameOrOther(const std::string& text, const Digest& same) { return text == "other" ? named("other") : same; }

/// yes=ben,role:sre,age:2h
void addApproval(Situation& now, const std::string& text) {
    const Words parts = split(text, ',');
    ApprovalFact approval = approvalOf(now.facts, parts[0]);
    approval.id = static_cast<std::int64_t>(now.facts.approvals.size()) + 1;
    Subject& subject = approval.subject;
    for (std::size_t i = 1; i < parts.size(); ++i) {
        const auto [key, value] = halves(parts[i], ':');
        if (key == "kind")
            approval.by.kind = fromName(kActorKinds, value).value();
        else if (key == "role")
            approval.roles.push_back(value);
        else if (key == "age")
            approval.at = now.now - durationOf(value);
        else if (key == "change")
            subject.change = std::stoll(value);
        else if (key == "revision")
            subject.revision = std::stoll(value);
        else if (key == "rules")
            subject.rules = named("other");
        else if (key == "base")
            subject.base = named("other");
        else if (key == "evidence")
            subject.evidence = value == "none" ? std::nullopt : std::optional(named("other"));
        else if (key == "used")
            approval.usedBy = std::stoll(value);
        else
            throw std::runtime_error("approval: " + key);
    }
    now.facts.approvals.push_back(approval);
}

void setChecked(Situation& now, const std::string& text) {
    const auto [key, value] = halves(text, ':');
    if (key == "no")
        now.facts.checked.reset();
    else if (key == "age")
        now.facts.checked = CheckedFact{named("evidence"), now.facts.rules, now.now - durationOf(value)};
    else if (key == "rules")
        now.facts.checked = CheckedFact{named("evidence"), named("other"), kNoon - durationOf("1h")};
    else
        throw std::runtime_error("checked: " + key);
}

void setMoved(Situation& now, const std::string& text) {
    const std::map<std::string, StageMoved> names{
        {"unrelated", StageMoved::kUnrelated}, {"touched", StageMoved::kTouched}, {"conflict", StageMoved::kConflict}};
    now.facts.moved = {names.at(text), {"src/a.c"}, kNoon - durationOf("30m")};
}

/// verified=local:missing
void setVerified(Situation& now, const std::string& text) {
    const auto [stage, what] = halves(text, ':');
    auto& all = now.facts.verified;
    const auto found =
        std::find_if(all.begin(), all.end(), [name = stage](const auto& fact) { return fact.stage == name; });
    if (found == all.end()) return;
    if (what == "missing")
        all.erase(found);
    else if (what == "old")
        found->revision = 1;
    else if (what == "newer")
        found->revision = 3;
    else if (what == "revoked")
        found->revokedAt = kNoon - durationOf("10m");
    else if (what == "again")
        all.push_back({stage, 2, kNoon - durationOf("5m"), std::nullopt, {}});
    else
        throw std::runtime_error("verified: " + what);
}

/// hold=stage:here,machines,until:+2h
void addHold(Situation& now, const std::string& text) {
    HoldFact hold{.by = {ActorKind::kPerson, "carl"}, .at = kNoon - durationOf("1d"), .reason = "look first"};
    for (const std::string& part : split(text, ',')) {
        const auto [key, value] = halves(part, ':');
        if (key == "stage")
            hold.stage = value;
        else if (key == "change")
            hold.change = std::stoll(value);
        else if (key == "patch")
            hold.patch = sameOrOther(value, now.facts.change.patch);
        else if (key == "machines")
            hold.onlyMachines = true;
        else if (key == "until")
            hold.until = timeOf(value);
        else if (key == "at")
            hold.at = timeOf(value);
        else if (key != "all")
            throw std::runtime_error("hold: " + key);
    }
    now.facts.holds.push_back(hold);
}

/// pin=12.2 or pin=13,stage:local
void addPin(Situation& now, const std::string& text) {
    const Words parts = split(text, ',');
    const auto [change, revision] = halves(parts[0], '.');
    PinFact pin{.stage = "here", .change = std::stoll(change), .by = {ActorKind::kPerson, "carl"}};
    if (!revision.empty()) pin.revision = std::stoll(revision);
    if (parts.size() > 1) pin.stage = halves(parts[1], ':').second;
    now.facts.pins.push_back(pin);
}

/// veto=bytes:same or veto=patch:other,stage:local
void addVeto(Situation& now, const std::string& text) {
    VetoFact veto{.by = {ActorKind::kPerson, "carl"}, .reason = "leaks"};
    for (const std::string& part : split(text, ',')) {
        const auto [key, value] = halves(part, ':');
        if (key == "bytes")
            veto.changeSet = sameOrOther(value, now.facts.change.changeSet);
        else if (key == "patch")
            veto.patch = sameOrOther(value, now.facts.change.patch);
        else if (key == "stage")
            veto.stage = value;
        else
            throw std::runtime_error("veto: " + key);
    }
    now.facts.vetoes.push_back(veto);
}

/// path=tests/a.c,+3,-1 or path=a,deleted or path=a,new or path=a.bin,bytes:100>50
void addPath(Situation& now, const std::string& text) {
    const Words parts = split(text, ',');
    TouchedPath path{.path = parts[0]};
    for (std::size_t i = 1; i < parts.size(); ++i) {
        const auto [key, value] = halves(parts[i], ':');
        if (key[0] == '+')
            path.added = std::stoll(key.substr(1));
        else if (key[0] == '-')
            path.removed = std::stoll(key.substr(1));
        else if (key == "deleted")
            path.isThere = false;
        else if (key == "new")
            path.wasThere = false;
        else if (key == "skips")
            path.moreSkips = std::stoll(value);
        else if (key == "bytes") {
            path.added = path.removed = -1;
            path.bytesBefore = std::stoll(halves(value, '>').first);
            path.bytesAfter = std::stoll(halves(value, '>').second);
        } else
            throw std::runtime_error("path: " + key);
    }
    now.facts.change.paths.push_back(path);
}

void addFiles(Situation& now, const std::string& text) {
    for (int i = static_cast<int>(now.facts.change.paths.size()); i < std::stoi(text); ++i)
        now.facts.change.paths.push_back({.path = fmt::format("src/more{}.c", i)});
}

/// spent=promotions:3,age:2h: three, of which the oldest is two hours old and each later one ten minutes younger.
void addSpent(Situation& now, const std::string& text) {
    const Words parts = split(text, ',');
    const auto [what, count] = halves(parts[0], ':');
    auto& times = what == "promotions" ? now.facts.spent.promotions : now.facts.spent.rollbacks;
    Time at = now.now - durationOf(halves(parts.at(1), ':').second);
    for (int i = 0; i < std::stoi(count); ++i, at += std::chrono::minutes(10)) times.push_back(at);
}

/// override=window,by:dora,role:override
void addOverride(Situation& now, const std::string& text) {
    const Words parts = split(text, ',');
    OverrideFact fact{.promotion = 7, .gate = parts[0], .by = {ActorKind::kPerson, "dora"}, .reason = "fire"};
    fact.roles = {"override"};
    fact.at = now.now;
    for (std::size_t i = 1; i < parts.size(); ++i) {
        const auto [key, value] = halves(parts[i], ':');
        if (key == "by")
            fact.by = actorOf(value);
        else if (key == "role")
            fact.roles = {value};
        else if (key == "promotion")
            fact.promotion = std::stoll(value);
        else if (key == "about")
            fact.about = value;
        else if (key == "rules")
            fact.about = value == "same" ? now.facts.rules.hex() : sha256(value).hex();
        else if (key == "age")
            fact.at = now.now - durationOf(value);
        else
            throw std::runtime_error("override: " + key);
    }
    now.facts.overrides.push_back(fact);
}

using Setter = void (*)(Situation& now, const std::string& text);

const std::map<std::string, Setter> kSetters{
    {"at", [](Situation& now, const std::string& text) { now.now = timeOf(text); }},
    {"stage", [](Situation& now, const std::string& text) { now.stage = text; }},
    {"by", [](Situation& now, const std::string& text) { now.facts.change.makers = {makerOf(text)}; }},
    {"lineage", [](Situation& now, const std::string& text) { now.facts.change.makers.push_back(makerOf(text)); }},
    {"promoter", [](Situation& now, const std::string& text) { now.facts.promoter = actorOf(text); }},
    {"yes", addApproval},
    {"checked", setChecked},
    {"moved", setMoved},
    {"verified", setVerified},
    {"hold", addHold},
    {"pin", addPin},
    {"veto", addVeto},
    {"halt",
     [](Situation& now, const std::string&) {
         now.facts.halt = HaltFact{{ActorKind::kPerson, "carl"}, {}, ""};
     }},
    {"stuck",
     [](Situation& now, const std::string& text) {
         now.facts.stuck = StuckFact{std::stoll(text), {}};
     }},
    {"ahead",
     [](Situation& now, const std::string& text) {
         now.facts.ahead.push_back({std::stoll(text), 3, 1, {}});
     }},
    {"newer",
     [](Situation& now, const std::string& text) {
         now.facts.newer = QueuedFact{std::stoll(text), 12, 3, {}};
     }},
    {"path", addPath},
    {"hazard", [](Situation& now, const std::string& text) { now.facts.change.hazards.push_back(text); }},
    {"files", addFiles},
    {"spent", addSpent},
    {"climb",
     [](Situation& now, const std::string& text) {
         now.facts.climb = ClimbFact{text, "asked by anna"};
     }},
    {"override", addOverride},
};

std::set<std::string> gatesThat(const Decision& decision, const std::function<bool(const GateAnswer&)>& claim) {
    std::set<std::string> names;
    for (const GateAnswer& answer : decision.gates)
        if (claim(answer)) names.emplace(nameOf(kGates, answer.gate));
    return names;
}

std::string joined(const std::set<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
    return text;
}

std::string timeText(const std::optional<Time>& time) { return time ? formatTime(*time) : "never"; }

std::string differsIn(const Decision& decision, const std::string& word) {
    const auto [key, value] = halves(word, '=');
    if (key == "step") {
        const std::string step(nameOf(kNextSteps, decision.step));
        return step == value ? "" : "step=" + step;
    }
    if (key == "next") {
        const auto [gate, time] = halves(value, ':');
        const auto& next = decision.at(fromName(kGates, gate).value()).next;
        const std::string wanted = time == "never" ? time : formatTime(timeOf(time));
        return timeText(next) == wanted ? "" : fmt::format("next={}:{} (not {})", gate, timeText(next), wanted);
    }
    const GateState state = key == "open" ? GateState::kOpen : GateState::kNotApplicable;
    for (const std::string& gate : split(value, ','))
        if ((key == "open" || key == "na") && decision.at(fromName(kGates, gate).value()).state != state)
            return word + " is not so";
    return "";
}

std::string differsInSet(const std::string& key, const std::set<std::string>& are, const std::string& expected) {
    std::set<std::string> wanted;
    for (const std::string& word : split(expected, ' '))
        if (halves(word, '=').first == key)
            for (const std::string& gate : split(halves(word, '=').second, ',')) wanted.insert(gate);
    return are == wanted ? "" : fmt::format("{}={} (not {}) ", key, joined(are), joined(wanted));
}

}  // namespace

Time timeOf(const std::string& text) {
    if (text[0] == '+') return kNoon + durationOf(text.substr(1));
    if (text[0] == '-') return kNoon - durationOf(text.substr(1));
    int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, milli = 0;
    if (std::sscanf(text.c_str(), "%d-%d-%dT%d:%d:%d.%d", &year, &month, &day, &hour, &minute, &second, &milli) < 5)
        throw std::runtime_error("time: " + text);
    const std::chrono::sys_days date = std::chrono::year(year) / month / day;
    return Time(date.time_since_epoch()) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
           std::chrono::seconds(second) + Milliseconds(milli);
}

Situation situationOf(const std::string& words) {
    Situation now{readyFacts(), kNoon};
    for (const std::string& word : split(words, ' ')) {
        const auto [key, value] = halves(word, '=');
        const auto setter = kSetters.find(key);
        if (setter == kSetters.end()) throw std::runtime_error("no such fact: " + key);
        setter->second(now, value);
    }
    return now;
}

std::string differences(const Decision& decision, const std::string& expected) {
    std::string text =
        differsInSet("closed", gatesThat(decision, [](const auto& a) { return a.state == GateState::kClosed; }),
                     expected) +
        differsInSet("ask", gatesThat(decision, [](const auto& a) { return a.ask; }), expected);
    for (const std::string& word : split(expected, ' ')) text += differsIn(decision, word);
    return text;
}

}  // namespace gradus::test
