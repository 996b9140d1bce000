#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "plugins/isolation/namespaces.h"
#include "stages/sandbox/sandboxes.h"
#include "store/audit_verify.h"
#include "tests/plugins/sandbox_fixture.h"
#include "tests/support/known_proofs.h"
#include "tests/support/sample_store.h"

namespace gradus {

/// A project, a state directory on the same disk, and the real backend; time stands still unless it is moved. With
/// GRADUS_TEST_ON_DISK transient sandboxes write to disk, as they do where memory cannot hold an ordinary user's
/// layers.
class SandboxesTest : public ::testing::Test {
  protected:
    SandboxesTest();
    void TearDown() override;

    /// A Sandboxes with a store of its own, as another process would have.
    struct Side {
        explicit Side(SandboxesTest& test, IsolationBackend* backend = nullptr,
                      std::optional<bool> onDisk = onDiskIfAsked());
        std::optional<Store> store;
        std::vector<std::string> warnings;
        Sandboxes sandboxes;
    };
    static std::optional<bool> onDiskIfAsked();
    Sandboxes& sandboxes() { return side_->sandboxes; }
    SandboxRecords records();
    Store& store();

    CommandRequest shell(const std::string& script) const;
    TryRequest tryShell(const std::string& script, Afterwards afterwards = Afterwards::kDiscard) const;
    SandboxRecord createKept(const std::string& name = "");
    /// Runs it in the kept sandbox and gives what it printed; fails the test unless it succeeded.
    std::string exec(std::int64_t sandbox, const std::string& script);
    /// Everything that can be seen of the project inside, as text.
    std::string seen(std::int64_t sandbox);
    std::vector<std::string> changedPaths(const Harvest& harvest) const;

    std::filesystem::path root() const { return state_.root / "sandboxes"; }
    std::filesystem::path layer(std::int64_t id) const { return root() / "layers" / ("l" + std::to_string(id)); }
    std::size_t layerDirectories() const;
    /// Every living sandbox has its layers, nothing else is there, and the tables follow from the events.
    void expectConsistent();

    static std::string describe(const ExecutionReport& report);

    SystemClock systemClock_;
    test::FakeClock clock_;
    SystemRandom random_;
    HostProject place_;  ///< holds the state; gone with the test, whatever modes are in it
    HostProject project_;
    StateDirectory state_;
    std::optional<test::KnownProofs> proofs_;
    NamespacesBackend backend_;
    std::optional<Side> side_;
    HostCounts before_;
};

Identity projectOwner();

}  // namespace gradus
