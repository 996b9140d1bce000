// The contract every backend that claims a boundary is held to: what of the host is in view, and what can be written.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "store/file.h"
#include "store/model/digest.h"
#include "store/privilege.h"
#include "tests/plugins/sandbox_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

class WorkspaceView : public SandboxTest {};

TEST_F(WorkspaceView, AMissingSourceIsNamedAndNothingRuns) {
    GRADUS_CASES("NS10");
    const HostProject project(someone());
    Workspace workspace = workspaceOf(project);
    workspace.binds.push_back({"/no/such/source", "/opt", false});
    try {
        backend().open(workspace, {}, Network::kNone, someone());
        FAIL() << "a missing source was accepted";
    } catch (const SetupError& error) {
        EXPECT_EQ(error.failure().step, "bind");
        EXPECT_EQ(error.failure().error, ENOENT);
        EXPECT_NE(std::string(error.what()).find("/no/such/source"), std::string::npos);
    }
}

TEST_F(WorkspaceView, AMissingSourceMarkedOptionalIsSkipped) {
    GRADUS_CASES("NS25");
    const HostProject project(someone());
    Workspace workspace = workspaceOf(project);
    workspace.binds.push_back({"/no/such/source", "/run/optional", true});
    const auto sandbox = backend().open(workspace, {}, Network::kNone, someone());
    EXPECT_EQ(sandbox->run(shell("test ! -e /run/optional")).verdict, Verdict::kOk);
}

TEST_F(WorkspaceView, MadeDirectoriesHaveTheModesAskedFor) {
    GRADUS_CASES("NS12");
    const HostProject project(someone());
    Workspace workspace = workspaceOf(project);
    workspace.directories = {{"/home/someone", 0700}, {"/run/odd", 01741}, {"/home/a/b/c", 0755}};
    workspace.binds.push_back({"/etc/hostname", "/home/file", false});
    const auto sandbox = backend().open(workspace, {}, Network::kNone, someone());
    const Outcome outcome = sandbox->run(shell(
        "stat -c %a /home/someone /run/odd /home/a /home/a/b /home/a/b/c /tmp /run; touch /home/someone/x && echo "
        "written; touch /home/x /home/a/x 2>/dev/null || echo refused"));
    EXPECT_EQ(outcome.out.text(), "700\n1741\n755\n755\n755\n1777\n755\nwritten\nrefused\n") << describe(outcome);
}

TEST_F(WorkspaceView, AFileOfItsOwnHasItsBytesAndCanBeReplaced) {
    const HostProject project(someone());
    Workspace workspace = workspaceOf(project);
    workspace.directories = {{"/home/someone", 0700}};
    workspace.files = {{"/home/someone/.config/tool", "line\n", 0640}};
    const auto sandbox = backend().open(workspace, {}, Network::kNone, someone());
    const Outcome outcome =
        sandbox->run(shell("cd /home/someone/.config; cat tool; stat -c '%a %u' tool; echo more >> tool && cat tool"));
    EXPECT_EQ(outcome.out.text(), fmt::format("line\n640 {}\nline\nmore\n", someone().uid)) << describe(outcome);
}

TEST_F(WorkspaceView, TheWayToAFileOfItsOwnIsTheCommandsAsWell) {
    const HostProject project(someone());
    Workspace workspace = workspaceOf(project);
    workspace.directories = {{"/home/someone", 0700}, {"/home/someone/other", 0700}};
    workspace.files = {{"/home/someone/.config/deep/tool", "a", 0600}, {"/home/someone/other/tool", "b", 0444}};
    const auto sandbox = backend().open(workspace, {}, Network::kNone, someone());
    const Outcome outcome = sandbox->run(
        shell("cd /home/someone; stat -c %u .config .config/deep other; mv .config/deep/tool .config/new && cat "
              ".config/new other/tool; rm -f other/tool; ls other"));
    EXPECT_EQ(outcome.out.text(), fmt::format("{0}\n{0}\n{0}\nab", someone().uid)) << describe(outcome);
}

// Over a file that the project has, at a place that it has not, and where the host shows nothing.
TEST_F(WorkspaceView, AFileOfItsOwnBelowAnOverlayIsNoChange) {
    const HostProject project(someone());
    Workspace workspace = workspaceOf(project);
    workspace.files = {{project.path() / "README.md", "own\n", 0640},
                       {project.path() / "new/deep/note", "note\n", 0600},
                       {"/boot/covered", "hidden\n", 0444}};
    const auto sandbox = backend().open(workspace, {}, Network::kNone, someone());
    const std::string before = project.fingerprint();
    const Outcome outcome = sandbox->run(shell(
        "cat README.md new/deep/note /boot/covered; stat -c '%a %u' README.md; echo more >> README.md && cat README.md",
        project.path()));
    EXPECT_EQ(outcome.out.text(), fmt::format("own\nnote\nhidden\n640 {}\nown\nmore\n", someone().uid))
        << describe(outcome);
    EXPECT_TRUE(std::filesystem::is_empty("/proc/self/fd/" + std::to_string(sandbox->upper(0))));
    EXPECT_EQ(project.fingerprint(), before);
}

TEST_F(WorkspaceView, NoStagingPlaceIsInView) {
    GRADUS_CASES("NS19");
    const Outcome outcome = runShell(
        "ls -A /tmp; cut -d' ' -f2 /proc/self/mounts | grep -E 'scratch|hidden|workshop|/tmp/root' ; ls -d /tmp/root "
        "/tmp/scratch /.old* 2>/dev/null; echo done");
    EXPECT_EQ(outcome.out.text(), "done\n") << describe(outcome);
}

TEST_F(WorkspaceView, NothingOutsideTheWorkspaceCanBeWritten) {
    GRADUS_CASES("NS20", "FS2", "OV27");
    const HostProject project(someone());
    const HostProject other(someone());
    const std::string before = other.fingerprint();
    const std::string passwd = sha256(readSmallFile("/etc/passwd", 1U << 20, "a file")).hex();
    const Outcome outcome = open(project)->run(shell(
        fmt::format(
            "for f in /usr/bin/zz /etc/passwd /x /var/x /opt/x /home/x {0}/README.md {0}/new "
            "/proc/sys/kernel/hostname; "
            "do (echo x >> $f) 2>/dev/null && echo wrote $f; done; ln -s {0}/README.md link; (echo x > link) "
            "2>/dev/null && echo through; rm {0}/README.md 2>/dev/null && echo removed; chmod 777 {0} 2>/dev/null "
            "&& echo mode; echo done",
            other.path().native()),
        project.path()));
    EXPECT_EQ(outcome.out.text(), "done\n") << describe(outcome);
    EXPECT_EQ(other.fingerprint(), before);
    EXPECT_EQ(sha256(readSmallFile("/etc/passwd", 1U << 20, "a file")).hex(), passwd);
}

// Memory marks a replaced directory for an ordinary user since Linux 6.6 only: before, whoever opens a sandbox gives it
// layers on disk.
bool memoryTakesMarks() {
    char value = 0;
    return isMachineRoot() || ::getxattr("/dev/shm", "user.overlay.opaque", &value, 1) >= 0 || errno != EOPNOTSUPP;
}

// The real project is never touched, whatever happens to the clone.
TEST_F(WorkspaceView, TheProjectIsByteIdenticalAfterEverythingInItWasDestroyed) {
    GRADUS_CASES("OV27", "NS26", "FS17");
    const HostProject project(someone());
    project.write(".git/HEAD", "ref: refs/heads/main\n");
    const std::string before = project.fingerprint();
    const HostProject layers(someone());
    Workspace workspace = workspaceOf(project);
    if (!memoryTakesMarks()) {
        workspace.overlays[0].upper = layers.path() / "upper";
        workspace.overlays[0].work = layers.path() / "work";
        for (const auto& layer : {workspace.overlays[0].upper, workspace.overlays[0].work})
            fs::create_directory(*layer);
    }
    const auto sandbox = backend().open(workspace, {}, Network::kNone, someone());
    const Outcome outcome = sandbox->run(shell(
        "ln README.md hard; mv src/main.c src/moved.c; echo pwned > .git/HEAD; chmod 600 src/util.c; rm -rf -- * .git; "
        "mkdir src; echo new > src/only; ls -A . src",
        project.path()));
    EXPECT_EQ(outcome.out.text(), ".:\nsrc\n\nsrc:\nonly\n") << describe(outcome);
    // The next command of the same sandbox sees what the last one left.
    EXPECT_EQ(sandbox->run(shell("cat src/only", project.path())).out.text(), "new\n");
    EXPECT_EQ(project.fingerprint(), before);
}

// The upper can be read while the sandbox is open: this is where changes are harvested from.
TEST_F(WorkspaceView, ShowsWhatChangedInTheUpperDirectory) {
    const HostProject project(someone());
    const auto sandbox = open(project);
    sandbox->run(shell("echo new > added; rm README.md", project.path()));
    struct stat info {};
    ASSERT_EQ(::fstatat(sandbox->upper(0), "added", &info, 0), 0);
    EXPECT_EQ(info.st_uid, someone().uid);  // E4, PV5
    EXPECT_EQ(info.st_gid, someone().gid);
    ASSERT_EQ(::fstatat(sandbox->upper(0), "README.md", &info, AT_SYMLINK_NOFOLLOW), 0);
    EXPECT_TRUE(S_ISCHR(info.st_mode)) << "a deletion is a mark in the upper";
    EXPECT_NE(::fstatat(sandbox->upper(0), "src", &info, 0), 0) << "what was not touched is not there";
}

TEST_F(WorkspaceView, LayersOnDiskKeepTheirChangesBetweenSandboxes) {
    const HostProject project(someone());
    const HostProject layers(someone());
    for (const char* name : {"upper", "work", "work2"}) {
        ASSERT_EQ(::mkdir((layers.path() / name).c_str(), 0755), 0);
        ASSERT_EQ(::chown((layers.path() / name).c_str(), someone().uid, someone().gid), 0);
    }
    Workspace workspace = workspaceOf(project);
    workspace.overlays[0].upper = layers.path() / "upper";
    workspace.overlays[0].work = layers.path() / "work";
    backend().open(workspace, {}, Network::kNone, someone())->run(shell("echo kept > file", project.path()));
    EXPECT_EQ(layers.read("upper/file"), "kept\n");
    // A disposable layer carries a mark in its work directory; a fresh one takes it up again.
    workspace.overlays[0].work = layers.path() / "work2";
    const auto again = backend().open(workspace, {}, Network::kNone, someone());
    EXPECT_EQ(again->run(shell("cat file", project.path())).out.text(), "kept\n");
}

TEST_F(WorkspaceView, StacksSeveralLowerLayers) {
    const HostProject project(someone());
    const HostProject middle(someone());
    fs::remove_all(middle.path() / "src");
    middle.write("README.md", "from the middle\n");
    Workspace workspace = workspaceOf(project);
    workspace.overlays[0].lowers = {middle.path(), project.path()};
    const auto sandbox = backend().open(workspace, {}, Network::kNone, someone());
    EXPECT_EQ(sandbox->run(shell("cat README.md; ls src", project.path())).out.text(),
              "from the middle\nmain.c\nutil.c\n");
}

// Nothing in a path is special.
TEST_F(WorkspaceView, PathsWithOddCharactersWork) {
    GRADUS_CASES("OV25");
    const HostProject outer(someone());
    const fs::path odd = outer.path() / "a:b,c\\d e\nf'\"";
    ASSERT_EQ(::mkdir(odd.c_str(), 0755), 0);
    ASSERT_EQ(::chown(odd.c_str(), someone().uid, someone().gid), 0);
    Workspace workspace;
    workspace.overlays.push_back({odd, {odd}, std::nullopt, std::nullopt, true});
    const auto sandbox = backend().open(workspace, {}, Network::kNone, someone());
    const Outcome outcome = sandbox->run(shell("echo x > -n; ls; pwd", odd));
    EXPECT_EQ(outcome.out.text(), "-n\n" + odd.native() + "\n") << describe(outcome);
}

TEST_F(WorkspaceView, AProjectBelowTmpIsShownThere) {
    const HostProject project(someone(), "/tmp");
    const Outcome outcome =
        open(project)->run(shell("ls /tmp | wc -l; cat README.md; echo x > README.md", project.path()));
    EXPECT_EQ(outcome.out.text(), "1\nhello\n") << describe(outcome);
    EXPECT_EQ(project.read("README.md"), "hello\n");
}

// The narrower rule wins in both directions.
TEST_F(WorkspaceView, TheNarrowerRuleWins) {
    GRADUS_CASES("NS24");
    const HostProject project(someone());
    project.write("a/secret", "x");
    project.write("a/b/file", "y\n");
    Workspace workspace = workspaceOf(project);
    workspace.hidden.push_back(project.path() / "a");
    const fs::path inner = project.path() / "a/b";
    workspace.overlays.push_back({inner, {inner}, std::nullopt, std::nullopt, true});
    const auto sandbox = backend().open(workspace, {}, Network::kNone, someone());
    const Outcome outcome = sandbox->run(shell(
        "ls a; cat a/b/file; echo z > a/b/file && cat a/b/file; touch a/x 2>/dev/null && echo wrote; cat a/secret "
        "2>/dev/null; echo done",
        project.path()));
    EXPECT_EQ(outcome.out.text(), "b\ny\nz\ndone\n") << describe(outcome);
}

TEST_F(WorkspaceView, HiddenPathsAreEmptyInsideAndUntouchedOutside) {
    GRADUS_CASES("OV30");
    const HostProject project(someone());
    project.write(".env", "TOKEN=1\n");
    project.write("keys/id", "private\n");
    Workspace workspace = workspaceOf(project);
    workspace.hidden = {project.path() / ".env", project.path() / "keys", project.path() / "not/there"};
    const std::string before = project.fingerprint();
    const auto sandbox = backend().open(workspace, {}, Network::kNone, someone());
    const Outcome outcome = sandbox->run(shell(
        "wc -c < .env; ls -A keys | wc -l; umount keys 2>/dev/null && echo uncovered; mv keys k2 2>/dev/null && ls k2",
        project.path()));
    EXPECT_EQ(outcome.out.text(), "0\n0\n") << describe(outcome);
    EXPECT_EQ(project.fingerprint(), before);
}

TEST_F(WorkspaceView, DevicesCannotBeMade) {
    GRADUS_CASES("NS21", "FS16");
    const Outcome outcome = runShell(
        "mknod w c 0 0 2>/dev/null && echo whiteout; mknod k c 1 1 2>/dev/null && echo kmem; mknod b b 8 0 2>/dev/null "
        "&& "
        "echo disk; mkfifo fifo && echo fifo; mknod /tmp/w c 0 0 2>/dev/null && echo whiteout");
    EXPECT_EQ(outcome.out.text(), "fifo\n") << describe(outcome);
}

TEST_F(WorkspaceView, TheRootCannotBeLeft) {
    GRADUS_CASES("FS3");
    const Outcome outcome = runShell(
        "cd ../../../../../../.. && pwd; chroot . /bin/true 2>/dev/null && echo chroot; ls -d "
        "/proc/1/root/home 2>/dev/null; echo done");
    EXPECT_EQ(outcome.out.text(), "/\ndone\n") << describe(outcome);
}

TEST_F(WorkspaceView, ThePlacesOfTheKernelCannotBeTheWorkingDirectory) {
    GRADUS_CASES("FS5");
    const HostProject project(someone());
    const auto sandbox = open(project);
    for (const char* directory : {"/proc/self/fd/7", "/dev/fd/3", "/sys", "relative", "/a/../b"}) {
        const Outcome outcome = sandbox->run(shell("true", directory));
        EXPECT_EQ(outcome.verdict, Verdict::kSetupFailed) << directory;
    }
}

TEST_F(WorkspaceView, MountsCannotBeChangedFromInside) {
    GRADUS_CASES("FS18");
    const Outcome outcome = runShell(
        "mkdir mnt; mount --bind / mnt 2>/dev/null && echo bound; umount /proc/kallsyms 2>/dev/null && echo unmasked; "
        "umount -l "
        "/proc 2>/dev/null && echo unmounted; mount -o remount,rw / 2>/dev/null && echo writable; wc -c < "
        "/proc/kallsyms");
    EXPECT_EQ(outcome.out.text(), "0\n") << describe(outcome);
}

TEST_F(WorkspaceView, DevicesOfEverydayUseWork) {
    GRADUS_CASES("OV35");
    Command command = shell(
        "echo gone > /dev/null; head -c 3 /dev/zero | wc -c; head -c 2 /dev/urandom | wc -c; echo x > /dev/full || "
        "echo full; "
        "echo out > /dev/stdout; cat /dev/stdin; echo err > /dev/stderr; bash -c 'cat <(echo substituted)'; test -w "
        "/dev/shm && echo shm; python3 -c 'import os; os.openpty(); print(\"pty\")'");
    command.input = "in\n";
    const HostProject project(someone());
    const Outcome outcome = open(project)->run(command);
    EXPECT_EQ(outcome.out.text(), "3\n2\nfull\nout\nin\nsubstituted\nshm\npty\n") << describe(outcome);
    EXPECT_NE(outcome.err.text().find("err\n"), std::string::npos);
}

TEST_F(WorkspaceView, TheWorkingDirectoryIsTheSamePathAsOutside) {
    GRADUS_CASES("OV37");
    const HostProject project(someone());
    const Outcome outcome = open(project)->run(shell("pwd; pwd -P; echo $(cat README.md)", project.path()));
    EXPECT_EQ(outcome.out.text(), fmt::format("{0}\n{0}\nhello\n", project.path().native())) << describe(outcome);
}

// A mount below the project would be missing in the overlay; that is said, not shown as emptiness.
TEST_F(WorkspaceView, ANestedMountIsRefusedByNameUnlessThePlanSaysWhatToDo) {
    GRADUS_CASES("OV38");
    if (!isRoot()) GTEST_SKIP() << "only root can mount something below the project";
    const HostProject project(someone());
    project.write("data/file", "x");
    const fs::path data = project.path() / "data";
    ASSERT_EQ(::system(("mount -t tmpfs none " + data.native() + " && chmod 777 " + data.native()).c_str()), 0);
    std::string message;
    try {
        open(project);
    } catch (const SetupError& error) {
        message = error.what();
    }
    Workspace workspace = workspaceOf(project);
    workspace.overlays.push_back({data, {data}, std::nullopt, std::nullopt, true});
    const Outcome outcome = backend()
                                .open(workspace, {}, Network::kNone, someone())
                                ->run(shell("echo inside > data/x; ls data", project.path()));
    const bool clean = fs::is_empty(data);
    ASSERT_EQ(::system(("umount " + data.native()).c_str()), 0);
    EXPECT_NE(message.find(data.native()), std::string::npos) << message;
    EXPECT_EQ(outcome.out.text(), "x\n") << describe(outcome);
    EXPECT_TRUE(clean) << "the mount below was written";
}

TEST_F(WorkspaceView, ABadPlanIsRefusedInWords) {
    const HostProject project(someone());
    const auto refusal = [&](auto change) -> std::string {
        Workspace workspace = workspaceOf(project);
        change(workspace);
        try {
            backend().open(workspace, {}, Network::kNone, someone());
        } catch (const SetupError& error) {
            return error.what();
        }
        return "accepted";
    };
    const auto contains = [](const std::string& text, const char* part) {
        return text.find(part) != std::string::npos;
    };
    EXPECT_TRUE(contains(refusal([](Workspace& w) { w.overlays[0].target = "relative"; }), "absolute path"));
    EXPECT_TRUE(contains(refusal([](Workspace& w) { w.overlays[0].target = "/a/../b"; }), "normal form"));
    EXPECT_TRUE(contains(refusal([](Workspace& w) { w.overlays[0].target = "/proc/x"; }), "/proc"));
    EXPECT_TRUE(contains(refusal([](Workspace& w) { w.overlays[0].lowers.clear(); }), "lower"));
    EXPECT_TRUE(contains(refusal([](Workspace& w) { w.overlays.push_back(w.overlays[0]); }), "twice"));
    EXPECT_TRUE(contains(refusal([](Workspace& w) { w.overlays[0].lowers = {"/no/such"}; }), "/no/such"));
    EXPECT_TRUE(contains(refusal([](Workspace& w) { w.overlays[0].upper = "/tmp/u"; }), "belong together"));
    EXPECT_TRUE(contains(refusal([](Workspace& w) { w.hostname = ""; }), "host name"));
}

}  // namespace
}  // namespace gradus
