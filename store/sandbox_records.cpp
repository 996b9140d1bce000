#include "store/sandbox_records.h"

#include <nlohmann/json.hpp>

#include "store/model/error.h"

namespace gradus {

namespace {

constexpr std::string_view kSandboxColumns =
    "select s.id, s.project, s.actor, s.kind, s.ended, s.base, s.since_s, s.since_ns, s.layer, s.forked_from, s.owner, "
    "s.lifetime_ms, s.created_at, s.used_at, s.ended_at, s.change_set, p.text "
    "from sandbox s left join payload p on p.seq = s.name_seq ";
constexpr std::string_view kSnapshotColumns =
    "select n.id, n.sandbox, n.layer, n.taken_at, p.text from snapshot n left join payload p on p.seq = n.seq ";
constexpr std::string_view kLayerColumns = "select id, below, sandbox, frozen, used from layer ";
constexpr std::string_view kExecutionColumns =
    "select e.id, e.sandbox, e.state, e.backend, e.guarantees, e.without, e.verdict, e.exit_code, e.signal, e.stdout, "
    "e.stderr, e.stdout_bytes, e.stderr_bytes, e.truncated, e.started_at, e.wall_ms, e.cpu_ms, e.peak_memory, "
    "e.limits, p.text, e.services from execution e left join payload p on p.seq = e.seq ";

template <typename Enum, std::size_t kCount>
Enum enumFrom(const std::array<Name<Enum>, kCount>& table, std::string_view word) {
    if (const auto value = fromName(table, word)) return *value;
    throw Error(ErrorCode::kDamaged, "the database holds the unknown word '{}'", word)
        .hint("run `gradus audit verify`");
}

std::optional<std::string> nameIn(const std::optional<std::string>& payload) {
    if (!payload) return std::nullopt;
    const auto json = nlohmann::json::parse(*payload, nullptr, false);
    if (!json.is_object() || !json.contains("name") || !json["name"].is_string()) return std::nullopt;
    return json["name"].get<std::string>();
}

std::vector<std::string> argumentsIn(const std::optional<std::string>& payload) {
    std::vector<std::string> all;
    if (!payload) return all;
    const auto json = nlohmann::json::parse(*payload, nullptr, false);
    if (!json.is_object() || !json.contains("arguments") || !json["arguments"].is_array()) return all;
    for (const auto& word : json["arguments"])
        if (word.is_string()) all.push_back(word.get<std::string>());
    return all;
}

SandboxRecord sandboxFromRow(const Sql::Call& row) {
    SandboxRecord record;
    record.id = row.number(0);
    record.project = row.number(1);
    record.actor = row.number(2);
    record.kind = enumFrom(kSandboxKinds, row.view(3));
    if (!row.isNull(4)) record.ended = enumFrom(kSandboxEnds, row.view(4));
    record.commit = row.optionalText(5);
    record.since = {row.number(6), row.number(7)};
    record.layer = row.number(8);
    record.forkedFrom = row.optionalNumber(9);
    if (!row.isNull(10)) record.owner = parseOwner(row.view(10));
    record.lifetime = Milliseconds(row.number(11));
    record.createdAt = fromMillis(row.number(12));
    record.usedAt = fromMillis(row.number(13));
    if (!row.isNull(14)) record.endedAt = fromMillis(row.number(14));
    record.changeSet = row.optionalDigest(15);
    record.name = nameIn(row.optionalText(16));
    return record;
}

SnapshotRecord snapshotFromRow(const Sql::Call& row) {
    return {row.number(0), row.number(1), row.number(2), nameIn(row.optionalText(4)), fromMillis(row.number(3))};
}

LayerRecord layerFromRow(const Sql::Call& row) {
    return {row.number(0), row.optionalNumber(1), row.number(2), row.number(3) != 0, row.number(4) != 0};
}

std::optional<int> smallNumber(const Sql::Call& row, int column) {
    if (row.isNull(column)) return std::nullopt;
    return static_cast<int>(row.number(column));
}

Verdict verdictFrom(std::string_view word) {
    for (std::size_t i = 0; i < kVerdictNames.size(); ++i)
        if (kVerdictNames[i] == word) return static_cast<Verdict>(i);
    throw Error(ErrorCode::kDamaged, "the database holds the unknown verdict '{}'", word);
}

void readOutcome(const Sql::Call& row, Execution& execution) {
    const auto count = [&](int column) { return static_cast<std::uint64_t>(row.number(column)); };
    if (!row.isNull(6)) execution.verdict = verdictFrom(row.view(6));
    execution.exitCode = smallNumber(row, 7);
    execution.signal = smallNumber(row, 8);
    execution.out = row.optionalDigest(9);
    execution.err = row.optionalDigest(10);
    execution.outBytes = count(11);
    execution.errBytes = count(12);
    execution.truncated = row.number(13) != 0;
    execution.startedAt = fromMillis(row.number(14));
    execution.wallMillis = count(15);
    execution.cpuMillis = count(16);
    if (!row.isNull(17)) execution.peakMemoryBytes = count(17);
}

Execution executionFromRow(const Sql::Call& row) {
    Execution execution;
    execution.id = row.number(0);
    execution.sandbox = row.number(1);
    execution.state = enumFrom(kExecutionStates, row.view(2));
    execution.backend = row.text(3);
    execution.guarantees = parseGuarantees(row.view(4));
    execution.without = parseGuarantees(row.view(5));
    readOutcome(row, execution);
    execution.limits = parseLimits(row.view(18));
    execution.arguments = argumentsIn(row.optionalText(19));
    if (!row.isNull(20)) execution.services = row.digest(20);
    return execution;
}

template <typename Row>
auto all(Sql::Call rows, Row row) {
    std::vector<decltype(row(rows))> out;
    while (rows.step()) out.push_back(row(rows));
    return out;
}

template <typename Row>
auto first(Sql::Call row, Row read) -> std::optional<decltype(read(row))> {
    if (!row.step()) return std::nullopt;
    return read(row);
}

}  // namespace

std::optional<SandboxRecord> SandboxRecords::sandbox(std::int64_t id) const {
    static const std::string kSql = std::string(kSandboxColumns) + "where s.id = ?";
    return first(sql()(kSql, id), sandboxFromRow);
}

std::vector<SandboxRecord> SandboxRecords::living(SandboxKind kind) const {
    static const std::string kSql = std::string(kSandboxColumns) + "where s.ended is null and s.kind = ? order by s.id";
    return all(sql()(kSql, nameOf(kSandboxKinds, kind)), sandboxFromRow);
}

std::optional<std::int64_t> SandboxRecords::named(const std::string& name) const {
    return sql().number(
        "select s.id from sandbox s join payload p on p.seq = s.name_seq "
        "where s.ended is null and s.kind = 'kept' and json_extract(p.text, '$.name') = ?",
        name);
}

std::optional<std::int64_t> SandboxRecords::latest() const {
    return sql().number("select max(id) from sandbox where ended is null and kind = 'kept'");
}

std::vector<SnapshotRecord> SandboxRecords::snapshots(std::int64_t sandbox) const {
    static const std::string kSql =
        std::string(kSnapshotColumns) + "where n.sandbox = ? and n.removed = 0 order by n.id";
    return all(sql()(kSql, sandbox), snapshotFromRow);
}

std::optional<SnapshotRecord> SandboxRecords::snapshot(std::int64_t sandbox, const std::string& name) const {
    static const std::string kSql =
        std::string(kSnapshotColumns) +
        "where n.sandbox = ? and n.removed = 0 and json_extract(p.text, '$.name') = ? order by n.id";
    return first(sql()(kSql, sandbox, name), snapshotFromRow);
}

std::optional<LayerRecord> SandboxRecords::layer(std::int64_t id) const {
    static const std::string kSql = std::string(kLayerColumns) + "where id = ?";
    return first(sql()(kSql, id), layerFromRow);
}

std::vector<LayerRecord> SandboxRecords::chain(std::int64_t layer) const {
    // One query: at 32 layers, one each takes as long as a commit.
    auto found = all(sql()("with recursive chain (depth, id, below, sandbox, frozen, used) as ("
                           "select 0, id, below, sandbox, frozen, used from layer where id = ? union all "
                           "select c.depth + 1, l.id, l.below, l.sandbox, l.frozen, l.used "
                           "from chain c join layer l on l.id = c.below) "
                           "select id, below, sandbox, frozen, used from chain order by depth",
                           layer),
                     layerFromRow);
    if (found.empty() || found.back().below)
        throw Error(ErrorCode::kDamaged, "layer {} is named and not there",
                    found.empty() ? layer : *found.back().below);
    return found;
}

std::set<std::int64_t> SandboxRecords::reachableLayers() const {
    auto rows = sql()(
        "with recursive standing (id) as ("
        "select layer from sandbox where ended is null union "
        "select n.layer from sandbox s join snapshot n on n.sandbox = s.id and n.removed = 0 where s.ended is null "
        "union select l.below from standing t join layer l on l.id = t.id where l.below is not null) "
        "select id from standing");
    std::set<std::int64_t> ids;
    while (rows.step()) ids.insert(rows.number(0));
    return ids;
}

std::vector<std::int64_t> SandboxRecords::standingOn(std::int64_t layer, std::int64_t except) const {
    auto rows = sql()(
        "with recursive standing (sandbox, id) as ("
        "select id, layer from sandbox where ended is null and id <> ? union "
        "select t.sandbox, l.below from standing t join layer l on l.id = t.id where l.below is not null) "
        "select distinct sandbox from standing where id = ? order by sandbox",
        except, layer);
    std::vector<std::int64_t> ids;
    while (rows.step()) ids.push_back(rows.number(0));
    return ids;
}

std::optional<Execution> SandboxRecords::execution(std::int64_t id) const {
    static const std::string kSql = std::string(kExecutionColumns) + "where e.id = ?";
    return first(sql()(kSql, id), executionFromRow);
}

std::vector<Execution> SandboxRecords::executions(std::int64_t sandbox, std::int64_t limit) const {
    static const std::string kSql = std::string(kExecutionColumns) + "where e.sandbox = ? order by e.id desc limit ?";
    return all(sql()(kSql, sandbox, limit), executionFromRow);
}

std::vector<RunningExecution> SandboxRecords::running() const {
    return all(sql()("select id, sandbox, owner from execution where state = 'running' order by id"),
               [](const Sql::Call& row) {
                   return RunningExecution{row.number(0), row.number(1), parseOwner(row.view(2))};
               });
}

std::int64_t SandboxRecords::nextSandbox() const { return sql().number("select max(id) from sandbox").value_or(0) + 1; }
std::int64_t SandboxRecords::nextLayer() const { return sql().number("select max(id) from layer").value_or(0) + 1; }
std::int64_t SandboxRecords::nextSnapshot() const {
    return sql().number("select max(id) from snapshot").value_or(0) + 1;
}
std::int64_t SandboxRecords::nextExecution() const {
    return sql().number("select max(id) from execution").value_or(0) + 1;
}

}  // namespace gradus
