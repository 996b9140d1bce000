// Transient sandboxes that write to disk, as an ordinary user's do before Linux 6.6.
#include "tests/stages/sandbox/sandboxes_fixture.h"

namespace gradus {
namespace {

/// The real one, and what it was last asked to open.
class WatchedBackend final : public IsolationBackend {
  public:
    explicit WatchedBackend(IsolationBackend& real) : real_(real) {}
    std::string_view name() const override { return real_.name(); }
    ProbeResult probe() override { return real_.probe(); }
    ProbeKey probeKey() const override { return real_.probeKey(); }
    std::unique_ptr<Sandbox> open(const Workspace& workspace, const Limits& limits, Network network,
                                  const Identity& identity) override {
        opened = workspace;
        return real_.open(workspace, limits, network, identity);
    }
    Workspace opened;

  private:
    IsolationBackend& real_;
};

class OnDiskTest : public SandboxesTest {
  protected:
    /// With a service whose data has one directory.
    CommandRequest withService(const std::string& script) const {
        ServiceRequest service;
        service.name = "db";
        service.run = {"/bin/sleep", "1000"};
        service.data = "data";
        service.prepare = {"/bin/sh", "-c", "mkdir data/table; echo seed > data/table/seed"};
        CommandRequest command = shell(script);
        command.services = {service};
        return command;
    }
    const Overlay* opened(const std::string& target) const {
        for (const Overlay& overlay : watched_.opened.overlays)
            if (overlay.target == project_.path() / target) return &overlay;
        return nullptr;
    }

    void TearDown() override {
        onDisk_.reset();
        SandboxesTest::TearDown();
    }

    WatchedBackend watched_{backend_};
    std::optional<Side> onDisk_{std::in_place, *this, &watched_, true};
};

const char* const kReplaceTheTable =
    "rm -r data/table && mkdir data/table && echo row > data/table/row && ls data/table";

TEST_F(OnDiskTest, TheDataOfServicesIsKeptWithTheSandbox) {
    TryRequest request = tryShell("", Afterwards::kKeep);
    request.command = withService(kReplaceTheTable);
    const Trial trial = onDisk_->sandboxes.attempt(request);
    EXPECT_EQ(trial.report().out.text(), "row\n") << describe(trial.report());
    ASSERT_TRUE(opened("data"));
    EXPECT_TRUE(opened("data")->upper) << "memory cannot hold the mark of a directory that was replaced";
    ASSERT_TRUE(trial.kept());
    const ExecutionReport later = sandboxes().exec(*trial.kept(), withService("cat data/table/*"));
    EXPECT_EQ(later.out.text(), "row\n") << describe(later);
    sandboxes().collect();
    expectConsistent();
}

TEST_F(OnDiskTest, TheDataOfAChecksServicesIsOnDiskAndGoesWithIt) {
    ResultingTree tree;
    tree.project = tree.directory = project_.path();
    const ExecutionReport report = onDisk_->sandboxes.runOver(tree, withService(kReplaceTheTable));
    EXPECT_EQ(report.out.text(), "row\n") << describe(report);
    ASSERT_TRUE(opened("data"));
    EXPECT_TRUE(opened("data")->upper);
    EXPECT_EQ(layerDirectories(), 0U);
    expectConsistent();
}

// In memory they are not kept either: what is kept of a failed check is its tree.
TEST_F(OnDiskTest, AFailedChecksSandboxIsKeptWithoutASecondCopy) {
    ResultingTree tree;
    tree.project = tree.directory = project_.path();
    CommandRequest command = withService("echo row > data/table/row; echo trace > trace; exit 1");
    command.keepFailed = Milliseconds(3'600'000);
    const ExecutionReport report = onDisk_->sandboxes.runOver(tree, command);
    ASSERT_TRUE(report.keptAs) << describe(report);
    for (const auto& entry : std::filesystem::directory_iterator(root() / "layers"))
        EXPECT_FALSE(std::filesystem::exists(entry.path() / "parts")) << entry.path();
    EXPECT_EQ(exec(*report.keptAs, "cat trace"), "trace\n");
    EXPECT_EQ(sandboxes().exec(*report.keptAs, withService("ls data/table")).out.text(), "seed\n");
    expectConsistent();
}

}  // namespace
}  // namespace gradus
