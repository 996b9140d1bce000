// Transient sandboxes: clone, run, look, decide.
#include <sys/mount.h>

#include "store/privilege.h"
#include "tests/stages/sandbox/sandboxes_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

class TrialTest : public SandboxesTest {
  protected:
    std::int64_t commits() { return store().sql().number("select count(*) from event where batch = 0").value_or(0); }
};

TEST_F(TrialTest, RunsListsAndDiscards) {
    const std::string before = project_.fingerprint();
    {
        const Trial trial = sandboxes().attempt(tryShell("echo hi; rm README.md; echo x > new; exit 3"));
        EXPECT_EQ(trial.report().execution.verdict, Verdict::kFailed);
        EXPECT_EQ(trial.report().execution.exitCode, 3);
        EXPECT_EQ(trial.report().out.text(), "hi\n");
        EXPECT_EQ(changedPaths(trial.changes()), (std::vector<std::string>{"-README.md", "+new"}));
        EXPECT_FALSE(trial.isOpen());
        EXPECT_FALSE(trial.kept());
    }
    EXPECT_EQ(project_.fingerprint(), before);
    EXPECT_EQ(records().sandbox(1)->ended, SandboxEnd::kDiscarded);
    const auto execution = records().execution(1);
    EXPECT_EQ(execution->state, ExecutionState::kFinished);
    EXPECT_EQ(execution->arguments.back(), "echo hi; rm README.md; echo x > new; exit 3");
    const Objects objects(state_.objects(), clock_);
    EXPECT_EQ(objects.readAll(*execution->out, 100), "hi\n");
    EXPECT_FALSE(execution->err);
    EXPECT_EQ(layerDirectories(), 0U) << "TX8, OV33: it was in memory alone";
    expectConsistent();
}

// What takes a mark on a directory: without it the kernel answers with an I/O error.
TEST_F(TrialTest, ADirectoryOfTheProjectCanBeRemovedAndReplaced) {
    const Trial trial =
        sandboxes().attempt(tryShell("rm -r src && mkdir src && echo x > src/only && ls src", Afterwards::kKeep));
    EXPECT_EQ(trial.report().out.text(), "only\n") << describe(trial.report());
    EXPECT_EQ(trial.report().execution.verdict, Verdict::kOk);
    EXPECT_EQ(changedPaths(trial.changes()), (std::vector<std::string>{"-src/main.c", "+src/only", "-src/util.c"}));
    ASSERT_TRUE(trial.kept());
    EXPECT_EQ(exec(*trial.kept(), "ls src; cat README.md"), "only\nhello\n");
    EXPECT_EQ(changedPaths(sandboxes().diff(*trial.kept())),
              (std::vector<std::string>{"-src/main.c", "+src/only", "-src/util.c"}));
    expectConsistent();
}

TEST_F(TrialTest, TakesTwoCommits) {
    sandboxes().attempt(tryShell("true"));
    const std::int64_t before = commits();
    sandboxes().attempt(tryShell("echo x > f"));
    EXPECT_EQ(commits() - before, 2);
    sandboxes().attempt(tryShell("echo x > f", Afterwards::kKeep));
    EXPECT_EQ(commits() - before, 4);
}

TEST_F(TrialTest, HasTheFloorAndSaysSo) {
    const Trial trial = sandboxes().attempt(tryShell("true"));
    const auto& guarantees = trial.report().execution.guarantees;
    for (const Guarantee floor :
         {Guarantee::kNoNetwork, Guarantee::kReadOnlyHost, Guarantee::kPrivateProcesses, Guarantee::kKernelFilter})
        EXPECT_NE(std::find(guarantees.begin(), guarantees.end(), floor), guarantees.end()) << guaranteeName(floor);
    EXPECT_EQ(std::find(guarantees.begin(), guarantees.end(), Guarantee::kMemoryLimit), guarantees.end())
        << "no limit was set";
    EXPECT_TRUE(trial.report().execution.without.empty());
    EXPECT_EQ(records().execution(1)->guarantees, guarantees);
}

TEST_F(TrialTest, TheHostsNetworkLowersTheFloorVisibly) {
    TryRequest request = tryShell("true");
    request.command.network = Network::kHost;
    const Trial trial = sandboxes().attempt(request);
    EXPECT_EQ(trial.report().execution.without, std::vector{Guarantee::kNoNetwork});
    const auto held = records().execution(1)->guarantees;
    EXPECT_EQ(std::find(held.begin(), held.end(), Guarantee::kNoNetwork), held.end());
    EXPECT_TRUE(
        store().sql().number("select 1 from event where kind = 'execution.started' and body like '%no-network%'"));
    request.command.required = {Guarantee::kNoNetwork};
    EXPECT_THROW(sandboxes().attempt(request), Error);
}

TEST_F(TrialTest, ANetworkByNameLowersTheFloorVisiblyAndIsRecorded) {
    TryRequest request = tryShell("echo x > new; echo y > /tmp/there; true");
    request.command.network = Network::byName({parseDestination("svc.test:443=127.0.0.1")});
    const Trial trial = sandboxes().attempt(request);
    EXPECT_EQ(trial.report().execution.verdict, Verdict::kOk);
    const auto execution = records().execution(1);
    EXPECT_EQ(execution->without, std::vector{Guarantee::kNoNetwork});
    EXPECT_EQ(execution->network, ExecutionNetwork::kByName);
    EXPECT_EQ(execution->destinations, std::vector<std::string>{"svc.test:443=127.0.0.1"});
    EXPECT_EQ(execution->sideEffects, trial.report().execution.sideEffects);
    EXPECT_EQ(execution->sideEffects.outsideWrites, std::vector<std::string>{"/tmp/there"})
        << "what is written in the project is its work";
    EXPECT_TRUE(execution->sideEffects.connectionsSeen);
    EXPECT_TRUE(store().sql().number(
        "select 1 from event where kind = 'execution.started' and body like '%no-network%' and body like '%by-name%'"));
    request.command.required = {Guarantee::kNoNetwork};
    EXPECT_THROW(sandboxes().attempt(request), Error);
    expectConsistent();
}

/// Proves what the real one does, but for one thing.
class WeakBackend final : public IsolationBackend {
  public:
    explicit WeakBackend(IsolationBackend& real) : real_(real) {}
    std::string_view name() const override { return "weak"; }
    ProbeResult probe() override {
        ProbeResult result = real_.probe();
        for (Proof& proof : result.proofs)
            if (proof.guarantee == Guarantee::kKernelFilter) proof = {proof.guarantee, false, "no seccomp", "buy one"};
        return result;
    }
    ProbeKey probeKey() const override { return real_.probeKey(); }
    std::unique_ptr<Sandbox> open(const Workspace& workspace, const Limits& limits, Network network,
                                  const Identity& identity) override {
        ++opened;
        return real_.open(workspace, limits, network, identity);
    }
    int opened = 0;

  private:
    IsolationBackend& real_;
};

TEST_F(TrialTest, NeverRunsWeakerThanDemanded) {
    WeakBackend weak(backend_);
    Side side(*this, &weak);
    try {
        side.sandboxes.attempt(tryShell("true"));
        FAIL() << "it ran";
    } catch (const Error& e) {
        EXPECT_NE(std::string(e.what()).find("kernel-filter"), std::string::npos) << e.what();
        EXPECT_EQ(e.hint(), "buy one");
    }
    EXPECT_EQ(weak.opened, 0);
    TryRequest lowered = tryShell("true");
    lowered.command.without = {Guarantee::kKernelFilter};
    EXPECT_EQ(side.sandboxes.attempt(lowered).report().execution.verdict, Verdict::kOk);
}

// It would be missing from the record, and nothing would be allowed for it
TEST_F(TrialTest, DoesNotGiveUpAFilterThatIsThereAllTheSame) {
    TryRequest request = tryShell("true");
    request.command.without = {Guarantee::kKernelFilter};
    try {
        sandboxes().attempt(request);
        FAIL() << "it ran";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::kNotAllowed);
        EXPECT_NE(std::string(e.what()).find("filters system calls all the same"), std::string::npos) << e.what();
    }
}

TEST_F(TrialTest, ThatCannotBeSetUpLeavesARecordAndNothingElse) {
    GRADUS_CASES("L1", "L10");
    struct Failing final : IsolationBackend {
        explicit Failing(IsolationBackend& other) : real(other) {}
        std::string_view name() const override { return "failing"; }
        ProbeResult probe() override { return real.probe(); }
        ProbeKey probeKey() const override { return real.probeKey(); }
        std::unique_ptr<Sandbox> open(const Workspace&, const Limits&, Network, const Identity&) override {
            throw SetupError({"overlay", ENOSPC, "no room"});
        }
        IsolationBackend& real;
    } failing(backend_);
    Side side(*this, &failing);
    EXPECT_THROW(side.sandboxes.attempt(tryShell("true", Afterwards::kKeep)), SetupError);
    EXPECT_EQ(records().sandbox(1)->ended, SandboxEnd::kFailed);
    EXPECT_EQ(records().execution(1)->verdict, Verdict::kSetupFailed);
    EXPECT_EQ(layerDirectories(), 0U);
    const SandboxRecord kept = createKept();
    EXPECT_THROW(side.sandboxes.exec(kept.id, shell("true")), SetupError);
    EXPECT_EQ(records().execution(2)->verdict, Verdict::kSetupFailed);
    EXPECT_EQ(exec(kept.id, "echo ok"), "ok\n") << "the next one works";
    expectConsistent();
}

TEST_F(TrialTest, ACommandThatIsNotThereIsAnAnswer) {
    TryRequest request = tryShell("");
    request.command.arguments = {"/no/such/program"};
    const Trial trial = sandboxes().attempt(request);
    EXPECT_EQ(trial.report().execution.verdict, Verdict::kSetupFailed);
    EXPECT_TRUE(trial.report().failure);
    EXPECT_EQ(records().execution(1)->verdict, Verdict::kSetupFailed);
}

TEST_F(TrialTest, ALimitIsEnforcedAndReported) {
    TryRequest request = tryShell("sleep 60");
    request.command.limits[LimitName::kWallTime] = Limit{100, true};
    const Trial trial = sandboxes().attempt(request);
    EXPECT_EQ(trial.report().execution.verdict, Verdict::kTimeout);
    const auto limits = records().execution(1)->limits;
    ASSERT_EQ(limits.size(), 1U);
    EXPECT_TRUE(limits.front().tripped);
}

TEST_F(TrialTest, IsCancelledAndStreams) {
    std::stop_source stop;
    TryRequest request = tryShell("echo ready; sleep 60");
    request.command.cancel = stop.get_token();
    std::string streamed;
    request.command.live = [&](Stream, std::string_view text) {
        streamed += text;
        stop.request_stop();
    };
    EXPECT_EQ(sandboxes().attempt(request).report().execution.verdict, Verdict::kKilled);
    EXPECT_EQ(streamed, "ready\n");
}

const char* const kManyKinds =
    "mkdir -p d/e; echo deep > d/e/f; ln -s README.md link; ln d/e/f hard; chmod 0 src/util.c; touch -d @1000000000 "
    "old; "
    "truncate -s 1M holes; echo end >> holes; mkfifo pipe; chmod 0751 d; mkdir shut; echo in > shut/in; chmod 0 shut; "
    "rm README.md; rm -r src; mkdir src; echo again > src/main.c";

TEST_F(TrialTest, KeptItGoesOnWhereItWas) {
    GRADUS_CASES("OV32", "TX13");
    std::int64_t id = 0;
    {
        Trial trial = sandboxes().attempt(tryShell(kManyKinds, Afterwards::kAsk));
        ASSERT_TRUE(trial.isOpen());
        ASSERT_EQ(trial.report().execution.verdict, Verdict::kOk) << describe(trial.report());
        EXPECT_EQ(records().execution(1)->state, ExecutionState::kFinished);
        id = trial.keep("tried");
        EXPECT_THROW(trial.keep("again"), Error);
        EXPECT_EQ(trial.kept(), id);
    }
    EXPECT_EQ(sandboxes().find("tried")->id, id);
    EXPECT_EQ(
        exec(id,
             "test ! -e README.md; cat d/e/f src/main.c; ls src; readlink link; stat -c %a d shut; chmod 700 shut; "
             "cat shut/in; stat -c %Y old; stat -c '%s %b' holes; stat -c %h hard; stat -c %F pipe"),
        "deep\nagain\nmain.c\nREADME.md\n751\n0\nin\n1000000000\n1048580 8\n2\nfifo\n");
    expectConsistent();
}

TEST_F(TrialTest, IsKeptHoweverDeepItsDirectoriesAre) {
    const Trial trial = sandboxes().attempt(
        tryShell("echo w > precious; i=0; while [ $i -lt 600 ]; do mkdir d; cd d; i=$((i+1)); done; echo end > end; "
                 "chmod 750 .; touch -d @1000000000 .",
                 Afterwards::kKeepChanged));
    ASSERT_EQ(trial.report().execution.verdict, Verdict::kOk) << describe(trial.report());
    EXPECT_EQ(trial.changes().changes.changes().size(), 602U);
    ASSERT_TRUE(trial.kept());
    EXPECT_EQ(exec(*trial.kept(),
                   "cat precious; i=0; while [ $i -lt 600 ]; do cd d; i=$((i+1)); done; cat end; "
                   "stat -c '%a %Y' .; ls ..; stat -c %a .."),
              "w\nend\n750 1000000000\nd\n755\n");
    sandboxes().remove(*trial.kept());
    sandboxes().collect();
    expectConsistent();
}

TEST_F(TrialTest, IsKeptOnlyIfSomethingChangedWhenSoAsked) {
    EXPECT_FALSE(sandboxes().attempt(tryShell("true", Afterwards::kKeepChanged)).kept());
    EXPECT_TRUE(sandboxes().attempt(tryShell("echo > x", Afterwards::kKeepChanged)).kept());
    EXPECT_FALSE(sandboxes().attempt(tryShell("true", Afterwards::kAsk)).isOpen());
    { const Trial undecided = sandboxes().attempt(tryShell("echo > x", Afterwards::kAsk)); }
    EXPECT_EQ(records().sandbox(4)->ended, SandboxEnd::kDiscarded);
    EXPECT_EQ(sandboxes().list().size(), 1U);
}

TEST_F(TrialTest, ATakenNameIsRefusedBeforeAnythingRuns) {
    createKept("taken");
    for (const Afterwards afterwards : {Afterwards::kKeep, Afterwards::kKeepChanged, Afterwards::kAsk}) {
        TryRequest request = tryShell("echo > x", afterwards);
        request.name = "taken";
        EXPECT_THROW(sandboxes().attempt(request), Error);
    }
    EXPECT_FALSE(records().sandbox(2));
    EXPECT_FALSE(records().execution(1));
    TryRequest discarded = tryShell("echo > x", Afterwards::kDiscard);
    discarded.name = "taken";
    EXPECT_NO_THROW(sandboxes().attempt(discarded)) << "nothing will have the name";
    expectConsistent();
}

TEST_F(TrialTest, ANameGivenAwayMeanwhileCostsOnlyTheName) {
    Side other(*this);
    TryRequest request = tryShell("echo work > x; echo ran", Afterwards::kKeep);
    request.name = "taken";
    request.command.live = [&](Stream, std::string_view) {
        CreateRequest create;
        create.project = project_.path();
        create.name = "taken";
        other.sandboxes.create(create);
    };
    const Trial trial = sandboxes().attempt(request);
    ASSERT_TRUE(trial.kept());
    EXPECT_FALSE(records().sandbox(*trial.kept())->name);
    ASSERT_FALSE(trial.report().notes.empty());
    EXPECT_EQ(trial.report().notes.back(), "sandbox s2 is called 'taken' by now, so this one has no name");
    EXPECT_EQ(records().execution(1)->state, ExecutionState::kFinished);
    EXPECT_EQ(exec(*trial.kept(), "cat x"), "work\n");
    expectConsistent();
}

TEST_F(TrialTest, ThatCouldNotBeKeptCanBeKeptAfterAll) {
    createKept("taken");
    for (const bool onDisk : {false, true}) {
        Side side(*this, nullptr, onDisk);
        Trial trial = side.sandboxes.attempt(tryShell("echo work > x", Afterwards::kAsk));
        EXPECT_THROW(trial.keep("taken"), Error);
        ASSERT_TRUE(trial.isOpen());
        const std::int64_t id = trial.keep(std::nullopt);
        EXPECT_EQ(exec(id, "cat x"), "work\n") << (onDisk ? "on disk" : "in memory");
    }
    sandboxes().collect();
    expectConsistent();
}

TEST_F(TrialTest, NamesAreJudged) {
    for (const char* bad : {"s7", "@", "-x", "a b", "a/b", ".x", "deadbeef", "\x1b[2J", "\xff"})
        EXPECT_THROW(createKept(bad), Error) << bad;
    EXPECT_NO_THROW(createKept("fix-login_2.x"));
}

// The whole form is a thousand.
TEST_F(TrialTest, ManyTrialsLeaveNothing) {
    GRADUS_CASES("R12");
    const int rounds = std::getenv("GRADUS_LONG") != nullptr ? 1000 : 30;
    sandboxes().attempt(tryShell("true"));
    const HostCounts before = countHost();
    for (int round = 0; round < rounds; ++round)
        ASSERT_EQ(sandboxes().attempt(tryShell("echo x > f; (sleep 100 &)")).report().execution.verdict, Verdict::kOk);
    EXPECT_EQ(countHost(), before);
    EXPECT_EQ(layerDirectories(), 0U);
    EXPECT_TRUE(records().living(SandboxKind::kTransient).empty());
}

TEST_F(TrialTest, MoreThanCanBeListedIsKeptAndSaidSo) {
    GRADUS_CASES("FS20");
    TryRequest request = tryShell("for i in $(seq 40); do echo $i > f$i; done; rm README.md", Afterwards::kKeepChanged);
    request.mostChanges = 20;
    for (const Afterwards afterwards : {Afterwards::kKeepChanged, Afterwards::kAsk}) {
        request.afterwards = afterwards;
        const Trial trial = sandboxes().attempt(request);
        ASSERT_TRUE(trial.unread());
        EXPECT_EQ(*trial.unread(), "file count limit: more than 20 paths were changed");
        EXPECT_TRUE(trial.changes().changes.empty());
        EXPECT_EQ(trial.report().execution.verdict, Verdict::kOk);
        ASSERT_TRUE(trial.kept());
        EXPECT_EQ(exec(*trial.kept(), "ls | wc -l; cat f40"), "41\n40\n");
    }
    request.afterwards = Afterwards::kDiscard;
    const Trial discarded = sandboxes().attempt(request);
    EXPECT_TRUE(discarded.unread());
    EXPECT_FALSE(discarded.kept());
    EXPECT_FALSE(discarded.isOpen());
    expectConsistent();
}

// A guarantee about a limit is kept by that limit: one without a value, or one that is merely watched, would be less.
TEST_F(TrialTest, AGuaranteeAboutALimitInsistsOnTheLimit) {
    TryRequest request = tryShell("true");
    request.command.required = {Guarantee::kDiskLimit};
    EXPECT_THROW(sandboxes().attempt(request), Error);
    request.command.limits[LimitName::kDisk] = Limit{8U << 20, false};
    const Trial trial = sandboxes().attempt(request);
    const auto& guarantees = trial.report().execution.guarantees;
    EXPECT_NE(std::find(guarantees.begin(), guarantees.end(), Guarantee::kDiskLimit), guarantees.end());
}

// What cannot be kept says why, and leaves nothing half kept.
TEST_F(TrialTest, ADiskThatIsFullIsNamedAsTheReason) {
    if (!isMachineRoot()) GTEST_SKIP() << "only root can mount a small disk";
    sandboxes().attempt(tryShell("true", Afterwards::kKeep));
    ASSERT_EQ(::mount("none", root().c_str(), "tmpfs", 0, "size=4m,mode=0700"), 0);
    std::string reason;
    try {
        sandboxes().attempt(tryShell("head -c 8000000 /dev/zero | tr '\\0' x > big", Afterwards::kKeep));
    } catch (const Error& error) {
        reason = error.what();
    }
    EXPECT_NE(reason.find("No space left on device"), std::string::npos) << reason;
    EXPECT_EQ(layerDirectories(), 0U);
    EXPECT_EQ(records().sandbox(2)->ended, SandboxEnd::kDiscarded);
    EXPECT_EQ(records().execution(2)->state, ExecutionState::kFinished) << "it did run to its end";
    EXPECT_EQ(::umount(root().c_str()), 0);
}

TEST_F(TrialTest, WhereNothingCanBeKeptNothingRuns) {
    if (!isMachineRoot()) GTEST_SKIP() << "only root can mount a small disk";
    sandboxes().attempt(tryShell("true", Afterwards::kKeep));
    ASSERT_EQ(::mount("none", root().c_str(), "tmpfs", 0, "size=300k,mode=0700"), 0);
    std::string reason;
    try {
        sandboxes().attempt(tryShell("echo work > done", Afterwards::kKeep));
    } catch (const Error& error) {
        reason = error.what();
    }
    EXPECT_NE(reason.find("no space to keep a sandbox"), std::string::npos) << reason;
    EXPECT_FALSE(records().execution(2).has_value()) << "the work was done and lost";
    EXPECT_TRUE(sandboxes().attempt(tryShell("true", Afterwards::kDiscard)).report().execution.success());
    EXPECT_EQ(::umount(root().c_str()), 0);
}

}  // namespace
}  // namespace gradus
