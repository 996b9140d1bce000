#include <string>
#include <vector>

#include "pipeline/cli/host.h"
#include "pipeline/cli/run.h"
#include "pipeline/cli/verbs.h"

// The composition root: what the program is made of meets here and nowhere else.
int main(int argc, char** argv) {
    gradus::prepareProcess();
    gradus::ProcessHost host;
    const gradus::VerbTable verbs(gradus::allVerbs());
    // A program can be started with no words at all, not even its own name.
    const std::vector<std::string> words(argc > 0 ? argv + 1 : argv, argv + argc);
    return gradus::runCommandLine(verbs, words, host);
}
