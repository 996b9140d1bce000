#include "policies/language/policy_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "policies/language/shipped.h"
#include "policies/language/table_reader.h"
#include "policies/language/tighten.h"
#include "store/model/error.h"

namespace gradus {

namespace {

constexpr const char* kNone = "none";
constexpr std::size_t kLongestChain = 32;

std::string stemOf(const std::string& path) {
    const std::size_t slash = path.rfind('/') + 1;
    return path.substr(slash, path.size() - slash - 5);
}

/// Shipped and project policies may share a name; in a chain of `extends` they are two.
std::string chainName(const std::string& name, bool shipped) { return shipped ? name + " (shipped)" : name; }

struct ShippedDocument {
    SourceText source;
    Node root;
};

/// Parsed once: a daemon loads many pipelines, and these bytes never change.
const std::vector<ShippedDocument>& shippedDocuments() {
    static const std::vector<ShippedDocument> documents = [] {
        std::vector<ShippedDocument> all;
        for (const RuleFile& file : shippedPolicies()) {
            std::vector<Diagnostic> problems;
            SourceText source(file.path, file.bytes);
            auto root = parseDocument(source, problems);
            if (!root) throw Error(ErrorCode::kDamaged, "{} as built in is not TOML", file.path);
            all.push_back({std::move(source), std::move(*root)});
        }
        return all;
    }();
    return documents;
}

}  // namespace

PolicySet::PolicySet(const Vocabulary& vocabulary, Findings& findings) : vocabulary_(vocabulary), findings_(findings) {}

// Read when the first is asked for: most sandboxes are under none of them.
const PolicySet::Definitions& PolicySet::shipped() const {
    if (shipped_) return *shipped_;
    Definitions all;
    for (const ShippedDocument& document : shippedDocuments()) {
        const std::string& path = document.source.name();
        findings_.addSource(path, std::string(document.source.bytes()));
        TableReader reader(vocabulary_, findings_, Origin::Kind::kShipped, path);
        const std::string name = stemOf(path);
        all[name] = {reader.read(document.root, section("policy").rows, "shipped policy " + name),
                     {Origin::Kind::kShipped, path, {}}};
    }
    return shipped_.emplace(std::move(all));
}

void PolicySet::add(const std::string& name, Settings settings, const Origin& origin) {
    if (name == kNone) {
        findings_.error(origin, "bad-value", "a policy cannot be called 'none'", "it means: build on nothing",
                        "choose another name");
        return;
    }
    const auto [place, added] = project_.try_emplace(name, Definition{std::move(settings), origin});
    if (added) return;
    findings_
        .error(origin, "duplicate", fmt::format("policy '{}' is defined twice", name), "defined here again",
               "keep one of the two")
        .note = "the other is at " + place->second.origin.text();
}

bool PolicySet::knows(const std::string& name) const { return find(name, false) != nullptr; }

std::vector<std::string> PolicySet::names() const {
    std::vector<std::string> all;
    for (const auto& [name, definition] : project_) all.push_back(name);
    for (const auto& [name, definition] : shipped())
        if (!project_.contains(name)) all.push_back(name);
    return all;
}

const PolicySet::Definition* PolicySet::find(const std::string& name, bool shippedOnly) const {
    const auto own = project_.find(name);
    if (!shippedOnly && own != project_.end()) return &own->second;
    const auto found = shipped().find(name);
    return found == shipped().end() ? nullptr : &found->second;
}

Settings PolicySet::baseOf(const std::string& name, const Definition& definition, bool isShipped,
                           std::vector<std::string>& path) {
    const Value* extends = definition.settings.find("extends");
    if (extends == nullptr) {
        const bool hasNamesake = !isShipped && shipped().contains(name);
        return hasNamesake ? resolve(name, true, path) : Settings{};
    }
    if (extends->text == kNone) return {};
    // A policy that extends its own name means the shipped one of that name.
    const bool shippedOnly = isShipped || (extends->text == name && shipped().contains(name));
    if (find(extends->text, shippedOnly) == nullptr) {
        findings_.error(extends->origin, "unknown-name", fmt::format("unknown policy '{}'", extends->text),
                        fmt::format("policy '{}' builds on it", name),
                        findings_.hintFor(extends->text, names(), "policies"));
        return {};
    }
    return resolve(extends->text, shippedOnly, path);
}

Settings PolicySet::resolve(const std::string& name, bool shippedOnly, std::vector<std::string>& path) {
    const Definition& definition = *find(name, shippedOnly);
    const bool shipped = definition.origin.kind == Origin::Kind::kShipped;
    const std::string link = chainName(name, shipped);
    if (const auto done = resolved_.find(link); done != resolved_.end()) return done->second;
    const auto first = std::find(path.begin(), path.end(), link);
    if (first != path.end() || path.size() >= kLongestChain) {
        const bool cycle = first != path.end();
        std::vector<std::string> links(cycle ? first : path.begin(), path.end());
        links.push_back(link);
        const Value* extends = definition.settings.find("extends");
        findings_.error(extends != nullptr ? extends->origin : definition.origin, "cycle",
                        cycle ? fmt::format("policies build on each other: {}", fmt::join(links, " → "))
                              : fmt::format("policies build on each other more than {} deep", kLongestChain),
                        cycle ? "closes the circle" : "one too many",
                        "remove one `extends`, or write extends = \"none\"");
        return {};
    }
    path.push_back(link);
    const Settings base = baseOf(name, definition, shipped, path);
    path.pop_back();
    Settings own = definition.settings;
    own.erase("extends");
    Settings result = tightened(section("policy").rows, base, own,
                                [&](const std::string& key, const Value& limit, const Value& wanted) {
                                    reportLooser(name, key, limit, wanted);
                                });
    return resolved_.insert_or_assign(link, std::move(result)).first->second;
}

void PolicySet::resolveAll() {
    for (const auto& [name, definition] : project_) {
        std::vector<std::string> path;
        resolve(name, false, path);
    }
}

EffectivePolicy PolicySet::effective(const std::string& name) {
    if (const auto done = effective_.find(name); done != effective_.end()) return done->second;
    EffectivePolicy policy;
    policy.name = name;
    std::vector<std::string> path;
    if (knows(name)) policy.settings = resolve(name, false, path);
    const std::vector<KeyRow>& rows = section("policy").rows;
    fillDefaults(policy.settings, rows, vocabulary_);
    cap(policy.settings, rows, "policy '" + name + "'");
    return effective_.emplace(name, std::move(policy)).first->second;
}

void PolicySet::cap(Settings& settings, const std::vector<KeyRow>& rows, const std::string& where) {
    Settings limits;
    for (const auto& [key, value] : ceiling_.values())
        if (findRow(rows, key) != nullptr) limits.set(key, value);
    settings = tightened(rows, limits, settings, [&](const std::string& key, const Value& limit, const Value& wanted) {
        reportCapped(where, key, limit, wanted);
    });
    capWithout(settings, where);
}

/// A network, the host's or by name, is no-network given up by another name.
void PolicySet::capNetwork(Settings& settings, const Value& demanded, const std::string& where) {
    Value* network = settings.find("network");
    if (network == nullptr || !opensNetwork(*network)) return;
    for (const Value& demand : demanded.items) {
        if (demand.text != "no-network") continue;
        Value none = *network;
        none.text = "none";
        none.items.clear();
        none.origin = demand.origin;
        reportCapped(where, "network", none, *network);
        *network = none;
        return;
    }
}

/// A guarantee that the ceiling requires cannot be given up.
void PolicySet::capWithout(Settings& settings, const std::string& where) {
    Value* without = settings.find("without");
    const Value* demanded = ceiling_.find("requires");
    if (demanded == nullptr) return;
    capNetwork(settings, *demanded, where);
    if (without == nullptr) return;
    for (const Value& demand : demanded->items) {
        const auto found = std::find_if(without->items.begin(), without->items.end(),
                                        [&](const Value& item) { return item.text == demand.text; });
        if (found == without->items.end()) continue;
        Diagnostic& diagnostic = findings_.error(
            found->origin, "capped", fmt::format("{} cannot give up '{}' on this machine", where, demand.text),
            "given up here, and kept all the same", "remove it, or ask who administers this machine");
        diagnostic.severity = Severity::kWarning;
        diagnostic.note = fmt::format("set by {}", demand.origin.text());
        without->items.erase(found);
    }
}

void PolicySet::reportLooser(const std::string& policy, const std::string& key, const Value& limit,
                             const Value& wanted) {
    findings_
        .error(wanted.origin, "looser", fmt::format("'{}' loosens what policy '{}' builds on", key, policy),
               fmt::format("{} is looser than {}", valueText(wanted), valueText(limit)),
               fmt::format("write {} or stricter, or start empty with extends = \"none\"", valueText(limit)))
        .note = fmt::format("{} = {} comes from {}", key, valueText(limit), limit.origin.text());
}

void PolicySet::reportCapped(const std::string& where, const std::string& key, const Value& limit,
                             const Value& wanted) {
    // Only what the project wrote is worth telling it about: defaults and shipped values just give way.
    if (wanted.origin.kind != Origin::Kind::kProject) return;
    Diagnostic& diagnostic =
        findings_.error(wanted.origin, "capped",
                        fmt::format("'{}' of {} is limited to {} on this machine", key, where, valueText(limit)),
                        fmt::format("asks for {}", valueText(wanted)),
                        fmt::format("write {} or stricter, or ask who administers this machine", valueText(limit)));
    diagnostic.severity = Severity::kWarning;
    diagnostic.note = fmt::format("set by {}", limit.origin.text());
}

std::vector<KeyRow> ceilingRows() {
    std::vector<KeyRow> rows;
    for (const KeyRow& row : section("policy").rows)
        if (row.stricter != Stricter::kFree && row.name != "checks" && row.name != "check") rows.push_back(row);
    return rows;
}

}  // namespace gradus
