#pragma once

#include <filesystem>
#include <functional>
#include <optional>
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

struct TreeUnderTest;
/// Of a command that was not found: which directory of the project it needs that the tree does not have, because git
/// ignores it, and what to do. Empty: none is known.
std::string absentText(const std::vector<std::string>& command, const TreeUnderTest& tree);

/// A tree that does not exist yet: a directory, and a change over it.
struct TreeUnderTest {
    std::filesystem::path project;     ///< where it is shown inside
    std::filesystem::path directory;   ///< what lies below: the tree that the stage holds, or its seed
    std::vector<std::string> leftOut;  ///< of the seed
    ChangeSet changes;
    const StandingBase* base = nullptr;  ///< instead of the directory, borrowed
    /// That any one check may take, whatever the rules allow; of processor time, all of them together.
    Limits atMost = {};
    /// Checks usually keep a machine busy by themselves; more at once would mostly wait for each other.
    std::size_t atOnce = 2;
    /// What the verdicts are bound to, but for the check and the environment.
    Evidence evidence;
    /// A digest of what must stand still below, as it is now: asked after every check, as asking may mean to look at
    /// every file. Where it is not `was`, the tree that was looked at is nobody's any more, and the verdict is void.
    /// Absent: what lies below never changes. Where it may, inode and change time of every file and directory that git
    /// does not ignore are compared as well: an edit that is gone again when the check ends was there all the same.
    std::function<Digest()> now;
    Digest was;  ///< as it was just before the first check
    /// The answer that was given to the same question before, where one may count. Absent: every check is run.
    std::function<std::optional<EarlierProof>(const Digest& asked)> proven = {};
    /// The resulting tree by its files alone, wherever it lies; asked only where something is built of it.
    std::function<Digest()> source = {};
    /// An earlier run that built something of exactly this, under guarantees that include these. Absent: every build is
    /// run, and what it builds now counts.
    std::function<std::optional<EarlierProof>(const Digest& builtOf, const std::vector<Guarantee>&)> built = {};
    /// Every check is run. What was built of exactly this stays all the same: a tree has one set of bytes.
    bool asksAll = false;
    /// What lies below, matches the patterns and is no part of the tree: left over from earlier builds.
    std::function<std::vector<std::string>(const std::vector<std::string>& patterns)> leftOver = {};
};

/// One check's answer, ready to be recorded.
struct CheckReport {
    std::string check;
    CheckAnswer answer;
    Evidence evidence;
    std::optional<Digest> log;  ///< answer.log, as an object
    int attempts = 1;
    bool moved = false;  ///< errored, because the tree below moved meanwhile: check again on what is there now
    /// Some of what git ignores, and was written while the checks ran: no part of the tree, and seen by them.
    std::vector<std::string> ignoredMoved = {};
    std::optional<Digest> asked = {};
    Digest definition = {};
    std::optional<EarlierProof> reused = {};   ///< it was not run: this is its answer
    std::optional<Digest> builtOf = {};        ///< of a check with outputs: the tree and the definition
    std::optional<EarlierProof> builtBy = {};  ///< it was run again, and what this one built stays

    /// What it built, now or then.
    std::optional<Digest> outputs() const {
        const auto& earlier = builder();
        return earlier ? earlier->result.outputs : answer.outputs;
    }
    /// The earlier run whose outputs count; nothing: its own do.
    const std::optional<EarlierProof>& builder() const { return builtBy ? builtBy : reused; }
    Digest fingerprint() const { return reused ? reused->result.evidence : evidence.fingerprint(); }
};

/// What a face shows while checks run: called one at a time, from any thread, while the runner works; not to be used
/// for calling the store.
struct CheckProgress {
    std::function<void(const Check&)> started = [](const Check&) {};
    std::function<void(const Check&, Stream, std::string_view)> output = [](const Check&, Stream, std::string_view) {};
    std::function<void(const CheckReport&)> finished = [](const CheckReport&) {};
};

/// Takes over what `most` has and what is absent or larger in `limits`.
void capLimits(Limits& limits, const Limits& most);
/// What one used is not there for the next; a little always is.
void spendTime(Limits& most, std::uint64_t cpuMillis);

/// Runs the checks of a stage: those that come before in sandboxes over the resulting tree, as many at once as it says,
/// those that come after, looking at what runs, one after the other. In the order of their needs; one whose needs did
/// not pass is not run and not reported. A check that could not judge is tried again as often as its `retries` say; a
/// no never is. Reports stand in the order of the stage's checks. Never throws for what a check does or demands.
class CheckRunner {
  public:
    struct Surroundings {
        Sandboxes& sandboxes;
        Objects& objects;
        const CheckKinds& kinds;
        std::vector<std::string> hostEnvironment;  ///< NAME=value, of the caller
    };
    explicit CheckRunner(Surroundings surroundings) : around_(std::move(surroundings)) {}

    std::vector<CheckReport> before(const Pipeline& pipeline, const Stage& stage, const TreeUnderTest& tree,
                                    const CheckProgress& progress, std::stop_token cancel);
    /// `directory`: the tree that the stage shows now; host commands start there.
    std::vector<CheckReport> after(const Pipeline& pipeline, const Stage& stage, const std::filesystem::path& directory,
                                   const Evidence& evidence, const CheckProgress& progress, std::stop_token cancel);

  private:
    Surroundings around_;
};

/// "unit: exit code 1; style: …": those that did not pass.
std::string failuresOf(const std::vector<CheckReport>& reports);

/// All of them together: passed, or the worst: failed before cancelled before timed-out before errored.
Cause verdictOf(const std::vector<CheckReport>& reports);

}  // namespace gradus
