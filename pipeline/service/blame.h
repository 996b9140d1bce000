#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipeline/service/adoption_teller.h"
#include "store/model/change.h"
#include "store/model/evidence.h"
#include "store/model/promotion.h"
#include "store/model/word.h"

namespace gradus {

/// One line of what a stage holds.
struct LineOfFile {
    std::string path;
    std::size_t number = 0;  ///< from 1
    std::string text;
};

/// A path below the one that was asked about.
struct BlamedPath {
    std::string path;
    std::int64_t promotion = 0;  ///< that touched it last
    std::int64_t change = 0;
    std::int64_t revision = 1;
    bool removed = false;
};

/// Who and what put something where it is.
struct Blame {
    Promotion promotion;                                      ///< that brought it
    Change change;                                            ///< as it was brought
    std::vector<std::string> makers;                          ///< "agent:fixer for sue"
    std::string promotedBy;                                   ///< "person:alice"
    std::vector<CheckResult> proofs;                          ///< checks that passed
    std::vector<std::pair<std::string, Approval>> approvals;  ///< who said yes, of those that were acted on
    std::vector<std::pair<std::string, GateOverride>> overrides;
    std::optional<AdoptionTold> vouched;  ///< on whose word the stage has it, if no promotion proves that
    std::optional<std::string> builtBy;   ///< the check that built the file, if that is what it is
    std::optional<LineOfFile> line;       ///< what was asked about, if that was a line
    std::vector<BlamedPath> below;        ///< if that was a directory: what was touched in it, by path
};

}  // namespace gradus
