#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "plugins/checks/builtin.h"
#include "policies/language/loader.h"
#include "stages/drivers/builtin.h"

// Any bytes at all must give an answer: a pipeline, or errors that each say what to do next. The bytes are tried as a
// pipeline file, as a policy and as an administrator's ceiling.

namespace gradus {
namespace {

Vocabulary vocabularyOf() {
    Registry registry;
    addBuiltinChecks(registry);
    addBuiltinDrivers(registry);
    return registry.vocabulary();
}

void expectAnAnswer(const LoadResult& result) {
    if (result.pipeline.has_value() == hasErrors(result.diagnostics)) std::abort();
    for (const Diagnostic& diagnostic : result.diagnostics)
        if (diagnostic.message.empty() || diagnostic.hint.empty()) std::abort();
    renderDiagnostics(result.diagnostics, true);
    diagnosticsJson(result.diagnostics);
    if (!result.pipeline) return;
    effectiveRules(*result.pipeline);
    rulesDigest(*result.pipeline);
}

}  // namespace
}  // namespace gradus

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace gradus;
    static const Vocabulary vocabulary = vocabularyOf();
    static const std::string plain =
        "[pipeline]\nname = \"x\"\nstages = [\"sandbox\", \"local\"]\n[check.unit]\nrun = \"x\"\n";
    const std::string bytes(reinterpret_cast<const char*>(data), size);
    expectAnAnswer(load({{{kPipelineFile, bytes}}}, vocabulary, {}));
    expectAnAnswer(load({{{".gradus/policies/local.toml", bytes}, {kPipelineFile, plain}}}, vocabulary, {}));
    expectAnAnswer(load({{{kPipelineFile, plain}}}, vocabulary, {"/etc/gradus/ceiling.toml", bytes}));
    return 0;
}
