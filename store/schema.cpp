#include "store/schema.h"

#include "store/migrations.h"
#include "store/model/error.h"
#include "store/model/promotion.h"

namespace gradus {

namespace {

constexpr std::int64_t kApplicationId = 0x47524144;  // "GRAD"

int schemaOf(Sql& sql) { return std::stoi(sql.pragma("user_version")); }

void fillEdges(Sql& sql) {
    sql.run("delete from promotion_edge");
    for (const Transition& edge : kTransitions)
        sql.run("insert into promotion_edge (from_state, to_state) values (?, ?)", nameOf(kPromotionStates, edge.from),
                nameOf(kPromotionStates, edge.to));
}

}  // namespace

int latestSchema() { return kMigrations.back().number; }

bool inspectSchema(Sql& sql) {
    const std::int64_t id = std::stoll(sql.pragma("application_id"));
    const std::int64_t tables = sql.number("select count(*) from sqlite_schema").value_or(0);
    if (id == 0 && tables == 0) return false;
    if (id != kApplicationId)
        throw Error(ErrorCode::kDamaged, "{} is a database of another program (application id {:#x})",
                    sql.path().native(), id)
            .hint("move the file away, or set GRADUS_HOME to another directory; nothing was changed");
    if (schemaOf(sql) > latestSchema())
        throw Error(ErrorCode::kInfrastructure, "{} has schema {}, this gradus knows schemas up to {}",
                    sql.path().native(), schemaOf(sql), latestSchema())
            .hint("use the newer gradus that wrote it; nothing was changed");
    return schemaOf(sql) > 0;
}

std::optional<std::string> schemaDifference(Sql& sql) {
    Sql fresh;
    migrate(fresh);
    constexpr std::string_view kAll =
        "select name, type || ' ' || tbl_name || ' ' || sql from sqlite_schema where sql is not null order by name";
    auto is = sql(kAll);
    auto should = fresh(kAll);
    while (true) {
        const bool haveIs = is.step();
        const bool haveShould = should.step();
        if (!haveIs && !haveShould) return std::nullopt;
        if (haveIs && haveShould && is.view(0) == should.view(0) && is.view(1) == should.view(1)) continue;
        return fmt::format("the definition of {} is not the one this program makes",
                           haveShould ? should.text(0) : is.text(0));
    }
}

// A new database is not led through its own past: the latest schema costs a sixth of that.
void migrate(Sql& sql) {
    const int found = schemaOf(sql);
    if (found == latestSchema()) return;
    WriteTransaction transaction(sql);
    if (found == 0) sql.script(kLatestSchema);
    for (const Migration& migration : kMigrations)
        if (found > 0 && migration.number > found) sql.script(migration.sql);
    fillEdges(sql);
    sql.script(fmt::format("pragma user_version = {}; pragma application_id = {}", latestSchema(), kApplicationId));
    transaction.commit();
}

}  // namespace gradus
