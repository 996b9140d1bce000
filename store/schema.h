#pragma once

#include <optional>
#include <string>

#include "store/sql.h"

namespace gradus {

/// The schema this program writes.
int latestSchema();

/// Refuses what is not a database of ours (another program's, a newer release's), naming both sides. True if it has a
/// schema already, false if the file is new and empty.
bool inspectSchema(Sql& sql);

/// The first table, index or trigger that is not as this program makes it; nothing if all are.
std::optional<std::string> schemaDifference(Sql& sql);

/// Makes the schema, or brings an older one up to date, in one transaction. The writer lock must be held.
void migrate(Sql& sql);

}  // namespace gradus
