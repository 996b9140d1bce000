#include "policies/language/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "policies/language/document.h"
#include "policies/language/draft.h"
#include "policies/language/table_reader.h"
#include "policies/language/text_rules.h"
#include "policies/language/tighten.h"
#include "store/model/error.h"

namespace gradus {

namespace {

std::vector<std::string> topLevelNames() {
    std::vector<std::string> names;
    for (const Section& candidate : sections())
        if (candidate.shape != Section::Shape::kNested) names.push_back(candidate.id);
    return names;
}

/// Reads the sections of gradus.toml into a draft, and policies into their set.
class FileReader {
  public:
    FileReader(const Vocabulary& vocabulary, Findings& findings, PolicySet& policies)
        : vocabulary_(vocabulary), findings_(findings), policies_(policies) {}

    Draft readPipelineFile(const RuleFile& file);
    void readPolicyFile(const RuleFile& file);
    void readCeilingFile(const Ceiling& ceiling);

  private:
    std::optional<Node> parse(const std::string& name, const std::string& bytes);
    void refuseUnknownSections(const Node& root, TableReader& reader);
    void readSingle(const Node& root, const std::string& id, TableReader& reader, DraftSection& target);
    void readNamed(const Node& root, const std::string& id, TableReader& reader,
                   const std::function<void(const std::string& name, const Node& table, const Origin& origin)>& take);
    void readPlainNamed(const Node& root, const std::string& id, TableReader& reader,
                        std::map<std::string, DraftSection>& target);
    void readStages(const Node& root, TableReader& reader, Draft& draft);
    void readWindows(const Node& root, TableReader& reader, Draft& draft);
    Settings readStage(const std::string& name, const Node& table, TableReader& reader);

    const Vocabulary& vocabulary_;
    Findings& findings_;
    PolicySet& policies_;
};

std::optional<Node> FileReader::parse(const std::string& name, const std::string& bytes) {
    std::vector<Diagnostic> problems;
    auto document = parseDocument(findings_.addSource(name, bytes), problems);
    findings_.addAll(problems);
    return document;
}

void FileReader::refuseUnknownSections(const Node& root, TableReader& reader) {
    const std::vector<std::string> known = topLevelNames();
    for (const NodeEntry& entry : root.entries) {
        if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
        const bool table = entry.value.kind == Node::Kind::kTable;
        findings_.error(reader.originOf(entry.keySpan), "unknown-key",
                        fmt::format("unknown {} '{}' in the pipeline file", table ? "section" : "key", entry.key),
                        table ? "not a section" : "not a key of the top level",
                        findings_.hintFor(entry.key, known, "sections"));
    }
}

void FileReader::readSingle(const Node& root, const std::string& id, TableReader& reader, DraftSection& target) {
    const Node* table = root.find(id);
    if (table == nullptr) return;
    target.origin = reader.originOf(table->span);
    if (table->kind == Node::Kind::kTable) {
        target.settings = reader.read(*table, section(id).rows, "[" + id + "]");
        return;
    }
    findings_.error(target.origin, "wrong-type", fmt::format("'{}' must be a section", id),
                    fmt::format("this is {}", kindName(table->kind)),
                    fmt::format("write [{}] on a line of its own", id));
}

void FileReader::readNamed(
    const Node& root, const std::string& id, TableReader& reader,
    const std::function<void(const std::string& name, const Node& table, const Origin& origin)>& take) {
    const Node* tables = root.find(id);
    if (tables == nullptr) return;
    const std::string hint = fmt::format("write [{}.NAME], with a name of your own", id);
    if (tables->kind != Node::Kind::kTable) {
        findings_.error(reader.originOf(tables->span), "wrong-type", fmt::format("'{}' must hold named sections", id),
                        fmt::format("this is {}", kindName(tables->kind)), hint);
        return;
    }
    for (const NodeEntry& entry : tables->entries) {
        if (entry.value.kind != Node::Kind::kTable)
            findings_.error(reader.originOf(entry.keySpan), "wrong-type",
                            fmt::format("'{}' in [{}] is {}, not a section", entry.key, id, kindName(entry.value.kind)),
                            "a section has a name here", hint);
        else if (!isName(entry.key))
            findings_.error(reader.originOf(entry.keySpan), "bad-value",
                            fmt::format("'{}' is not a name for a {}", entry.key, id),
                            "names have letters, digits, '-' and '_', at most 64", hint);
        else
            take(entry.key, entry.value, reader.originOf(entry.keySpan));
    }
}

void FileReader::readPlainNamed(const Node& root, const std::string& id, TableReader& reader,
                                std::map<std::string, DraftSection>& target) {
    readNamed(root, id, reader, [&](const std::string& name, const Node& table, const Origin& origin) {
        const std::string where = fmt::format("[{}.{}]", id, name);
        target[name] = {
            id == "check" ? reader.readCheck(table, {}, where) : reader.read(table, section(id).rows, where), origin};
    });
}

Settings FileReader::readStage(const std::string& name, const Node& table, TableReader& reader) {
    const Node* driverName = table.find("driver");
    const bool named = driverName != nullptr && driverName->kind == Node::Kind::kText;
    const DriverWords* driver = named ? vocabulary_.findDriver(driverName->text) : vocabulary_.driverForStage(name);
    const std::string where = fmt::format("[stage.{}]", name);
    if (driver != nullptr) return reader.read(table, stageRows(*driver), where);
    // The driver itself is refused later; until it is known no key of any driver is called unknown.
    std::vector<KeyRow> rows = section("stage").rows;
    for (const DriverWords& other : vocabulary_.drivers)
        for (KeyRow row : other.keys) row.required = false, rows.push_back(row);
    return reader.read(table, rows, where);
}

void FileReader::readStages(const Node& root, TableReader& reader, Draft& draft) {
    readNamed(root, "stage", reader, [&](const std::string& name, const Node& table, const Origin& origin) {
        draft.stages[name] = {readStage(name, table, reader), origin};
    });
}

void FileReader::readWindows(const Node& root, TableReader& reader, Draft& draft) {
    const Node* list = root.find("window");
    if (list == nullptr) return;
    if (list->kind != Node::Kind::kList) {
        findings_.error(reader.originOf(list->span), "wrong-type", "'window' must be a list of sections",
                        fmt::format("this is {}", kindName(list->kind)), "write [[window]] with two brackets");
        return;
    }
    for (const Node& item : list->items) {
        const Origin origin = reader.originOf(item.span);
        if (item.kind == Node::Kind::kTable)
            draft.windows.push_back({reader.read(item, section("window").rows, "[[window]]"), origin});
        else
            findings_.error(origin, "wrong-type", "a window must be a table",
                            fmt::format("this is {}", kindName(item.kind)), "write [[window]] with two brackets");
    }
}

Draft FileReader::readPipelineFile(const RuleFile& file) {
    Draft draft;
    const auto root = parse(file.path, file.bytes);
    if (!root) return draft;
    TableReader reader(vocabulary_, findings_, Origin::Kind::kProject, file.path);
    refuseUnknownSections(*root, reader);
    if (root->find("pipeline") == nullptr)
        findings_.error(file.path, {{1, 1}, {1, 2}}, "missing-key", "the file has no [pipeline]",
                        root->entries.empty() ? "the file is empty" : "it is required",
                        "add [pipeline] with name = \"shop\" and stages = [\"sandbox\", \"local\"]");
    readSingle(*root, "pipeline", reader, draft.pipeline);
    readSingle(*root, "sandbox", reader, draft.sandbox);
    readPlainNamed(*root, "check", reader, draft.checks);
    readPlainNamed(*root, "service", reader, draft.services);
    readPlainNamed(*root, "role", reader, draft.roles);
    readStages(*root, reader, draft);
    readWindows(*root, reader, draft);
    readNamed(*root, "policy", reader, [&](const std::string& name, const Node& table, const Origin& origin) {
        policies_.add(name, reader.read(table, section("policy").rows, "[policy." + name + "]"), origin);
    });
    return draft;
}

void FileReader::readPolicyFile(const RuleFile& file) {
    const std::size_t slash = file.path.rfind('/') + 1;
    const std::string name = file.path.substr(slash, file.path.size() - slash - std::string(".toml").size());
    const Origin origin{Origin::Kind::kProject, file.path, {{1, 1}, {1, 2}}};
    const auto root = parse(file.path, file.bytes);
    if (!root) return;
    if (!isName(name)) {
        findings_.error(file.path, {}, "bad-value", fmt::format("'{}' is not a name for a policy", name),
                        "a policy is called like its file", "use letters, digits, '-' and '_'");
        return;
    }
    TableReader reader(vocabulary_, findings_, Origin::Kind::kProject, file.path);
    policies_.add(name, reader.read(*root, section("policy").rows, "policy '" + name + "'"), origin);
}

void FileReader::readCeilingFile(const Ceiling& ceiling) {
    if (ceiling.file.empty()) return;
    const auto root = parse(ceiling.file, ceiling.bytes);
    if (!root) return;
    TableReader reader(vocabulary_, findings_, Origin::Kind::kCeiling, ceiling.file);
    policies_.setCeiling(reader.read(*root, ceilingRows(), "the administrator ceiling"));
}

bool isPolicyPath(const std::string& path) {
    return path.starts_with(std::string(kPolicyDirectory) + "/") && path.ends_with(".toml");
}

/// One loading: all files read, nothing resolved yet.
struct FileReading {
    FileReading(const RuleFiles& files, const Vocabulary& vocabulary, const Ceiling& ceiling)
        : policies(vocabulary, findings), reader(vocabulary, findings, policies) {
        reader.readCeilingFile(ceiling);
        for (const RuleFile& file : files.files)
            if (isPolicyPath(file.path)) reader.readPolicyFile(file);
    }

    Findings findings;
    PolicySet policies;
    FileReader reader;
};

Settings projectSandbox(const RuleFiles& files, FileReading& reading) {
    const RuleFile* main = files.find(kPipelineFile);
    Draft draft = main != nullptr ? reading.reader.readPipelineFile(*main) : Draft{};
    const auto diagnostics = reading.findings.take();
    if (hasErrors(diagnostics))
        throw Error(ErrorCode::kUsage, "the project's rules have errors, so what a sandbox may do is not known")
            .hint("see them with 'gradus policy lint'");
    return std::move(draft.sandbox.settings);
}

/// The caller's words on top of the project's, limits one by one.
void putOnTop(Settings& settings, const Settings& asked) {
    for (const auto& [key, value] : asked.values()) {
        Value* there = settings.find(key);
        if (there == nullptr || value.type != ValueType::kTable) {
            settings.set(key, value);
            continue;
        }
        for (const auto& [name, field] : value.fields) there->fields.insert_or_assign(name, field);
    }
}

[[noreturn]] void refuseLooser(const std::string& key, const Value& limit, const Value& wanted,
                               const std::string& who) {
    throw Error(ErrorCode::kNotAllowed, "{} {} is looser than {} allows: {}", key, valueText(wanted), who,
                valueText(limit))
        .hint(fmt::format("ask for {} or stricter; set by {}", valueText(limit), limit.origin.text()));
}

bool isAsked(const Value& value) { return value.origin.kind == Origin::Kind::kCaller; }

void holdTo(const Settings& demands, Settings& settings, const std::string& who) {
    const std::vector<KeyRow>& rows = section("sandbox").rows;
    Settings limits;
    for (const auto& [key, value] : demands.values())
        if (findRow(rows, key) != nullptr) limits.set(key, value);
    // The most that may be asked for is not asked for by anybody.
    for (const auto& [key, value] : limits.values())
        if (findRow(rows, key)->stricter == Stricter::kSubset && settings.find(key) == nullptr) {
            Value nothing = value;
            nothing.items.clear();
            settings.set(key, nothing);
        }
    settings = tightened(rows, limits, settings, [&](const std::string& key, const Value& limit, const Value& wanted) {
        if (isAsked(wanted)) refuseLooser(key, limit, wanted, who);
    });
}

bool holds(const Value* list, std::string_view item) {
    return list != nullptr &&
           std::any_of(list->items.begin(), list->items.end(), [&](const Value& value) { return value.text == item; });
}

// A network, the host's or by name, is no-network given up by another name; and nobody gives up what is demanded of
// him.
void refuseGivingUp(const Settings& demands, Settings& settings, const std::string& who) {
    const Value* demanded = demands.find("requires");
    if (demanded == nullptr) return;
    Value* network = settings.find("network");
    if (network != nullptr && opensNetwork(*network) && holds(demanded, "no-network")) {
        Value none = *network;
        none.text = "none";
        none.items.clear();
        none.origin = demanded->origin;
        if (isAsked(*network)) refuseLooser("network", none, *network, who);
        *network = none;
    }
    Value* without = settings.find("without");
    if (without == nullptr) return;
    std::erase_if(without->items, [&](const Value& item) {
        if (!holds(demanded, item.text)) return false;
        if (isAsked(*without))
            throw Error(ErrorCode::kNotAllowed, "'{}' cannot be given up: {} demands it", item.text, who);
        return true;
    });
}

}  // namespace

Settings sandboxRules(const RuleFiles* files, const SandboxWish& wish, const Vocabulary& vocabulary,
                      const Ceiling& ceiling) {
    const RuleFiles none;
    FileReading reading(files != nullptr ? *files : none, vocabulary, ceiling);
    Settings settings = projectSandbox(files != nullptr ? *files : none, reading);
    putOnTop(settings, wish.asked);
    if (wish.policy) {
        if (!reading.policies.knows(*wish.policy))
            throw Error(ErrorCode::kUsage, "there is no policy '{}'", *wish.policy)
                .hint(reading.findings.hintFor(*wish.policy, reading.policies.names(), "policies"));
        const EffectivePolicy policy = reading.policies.effective(*wish.policy);
        const std::string who = fmt::format("policy '{}'", *wish.policy);
        refuseGivingUp(policy.settings, settings, who);
        holdTo(policy.settings, settings, who);
    }
    fillDefaults(settings, section("sandbox").rows, vocabulary);
    refuseGivingUp(reading.policies.ceiling(), settings, "the administrator's ceiling");
    holdTo(reading.policies.ceiling(), settings, "the administrator's ceiling");
    return settings;
}

LoadResult load(const RuleFiles& files, const Vocabulary& vocabulary, const Ceiling& ceiling) {
    FileReading reading(files, vocabulary, ceiling);
    LoadResult result;
    const RuleFile* main = files.find(kPipelineFile);
    if (main == nullptr)
        reading.findings.error(kPipelineFile, {}, "missing-file", "there is no gradus.toml",
                               "nothing says what the stages are",
                               "write one; the smallest is in docs/pipeline-file.md");
    const Draft draft = main != nullptr ? reading.reader.readPipelineFile(*main) : Draft{};
    Pipeline pipeline = resolvePipeline(draft, reading.policies, vocabulary, reading.findings);
    result.diagnostics = reading.findings.take();
    if (!hasErrors(result.diagnostics)) result.pipeline = std::move(pipeline);
    return result;
}

}  // namespace gradus
