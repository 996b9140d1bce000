#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "plugins/api/isolation.h"
#include "plugins/isolation/namespaces.h"
#include "tests/plugins/host_counts.h"

namespace gradus {

/// A project of a few files on the host, owned by the user a sandbox runs as; removed at the end.
class HostProject {
  public:
    explicit HostProject(const Identity& owner, const std::filesystem::path& parent = "/var/tmp");
    ~HostProject();
    HostProject(const HostProject&) = delete;
    HostProject& operator=(const HostProject&) = delete;

    const std::filesystem::path& path() const { return path_; }
    void write(const std::string& name, const std::string& text) const;
    std::string read(const std::string& name) const;
    /// Every path below with type, mode, size and content.
    std::string fingerprint() const;

  private:
    Identity owner_;
    std::filesystem::path path_;
};

/// With GRADUS_TEST_BACKEND=process the suite looks at that backend, as far as it claims: there is no copy of anything.
bool isProcessBackend();
/// GRADUS_TEST_EMULATED: a machine whose processors are another's program. How long something takes there says nothing.
bool isEmulated();
/// How long a jail may take to answer before it counts as hanging.
Milliseconds jailPatience();
/// Where the program that tries things is inside.
std::string guestProgram();

/// With GRADUS_TEST_POOL=n jails are kept between sandboxes, with GRADUS_TEST_EXPECT they are started ahead of their
/// plan: other ways to the same boundary.
std::unique_ptr<IsolationBackend> makeBackend(const Clock& clock);

/// Contract tests speak to the extension point only; the backend behind it is made in one place.
class SandboxTest : public ::testing::Test {
  protected:
    void SetUp() override {
        before_ = countHost();
        backend_ = makeBackend(clock_);
        if (isProcessBackend()) requireReachable();
    }
    void TearDown() override;

    /// As root somebody else, so that being nobody special is what is tested; else oneself.
    static Identity someone();
    static bool isRoot();
    /// The backend process binds nothing: what someone() runs must be reachable where it lies.
    static void requireReachable();

    IsolationBackend& backend() { return *backend_; }
    /// An overlay of `project` at its own path, and the guest program at /run/guest.
    static Workspace workspaceOf(const HostProject& project);
    std::unique_ptr<Sandbox> open(const HostProject& project, const Limits& limits = {});

    static Command shell(const std::string& script, const std::filesystem::path& directory = "/");
    static Command guest(const std::vector<std::string>& arguments);
    /// Runs one script in a fresh sandbox over a fresh project.
    Outcome runShell(const std::string& script, const Limits& limits = {});
    Outcome runGuest(const std::vector<std::string>& arguments, const Limits& limits = {});

  private:
    SystemClock clock_;
    std::unique_ptr<IsolationBackend> backend_;
    HostCounts before_;
};

Limits limitsOf(std::initializer_list<std::pair<LimitName, std::uint64_t>> values);
const LimitReport& reportOf(const Outcome& outcome, LimitName name);

/// For messages: what a command said and how it ended.
std::string describe(const Outcome& outcome);

}  // namespace gradus
