#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/api/check.h"
#include "policies/language/pipeline.h"
#include "stages/sandbox/sandboxes.h"
#include "store/model/change_set.h"
#include "store/model/evidence.h"
#include "store/objects.h"

namespace gradus {

/// A tree that does not exist yet: a directory, and a change over it.
struct TreeUnderTest {
    std::filesystem::path project;     ///< where it is shown inside
    std::filesystem::path directory;   ///< what lies below: the tree that the stage holds, or its seed
    std::vector<std::string> leftOut;  ///< of the seed
    ChangeSet changes;
    /// What the verdicts are bound to, but for the check and the environment.
    Evidence evidence;
};

/// One check's answer, ready to be recorded.
struct CheckReport {
    std::string check;
    CheckAnswer answer;
    Digest fingerprint;  ///< Evidence::fingerprint()
};

/// What a face shows while checks run.
struct CheckProgress {
    std::function<void(const Check&)> started = [](const Check&) {};
    std::function<void(const Check&, Stream, std::string_view)> output = [](const Check&, Stream, std::string_view) {};
    std::function<void(const CheckReport&)> finished = [](const CheckReport&) {};
};

/// Runs the checks of a stage: those that come before in sandboxes over the resulting tree, those that come after
/// looking at what runs. In the order of their needs; one whose needs did not pass is not run and not reported. A check
/// that could not judge is tried again as often as its `retries` say; a no never is.
class CheckRunner {
  public:
    struct Surroundings {
        Sandboxes& sandboxes;
        Objects& objects;
        const std::map<std::string, std::shared_ptr<const CheckKind>>& kinds;  // shared: the registry's own
        const Clock& clock;
        /// A check's settings as a confined command: limits, network, guarantees, environment.
        std::function<CommandRequest(const Check& check, const Stage& stage)> confine;
        std::vector<std::string> hostEnvironment;
    };
    explicit CheckRunner(Surroundings surroundings);

    std::vector<CheckReport> before(const Pipeline& pipeline, const Stage& stage, const TreeUnderTest& tree,
                                    const CheckProgress& progress, std::stop_token cancel);
    /// `directory`: the tree that the stage shows now; host commands start there.
    std::vector<CheckReport> after(const Pipeline& pipeline, const Stage& stage, const std::filesystem::path& directory,
                                   const Evidence& evidence, const CheckProgress& progress, std::stop_token cancel);

  private:
    Surroundings around_;
};

/// All of them together: passed, or the worst: failed before cancelled before timed-out before errored.
Cause verdictOf(const std::vector<CheckReport>& reports);

}  // namespace gradus
