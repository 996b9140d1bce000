#include <string>
#include <vector>

#include "pipeline/cli/host.h"
#include "pipeline/cli/run.h"
#include "pipeline/cli/verbs.h"
#include "plugins/checks/builtin.h"
#include "plugins/isolation/builtin.h"
#include "stages/drivers/builtin.h"
#include "store/model/utf8.h"

namespace {

gradus::Registry builtins() {
    gradus::Registry registry;
    gradus::addBuiltinChecks(registry);
    gradus::addBuiltinDrivers(registry);
    gradus::addBuiltinBackends(registry);
    return registry;
}

gradus::Backends makeBackends(const gradus::Registry& registry, const gradus::Clock& clock) {
    gradus::Backends all;
    for (const gradus::BackendMaker& backend : registry.backends()) all.push_back(backend.make(clock));
    return all;
}

}  // namespace

// The composition root: what the program is made of meets here and nowhere else.
int main(int argc, char** argv) {
    gradus::prepareProcess();
    gradus::ProcessHost host;
    gradus::SystemRandom random;
    gradus::Registry registry;
    const gradus::VerbTable verbs(gradus::allVerbs([&](gradus::Host& here) {
        registry = builtins();
        return gradus::Service(
            {.environment = [&here](const std::string& name) { return here.variable(name); },
             .clock = here.clock(),
             .random = random,
             .vocabulary = registry.vocabulary(),
             .checkKinds = registry.checkKinds(),
             .backends = [&registry, &here] { return makeBackends(registry, here.clock()); },
             .warn =
                 [&here](const std::string& text) { here.err().write("warning: " + gradus::printable(text) + "\n"); }});
    }));
    // A program can be started with no words at all, not even its own name.
    const std::vector<std::string> words(argc > 0 ? argv + 1 : argv, argv + argc);
    return gradus::runCommandLine(verbs, words, host);
}
