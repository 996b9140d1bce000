// What a sandbox sees of the host while the host goes on living: names that are hidden stay hidden, sockets are out of
// reach, and root sees no more than others may.

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "store/file.h"
#include "tests/plugins/sandbox_fixture.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

class HostMountsTest : public SandboxTest {
  protected:
    HostMountsTest() : project_(someone()), host_(someone()) {}

    std::unique_ptr<Sandbox> openOver(const Workspace& workspace) {
        return backend().open(workspace, {}, Network::kNone, someone());
    }

    HostProject project_;
    HostProject host_;  ///< a directory of the host's, beside the project
};

/// A server of the host's.
class HostServer {
  public:
    explicit HostServer(const fs::path& path) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
        EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        EXPECT_EQ(::chmod(path.c_str(), 0777), 0);
        EXPECT_EQ(::listen(socket_.get(), 4), 0);
    }

  private:
    FileDescriptor socket_;
};

// As passwd does with /etc/shadow
TEST_F(HostMountsTest, AHiddenFileStaysHiddenWhenTheHostReplacesIt) {
    host_.write("shadow", "old secret");
    Workspace workspace = workspaceOf(project_);
    workspace.hidden = {host_.path() / "shadow"};
    const auto sandbox = openOver(workspace);
    const Command look = shell("cat " + (host_.path() / "shadow").native() + "; echo seen");
    EXPECT_EQ(sandbox->run(look).out.text(), "seen\n");
    host_.write("nshadow", "new secret");
    fs::rename(host_.path() / "nshadow", host_.path() / "shadow");
    EXPECT_EQ(sandbox->run(look).out.text(), "seen\n");
    fs::remove(host_.path() / "shadow");
    host_.write("shadow", "newest secret");
    EXPECT_EQ(sandbox->run(look).out.text(), "seen\n");
}

TEST_F(HostMountsTest, AHiddenFileOfAShownDirectoryStaysHiddenToo) {
    host_.write("token", "old secret");
    Workspace workspace = workspaceOf(project_);
    workspace.binds.push_back({host_.path(), "/run/shown", false});
    workspace.hidden = {"/run/shown/token"};
    const auto sandbox = openOver(workspace);
    const Command look = shell("cat /run/shown/token; cat /run/shown/README.md");
    EXPECT_EQ(sandbox->run(look).out.text(), "hello\n");
    host_.write("new", "new secret");
    fs::rename(host_.path() / "new", host_.path() / "token");
    EXPECT_EQ(sandbox->run(look).out.text(), "hello\n");
}

TEST_F(HostMountsTest, ASocketThatTheHostBindsLaterIsOutOfReach) {
    Workspace workspace = workspaceOf(project_);
    workspace.binds.push_back({host_.path() / "src", "/run/shown", false});
    const auto sandbox = openOver(workspace);
    EXPECT_EQ(sandbox->run(shell("true")).verdict, Verdict::kOk);
    const HostServer beside(host_.path() / "late");
    const HostServer shown(host_.path() / "src/late");
    const HostServer inProject(project_.path() / "late");
    for (const fs::path& path : {host_.path() / "late", fs::path("/run/shown/late"), project_.path() / "late"}) {
        const Outcome outcome = sandbox->run(guest({"reach", path.native()}));
        const std::string said = outcome.out.text();
        EXPECT_TRUE(said == "Connection refused\n" || said == "Permission denied\n") << path << "\n"
                                                                                     << describe(outcome);
    }
}

// One sandbox after another, and a jail may serve both: what was seen once is not what is seen for ever
TEST_F(HostMountsTest, ALaterSandboxSeesTheHostAsItIsThen) {
    const Command look = shell("cat " + (host_.path() / "file").native() + "; ls " + host_.path().native());
    for (const char* text : {"one", "two", "three"}) {
        host_.write("next", text);
        fs::rename(host_.path() / "next", host_.path() / "file");
        const auto sandbox = openOver(workspaceOf(project_));
        EXPECT_EQ(sandbox->run(look).out.text(), std::string(text) + "README.md\nfile\nsrc\n");
    }
}

// dpkg and apt take such locks
TEST_F(HostMountsTest, ALockInsideDoesNotBlockTheHost) {
    host_.write("lock", "");
    const auto sandbox = openOver(workspaceOf(project_));
    const FileDescriptor mine = openFile(host_.path() / "lock", O_RDONLY);
    ASSERT_EQ(::flock(mine.get(), LOCK_EX), 0);
    const Outcome outcome = sandbox->run(shell("flock -n " + (host_.path() / "lock").native() + " echo locked"));
    EXPECT_EQ(outcome.out.text(), "locked\n") << describe(outcome);
}

TEST_F(HostMountsTest, RootReadsOfTheHostWhatOthersMayRead) {
    if (!isRoot()) GTEST_SKIP() << "an ordinary user reads what its groups give it";
    const Identity root{0, 0};
    const HostProject project(root);
    const HostProject host(root);
    const HostProject shown(root);
    for (const HostProject* place : {&project, &host, &shown}) {
        place->write("secret", "secret\n");
        ASSERT_EQ(::chmod((place->path() / "secret").c_str(), 0600), 0);
        ASSERT_EQ(::chown((place->path() / "secret").c_str(), 0, 0), 0);
    }
    fs::create_directory(host.path() / "private");
    host.write("private/file", "secret\n");
    fs::permissions(host.path() / "private", fs::perms(0700));
    Workspace workspace = workspaceOf(project);
    workspace.binds.push_back({shown.path(), "/run/shown", false});
    const auto sandbox = backend().open(workspace, {}, Network::kNone, root);
    const Outcome outcome = sandbox->run(shell(
        "cd " + host.path().native() + "; cat secret private/file 2>/dev/null; cat README.md; cat /run/shown/secret " +
        (project.path() / "secret").native()));
    EXPECT_EQ(outcome.out.text(), "hello\nsecret\nsecret\n") << describe(outcome);
}

}  // namespace
}  // namespace gradus
