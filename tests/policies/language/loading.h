#pragma once

#include <string>
#include <string_view>

#include "plugins/checks/builtin.h"
#include "policies/language/loader.h"
#include "stages/drivers/builtin.h"

namespace gradus {

/// The words of the program as it ships.
inline Vocabulary builtinVocabulary() {
    Registry registry;
    addBuiltinChecks(registry);
    addBuiltinDrivers(registry);
    return registry.vocabulary();
}

inline RuleFiles pipelineOf(std::string text) { return {{{kPipelineFile, std::move(text)}}}; }

inline RuleFiles withPolicy(std::string pipeline, const std::string& name, std::string policy) {
    return {{{".gradus/policies/" + name + ".toml", std::move(policy)}, {kPipelineFile, std::move(pipeline)}}};
}

inline LoadResult loadText(std::string text, const Ceiling& ceiling = {}) {
    return load(pipelineOf(std::move(text)), builtinVocabulary(), ceiling);
}

/// A file with stages sandbox and local and one check; `more` is put at the end.
inline std::string smallFile(std::string_view more = {}) {
    return "[pipeline]\nname = \"shop\"\nstages = [\"sandbox\", \"local\"]\n[check.unit]\nrun = \"make test\"\n" +
           std::string(more);
}

/// The only diagnostic, or one that says that there was not exactly one.
inline Diagnostic onlyDiagnostic(const LoadResult& result) {
    if (result.diagnostics.size() == 1) return result.diagnostics[0];
    Diagnostic none;
    none.message = "expected one diagnostic, got:\n" + renderDiagnostics(result.diagnostics, false);
    return none;
}

}  // namespace gradus
