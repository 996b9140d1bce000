#include "pipeline/engine/gather_facts.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "pipeline/engine/verified.h"
#include "pipeline/engine/word_facts.h"
#include "policies/gate/test_skips.h"
#include "stages/changes/hazards.h"

namespace gradus {

namespace {

constexpr std::uint64_t kMostText = std::uint64_t{8} << 20;
constexpr std::int64_t kNoLines = -1;

/// Nothing: it is not there, no text, or too large to be looked at line by line.
std::optional<std::string> textOf(const std::optional<Entry>& entry, const Objects& objects) {
    if (!entry || entry->type != EntryType::kFile) return std::string();
    if (entry->size > kMostText || !objects.contains(entry->digest)) return std::nullopt;
    std::string text = objects.readAll(entry->digest, kMostText);
    if (text.find('\0') != std::string::npos) return std::nullopt;
    return text;
}

using LineCounts = std::unordered_map<std::string_view, std::int64_t>;

LineCounts countLines(std::string_view text) {
    LineCounts counts;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        ++counts[text.substr(begin, end - begin)];
        begin = end + 1;
    }
    return counts;
}

// How many lines of `a` are not in `b`. A line that only moved is in both: the size of a change is what it says, not
// where.
std::int64_t missing(const LineCounts& a, const LineCounts& b) {
    std::int64_t count = 0;
    for (const auto& [line, times] : a) {
        const auto other = b.find(line);
        count += std::max<std::int64_t>(0, times - (other == b.end() ? 0 : other->second));
    }
    return count;
}

bool isFile(const std::optional<Entry>& entry) { return entry && entry->type == EntryType::kFile; }

TouchedPath touched(const PathChange& change, const Objects& objects) {
    TouchedPath path;
    path.path = change.path;
    path.wasThere = isFile(change.before);
    path.isThere = isFile(change.after);
    path.bytesBefore = change.before ? static_cast<std::int64_t>(change.before->size) : 0;
    path.bytesAfter = change.after ? static_cast<std::int64_t>(change.after->size) : 0;
    const auto before = textOf(change.before, objects);
    const auto after = textOf(change.after, objects);
    if (!before || !after) {
        path.added = path.removed = kNoLines;
        return path;
    }
    const LineCounts was = countLines(*before);
    const LineCounts is = countLines(*after);
    path.added = missing(is, was);
    path.removed = missing(was, is);
    path.moreSkips = countSkips(*after) - countSkips(*before);
    return path;
}

ChangeFacts changeFacts(const FactsRequest& request) {
    ChangeFacts facts;
    facts.id = request.change.id;
    facts.revision = request.change.revision;
    facts.changeSet = request.change.changeSet;
    facts.patch = request.change.patch;
    facts.makers = makerFacts(request.sources.records, request.change.id);
    for (const PathChange& change : request.changes.changes())
        facts.paths.push_back(touched(change, request.sources.objects));
    facts.hazards = hazardsOf(request.changes, request.sources.objects, request.there);
    return facts;
}

SpentFact spentFacts(const FactsRequest& request) {
    const Value* budget = request.stage.policy.settings.find("budget");
    const auto failures =
        request.sources.records.failedTries(request.change.id, request.change.revision, request.stage.name);
    if (budget == nullptr) return {{}, {}, failures};
    const Time since = request.sources.now - Milliseconds(budget->fields.at("per").number);
    const auto spent = [&](Records::Spent what, const char* name) {
        const auto most = budget->fields.find(name);
        if (most == budget->fields.end()) return std::vector<Time>();
        return request.sources.records.spentByMachines(request.project.id, request.stage.name, what, since,
                                                       most->second.number);
    };
    return {spent(Records::Spent::kPromotions, "promotions"), spent(Records::Spent::kRollbacks, "rollbacks"), failures};
}

}  // namespace

FactSources sourcesNow(const EngineParts& parts) {
    return {parts.store.records(), parts.objects, parts.actor, parts.clock.now(), parts.clock.moment()};
}

Facts gatherFacts(const FactsRequest& request) {
    Facts facts;
    const Records& records = request.sources.records;
    facts.promotion = request.promotion;
    facts.openedAt = request.sources.now;
    if (const auto promotion = records.promotion(request.promotion)) facts.openedAt = promotion->openedAt;
    facts.promoter = request.sources.promoter;
    facts.change = changeFacts(request);
    facts.rules = request.project.rules;
    facts.base = request.base;
    facts.checked = request.checked;
    facts.verified = verifiedFacts(request.project, records, request.change);
    addWords(records, request.project.id, request.stage.name, request.sources.moment, facts);
    if (const auto stuck = records.stageState(request.project.id, request.stage.name).stuck) {
        const auto promotion = records.promotion(*stuck);
        facts.stuck = StuckFact{*stuck, promotion->movedAt, promotion->undoes, records.lastReason(*stuck).value_or("")};
    }
    facts.spent = spentFacts(request);
    return facts;
}

}  // namespace gradus
