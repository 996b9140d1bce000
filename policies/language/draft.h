#pragma once

#include <map>
#include <string>
#include <vector>

#include "policies/language/findings.h"
#include "policies/language/pipeline.h"
#include "policies/language/policy_set.h"
#include "policies/language/vocabulary.h"

namespace gradus {

/// A section as the file has it: each key is right by itself, nothing is resolved yet.
struct DraftSection {
    Settings settings;
    Origin origin;
};

/// What gradus.toml says, before names are looked up.
struct Draft {
    DraftSection pipeline;
    DraftSection sandbox;
    std::map<std::string, DraftSection> checks;
    std::map<std::string, DraftSection> stages;
    std::map<std::string, DraftSection> services;
    std::map<std::string, DraftSection> roles;
    std::vector<DraftSection> windows;
};

/// Looks up every name, applies defaults, inheritance and ceilings, and finds what is wrong between sections.
Pipeline resolvePipeline(const Draft& draft, PolicySet& policies, const Vocabulary& vocabulary, Findings& findings);

}  // namespace gradus
