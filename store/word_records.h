#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/model/word.h"
#include "store/sql.h"

namespace gradus {

/// What people said, to be asked; "not found" is an answer. One thread at a time.
class WordRecords {
  public:
    explicit WordRecords(Sql& sql) : sql_(&sql) {}

    std::optional<Approval> approval(std::int64_t id) const;
    /// Oldest first; withdrawn ones are left out.
    std::vector<Approval> approvals(std::int64_t change, const std::string& stage) const;
    /// Oldest first; those that ended by themselves among them.
    std::vector<Hold> holds(std::int64_t project) const;
    std::vector<Pin> pins(std::int64_t project) const;
    /// Oldest first.
    std::vector<Veto> vetoes(std::int64_t project) const;
    /// The oldest, of this project or of every one.
    std::optional<Halt> halt(std::int64_t project) const;
    std::vector<GateOverride> overrides(std::int64_t promotion) const;
    /// Everyone whose patch the change is or was: who worked in the sandbox that it came from, else who handed it in.
    /// Who only put the same patch onto other ground is not among them.
    std::vector<RevisionMaker> makers(std::int64_t change) const;

  private:
    Sql* sql_;
};

}  // namespace gradus
