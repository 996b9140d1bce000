#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/pipeline/engine/engine_rig.h"

namespace gradus::test {

/// Something that steps change: a directory with a file for everything that was done, and a diary of who did what and
/// what production showed then.
class StepsWorld {
  public:
    explicit StepsWorld(const EngineRig& rig) : rig_(rig) {
        std::filesystem::create_directories(place());
        // Whatever runs writes down that it did, then does it; "undo" takes it back.
        std::ofstream(script()) << fmt::format(
            "#!/bin/sh\n"
            "shown=$(readlink {0}/current)\n"
            "if [ \"$GRADUS_ACTION\" != probe ]; then\n"
            "echo \"$GRADUS_ACTION $GRADUS_STEP $([ \"$GRADUS_TREE\" = \"{0}/$shown\" ] && echo new || echo old)\" >> "
            "{1}\n"
            "fi\n"
            "case $GRADUS_ACTION in\n"
            "run) echo \"$GRADUS_STEP_KEY\" > {2}/$GRADUS_STEP;;\n"
            "undo) rm -f {2}/$GRADUS_STEP;;\n"
            "probe) test -e {2}/$GRADUS_STEP; exit;;\n"
            "esac\n"
            "[ ! -e {2}/../fail-$GRADUS_ACTION-$GRADUS_STEP ]\n",
            rig.production().native(), diaryFile().native(), place().native());
        std::filesystem::permissions(script(), std::filesystem::perms::owner_all);
    }

    std::filesystem::path place() const { return rig_.outside() / "world"; }
    std::filesystem::path script() const { return rig_.outside() / "step"; }

    /// One step of production as it stands in the file.
    std::string step(const std::string& name, const std::string& more) const {
        return fmt::format("[[stage.production.step]]\nname = \"{}\"\nrun = [\"{}\"]\n{}\n", name, script().native(),
                           more);
    }
    std::string undo() const { return fmt::format("undo = [\"{}\"]\n", script().native()); }
    std::string probe() const { return fmt::format("idempotence = \"probe\"\nprobe = [\"{}\"]\n", script().native()); }

    void fail(const std::string& action, const std::string& name) const {
        std::ofstream(rig_.outside() / ("fail-" + action + "-" + name)) << "";
    }
    void mend(const std::string& action, const std::string& name) const {
        std::filesystem::remove(rig_.outside() / ("fail-" + action + "-" + name));
    }

    /// "run a old": what was done, in order.
    std::vector<std::string> diary() const {
        std::vector<std::string> lines;
        std::ifstream in(diaryFile());
        for (std::string line; std::getline(in, line);) lines.push_back(line);
        return lines;
    }
    /// How often that stands there, whatever was shown.
    std::size_t count(const std::string& what) const {
        const auto lines = diary();
        return static_cast<std::size_t>(std::count_if(
            lines.begin(), lines.end(), [&](const std::string& line) { return line.starts_with(what + " "); }));
    }
    bool isDone(const std::string& name) const { return std::filesystem::exists(place() / name); }

  private:
    std::filesystem::path diaryFile() const { return rig_.outside() / "diary"; }

    const EngineRig& rig_;
};

}  // namespace gradus::test
