#include "policies/language/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "policies/language/document.h"
#include "policies/language/draft.h"
#include "policies/language/table_reader.h"
#include "policies/language/text_rules.h"

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
    for (const Entry& entry : root.entries) {
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
    for (const Entry& entry : tables->entries) {
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

}  // namespace

LoadResult load(const RuleFiles& files, const Vocabulary& vocabulary, const Ceiling& ceiling) {
    Findings findings;
    PolicySet policies(vocabulary, findings);
    FileReader reader(vocabulary, findings, policies);
    reader.readCeilingFile(ceiling);
    for (const RuleFile& file : files.files)
        if (isPolicyPath(file.path)) reader.readPolicyFile(file);
    LoadResult result;
    const RuleFile* main = files.find(kPipelineFile);
    if (main == nullptr)
        findings.error(kPipelineFile, {}, "missing-file", "there is no gradus.toml", "nothing says what the stages are",
                       "write one; the smallest is in docs/pipeline-file.md");
    const Draft draft = main != nullptr ? reader.readPipelineFile(*main) : Draft{};
    Pipeline pipeline = resolvePipeline(draft, policies, vocabulary, findings);
    result.diagnostics = findings.take();
    if (!hasErrors(result.diagnostics)) result.pipeline = std::move(pipeline);
    return result;
}

}  // namespace gradus
