#include <sys/stat.h>

#include "tests/pipeline/end_to_end/sandbox_program.h"
#include "tests/support/case.h"
#include "tests/support/reach.h"

namespace gradus::test {

namespace {

namespace fs = std::filesystem;

constexpr const char* kSecret = "canary-6f1c2a";

/// A directory of the host's that is gone with its owner.
class HostPlace {
  public:
    HostPlace(const fs::path& parent, mode_t mode)
        : path_((parent / ("gradus-test-" + std::to_string(::getpid()))).native()) {
        fs::create_directory(path_);
        writeBytes(path_ / "secret", kSecret);
        ::chmod((path_ / "secret").c_str(), mode == 0755 ? 0644 : 0600);
        ::chmod(path_.c_str(), mode);
    }
    HostPlace(const HostPlace&) = delete;
    HostPlace& operator=(const HostPlace&) = delete;
    ~HostPlace() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    const fs::path& path() const { return path_; }

  private:
    fs::path path_;
};

std::size_t processesOf(uid_t uid, std::string_view name) {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator("/proc")) {
        struct stat info {};
        if (::stat(entry.path().c_str(), &info) != 0 || info.st_uid != uid) continue;
        if (bytesOf(entry.path() / "comm").starts_with(name)) ++count;
    }
    return count;
}

}  // namespace

class SystemTest : public SandboxProgramTest {
  protected:
    void SetUp() override {
        SandboxProgramTest::SetUp();
        if (IsSkipped()) return;
        // As udev leaves it on any machine that has one; here nobody may have.
        if (isOrdinary() && ::geteuid() == 0) ::chmod("/dev/fuse", 0666);
        const Ended possible = gradus({"try", "--system", "--discard", "--", "true"});
        if (possible.exit != 0) GTEST_SKIP() << possible.err;
    }
    bool isOrdinary() const { return GetParam() == As::kOrdinaryUser; }

    Ended inside(const std::string& script, Words options = {}) {
        options.insert(options.begin(), {"--system", "--discard"});
        return tried(script, options);
    }

    // An empty package but for one program and a script that runs when it is installed.
    void buildPackage() {
        writeBytes(project / "pack/DEBIAN/control",
                   "Package: gradus-test-tool\nVersion: 1.0\nArchitecture: all\nMaintainer: Ada <ada@example.org>\n"
                   "Description: says hello\n");
        writeBytes(project / "pack/DEBIAN/postinst", "#!/bin/sh\necho configured > /etc/gradus-test-tool.conf\n");
        writeBytes(project / "pack/usr/bin/gradus-test-tool", "#!/bin/sh\necho hello from the package\n");
        fs::permissions(project / "pack/DEBIAN/postinst", fs::perms(0755));
        fs::permissions(project / "pack/usr/bin/gradus-test-tool", fs::perms(0755));
        const Ended built = start({"dpkg-deb", "--root-owner-group", "-b", "pack", "x.deb"})->wait();
        ASSERT_EQ(built.exit, 0) << built.err;
        fs::remove_all(project / "pack");
    }
    static bool isInstalledOutside() {
        return fs::exists("/usr/bin/gradus-test-tool") || fs::exists("/etc/gradus-test-tool.conf") ||
               fs::exists("/var/lib/dpkg/info/gradus-test-tool.list");
    }
};

TEST_P(SystemTest, APackageIsInstalledInsideAndAbsentOutside) {
    if (!fs::exists("/usr/bin/apt-get")) GTEST_SKIP() << "there is no apt-get here";
    buildPackage();
    const Json tried = gradusJson({"try", "--system", "--", "apt-get", "install", "-y", "./x.deb"});
    ASSERT_TRUE(tried["ok"].get<bool>()) << tried.dump(1);
    const Json& data = tried["data"];
    EXPECT_EQ(data["execution"]["exit_code"], 0) << data["execution"]["stdout"] << data["execution"]["stderr"];
    EXPECT_TRUE(data["changes"].empty()) << "nothing of the system is part of a change: " << data["changes"];
    std::map<std::string, std::string> listed;
    for (const Json& path : data["system"]["paths"]) listed[path["path"]] = path["kind"];
    EXPECT_EQ(listed["/usr/bin/gradus-test-tool"], "added");
    EXPECT_EQ(listed["/etc/gradus-test-tool.conf"], "added");
    EXPECT_EQ(listed["/var/lib/dpkg/status"], "modified");
    EXPECT_EQ(data["system"]["entries"], listed.size());
    EXPECT_FALSE(isInstalledOutside());

    const std::string sandbox = data["sandbox"]["id"];
    EXPECT_EQ(gradus({"sandbox", "exec", sandbox, "--", "gradus-test-tool"}).out, "hello from the package\n");
    const Json shown = gradusJson({"sandbox", "show", sandbox})["data"]["sandbox"];
    EXPECT_EQ(shown["base"], "system");
    EXPECT_TRUE(has(gradus({"sandbox", "diff", sandbox}).out, "system: ")) << gradus({"sandbox", "diff", sandbox}).out;
    EXPECT_FALSE(isInstalledOutside());
    EXPECT_EQ(gradus({"sandbox", "rm", sandbox}).exit, 0);
}

TEST_P(SystemTest, HasExactlyWhatAPackageManagerNeeds) {
    GRADUS_CASES("PV2");
    const Ended ended = inside("id -u; grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status");
    EXPECT_EQ(ended.out,
              "0\nCapInh:\t0000000000000000\nCapPrm:\t00000000800400fb\nCapEff:\t00000000800400fb\n"
              "CapBnd:\t00000000800400fb\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n")
        << ended.err;
    const Json run = triedJson("true", {"--system", "--discard"})["execution"];
    EXPECT_EQ(run["backend"], "namespaces-system");
    for (const char* floor : {"no-network", "read-only-host", "private-processes", "kernel-filter"})
        EXPECT_NE(std::find(run["guarantees"].begin(), run["guarantees"].end(), floor), run["guarantees"].end())
            << floor;
}

TEST_P(SystemTest, NothingWrittenInsideIsWrittenOutside) {
    GRADUS_CASES("FS2");
    const std::string passwords = bytesOf("/etc/passwd");
    const std::string before = fingerprint();
    const Ended ended = inside(
        "set -e; echo x > /usr/bin/zz-gradus; echo x >> /etc/passwd; rm -rf /etc/alternatives; mkdir /zz-gradus; "
        "rm README.md; tail -1 /etc/passwd; ls -d /zz-gradus");
    EXPECT_EQ(ended.out, "x\n/zz-gradus\n") << ended.err;
    EXPECT_EQ(bytesOf("/etc/passwd"), passwords);
    EXPECT_FALSE(fs::exists("/usr/bin/zz-gradus"));
    EXPECT_FALSE(fs::exists("/zz-gradus"));
    EXPECT_TRUE(fs::exists("/etc/alternatives"));
    EXPECT_EQ(fingerprint(), before);
}

TEST_P(SystemTest, CredentialsOfTheMachineAreNotThere) {
    const Ended ended = inside(
        "cut -d: -f2 /etc/shadow | sort -u; for f in /etc/shadow- /etc/gshadow- /etc/ssh/ssh_host_*_key /etc/sudoers "
        "/etc/krb5.keytab; do if [ -s \"$f\" ]; then echo shown: $f; fi; done; for d in /root /home /etc/ssl/private "
        "/etc/sudoers.d /var/lib/docker /var/lib/containerd /var/spool/cron /var/backups /boot; do "
        "ls -A $d 2>/dev/null | grep -v \"^$(basename \"$HOME\")$\"; done; find / -xdev -type s 2>/dev/null | head -3");
    EXPECT_EQ(ended.out, "*\n") << ended.err;
}

TEST_P(SystemTest, TheStateAndTheTargetsOfStagesAreNotThere) {
    fs::create_directories(scratch / "target/current");
    writeBytes(scratch / "target/current/secret", kSecret);
    writeBytes(
        project / "gradus.toml",
        "[pipeline]\nname = \"shop\"\nstages = [\"sandbox\", \"production\"]\n\n[sandbox]\nbase = \"system\"\n\n"
        "[stage.production]\ndriver = \"release-directory\"\npath = \"../target\"\n\n[check.unit]\nrun = \"true\"\n");
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    const std::string looked =
        "id -u; ls -A " + state.native() + " " + (scratch / "target").native() + " 2>/dev/null | grep -v :; true";
    // By the rules alone: `base = "system"` makes it a copy of the system.
    const Ended ended = tried(looked, {"--discard"});
    EXPECT_TRUE(ended.out.starts_with("0\n")) << ended.out << ended.err;
    for (const char* shown : {"state.db", "current", "layers"}) EXPECT_FALSE(has(ended.out, shown)) << ended.out;
}

TEST_P(SystemTest, NoTrickUncoversWhatIsHidden) {
    GRADUS_CASES("FS18");
    const Ended ended = inside(
        "mount -t tmpfs none /mnt 2>/dev/null && echo mounted; mount --bind /etc /mnt 2>/dev/null && echo bound; "
        "umount -l /root 2>/dev/null && echo unmounted; umount /etc/sudoers 2>/dev/null && echo unmounted; "
        "rmdir /root 2>/dev/null && echo removed; mv /root /r2 2>/dev/null && ls -A /r2; "
        "ln /etc/sudoers /x 2>/dev/null && test -s /x && echo linked; "
        "unshare -m true 2>/dev/null && echo unshared; unshare -U true 2>/dev/null && echo unshared; "
        "mknod /dev2 b 254 0 2>/dev/null && echo device; mknod /wh c 0 0 2>/dev/null && echo forged; "
        "for p in /proc/[0-9]*; do ls -A $p/root/root $p/root/home 2>/dev/null | grep -v : | "
        "grep -v \"^$(basename \"$HOME\")$\" | grep .; cat $p/root/etc/sudoers 2>/dev/null; done; "
        "chroot / true && echo chroot-works; grep -o 'upperdir=[^,]*' /proc/self/mountinfo | cut -d= -f2 | "
        "while read d; do ls -d $d/etc 2>/dev/null; done; echo end");
    EXPECT_EQ(ended.out, "chroot-works\nend\n") << ended.err;
}

TEST_P(SystemTest, IsKeptSnapshottedRestoredAndForked) {
    const Json made = gradusJson({"sandbox", "new", "--system"});
    ASSERT_TRUE(made["ok"].get<bool>()) << made.dump(1);
    const std::string sandbox = made["data"]["sandbox"]["id"];
    const auto exec = [&](const std::string& which, const std::string& script) {
        return gradus({"sandbox", "exec", which, "--", "sh", "-c", script});
    };
    EXPECT_EQ(exec(sandbox, "echo one > /usr/share/gradus-test; rm /etc/profile; echo p > here").exit, 0);
    EXPECT_EQ(gradus({"sandbox", "snapshot", sandbox, "first"}).exit, 0);
    EXPECT_EQ(exec(sandbox, "echo two > /usr/share/gradus-test; cat here; test ! -e /etc/profile").out, "p\n");
    const Json forked = gradusJson({"sandbox", "fork", sandbox});
    const std::string fork = forked["data"]["sandboxes"][0]["id"];
    EXPECT_EQ(forked["data"]["sandboxes"][0]["base"], "system");
    EXPECT_EQ(gradus({"sandbox", "restore", sandbox, "first"}).exit, 0);
    EXPECT_EQ(exec(sandbox, "cat /usr/share/gradus-test; test -e /etc/profile || echo deleted").out, "one\ndeleted\n");
    EXPECT_EQ(exec(fork, "cat /usr/share/gradus-test; rm -r /usr/share/gradus-test; mkdir /usr/share/gradus-test").out,
              "two\n");
    const Json diff = gradusJson({"sandbox", "diff", fork})["data"];
    std::map<std::string, std::string> listed;
    for (const Json& path : diff["system"]["paths"]) listed[path["path"]] = path["kind"];
    EXPECT_EQ(listed,
              (std::map<std::string, std::string>{{"/etc/profile", "deleted"}, {"/usr/share/gradus-test", "added"}}));
    EXPECT_EQ(diff["changes"].size(), 1U);
    EXPECT_TRUE(fs::exists("/etc/profile"));
    EXPECT_EQ(gradus({"sandbox", "rm", sandbox, fork}).exit, 0);
}

TEST_P(SystemTest, OnlyTheProjectsPartIsApplied) {
    const Ended ended = tried("echo new > /usr/share/gradus-test; echo mine > mine", {"--system", "--apply"});
    EXPECT_EQ(ended.exit, 0) << ended.err;
    EXPECT_EQ(bytesOf(project / "mine"), "mine\n");
    EXPECT_FALSE(fs::exists("/usr/share/gradus-test"));
    EXPECT_TRUE(has(ended.err, "system: 1 entry below /usr; not part of the change")) << ended.err;
    EXPECT_TRUE(has(ended.err, "only the project's part goes on; the rest stays in")) << ended.out << ended.err;
}

TEST_P(SystemTest, ACheckRunsInACopyOfTheSystem) {
    writeBytes(project / "gradus.toml",
               "[pipeline]\nname = \"shop\"\nstages = [\"sandbox\"]\n\n[sandbox]\nbase = \"system\"\n\n[check.unit]\n"
               "run = [\"sh\", \"-c\", \"test $(id -u) = 0 && touch /usr/gradus-test && test -e /usr/gradus-test\"]\n");
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0);
    writeBytes(project / "README.md", "# Another\n");
    const Ended ended = gradus({"promote", "--to", "sandbox"});
    EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
    EXPECT_FALSE(fs::exists("/usr/gradus-test"));
}

TEST_P(SystemTest, WhatShowsItEndsWithItHoweverItEnds) {
    if (!isOrdinary()) GTEST_SKIP() << "as root the kernel shows it";
    EXPECT_EQ(processesOf(kOrdinaryUid, "fuse-overlayfs"), 0U);
    {
        const auto running = startCommand({GRADUS_PROGRAM, "try", "--system", "--", "sh", "-c", "echo up; sleep 600"});
        waitForUp(*running);
        EXPECT_EQ(processesOf(kOrdinaryUid, "fuse-overlayfs"), 1U);
        running->stop(SIGKILL);
    }
    for (int i = 0; i < 500 && processesOf(kOrdinaryUid, "fuse-overlayfs") > 0; ++i) ::usleep(10'000);
    EXPECT_EQ(processesOf(kOrdinaryUid, "fuse-overlayfs"), 0U);
}

INSTANTIATE_TEST_SUITE_P(, SystemTest, testing::Values(As::kSelf, As::kOrdinaryUser), nameOfUser);

/// What only root can arrange around the program.
class ArrangedSystem : public ProgramTest {
  protected:
    void SetUp() override {
        if (::geteuid() != 0) GTEST_SKIP() << "only root can arrange mounts";
        writeBytes(project / "README.md", "# Shop\n");
        ::chmod("/dev/fuse", 0666);
    }
    /// The program in a mount namespace of its own, after `arrangement`; as an ordinary user if `who` says so.
    Ended arranged(const std::string& arrangement, const std::string& who, const std::string& script) {
        const std::string words = arrangement + " && exec " + who + " " + GRADUS_PROGRAM +
                                  " try --system --discard -- sh -c '" + script + "'";
        return start({"unshare", "-m", "sh", "-c", words})->wait();
    }
    void give(uid_t uid) {
        if (!canOthersRun(GRADUS_PROGRAM)) GTEST_SKIP() << "only root can reach " << GRADUS_PROGRAM;
        fs::permissions(scratch.path(), fs::perms(0755));
        for (const auto& entry : fs::recursive_directory_iterator(scratch.path()))
            ASSERT_EQ(::lchown(entry.path().c_str(), uid, uid), 0);
        ASSERT_EQ(::chown(scratch.path().c_str(), uid, uid), 0);
    }
    static constexpr const char* kOrdinary = "setpriv --reuid=41235 --regid=41235 --clear-groups";
};

// Whatever others may not look into outside stays closed, though root of the copy could open it.
TEST_F(ArrangedSystem, WhatIsClosedOutsideIsClosedInside) {
    const HostPlace data("/var/lib", 0700);
    const HostPlace open("/srv", 0755);
    const HostPlace configuration("/etc", 0755);
    ::chmod((configuration.path() / "secret").c_str(), 0600);
    const Ended ended = arranged("true", "",
                                 "grep -rl canary /var/lib/gradus-test* /srv/gradus-test* /etc/gradus-test* "
                                 "2>/dev/null; ls -A " +
                                     data.path().native());
    EXPECT_EQ(ended.out, (open.path() / "secret").native() + "\n") << ended.err;
}

TEST_F(ArrangedSystem, AnotherWayToAHiddenPlaceIsHiddenToo) {
    const HostPlace roots("/root", 0700);
    const HostPlace mountPoint("/srv", 0755);
    const std::string at = mountPoint.path().native();
    const std::string look = "ls -A " + at + "; cat " + at + "/secret " + at + "/*/secret 2>/dev/null; echo end";
    // The hidden directory itself, a directory in it, and one that holds it.
    for (const std::string& what : {std::string("/root"), roots.path().native()}) {
        const Ended ended = arranged("mount --bind " + what + " " + at, "", look);
        EXPECT_EQ(ended.out, "end\n") << what << ended.err;
    }
    const Ended whole = arranged("mount --bind / " + at, "",
                                 "ls -A " + at + "/root; cat " + at + roots.path().native() +
                                     "/secret 2>/dev/null; "
                                     "test -s " +
                                     at + "/etc/shadow && grep -v \":[*]:\" " + at + "/etc/shadow; echo end");
    EXPECT_EQ(whole.out, "end\n") << whole.err;
}

TEST_F(ArrangedSystem, TheStateIsNotThereThoughItLiesInPlainView) {
    const HostPlace place("/srv", 0755);
    state = place.path() / "state";
    variables["GRADUS_HOME"] = state.native();
    const Ended ended = arranged("true", "", "cat " + place.path().native() + "/secret; ls -A " + state.native());
    EXPECT_EQ(ended.out, kSecret) << ended.err;
    EXPECT_TRUE(fs::exists(state / "state.db"));
}

TEST_F(ArrangedSystem, AFileSystemOfItsOwnHasItsOwnCopy) {
    const HostPlace place("/srv", 0755);
    const std::string at = place.path().native();
    const Ended ended = arranged("mount -t tmpfs none " + at + " && echo lower > " + at + "/file", "",
                                 "cat " + at + "/file; echo inside > " + at + "/file; cat " + at + "/file");
    EXPECT_EQ(ended.out, "lower\ninside\n") << ended.err;
    EXPECT_TRUE(has(ended.err, "system: 1 entry below /srv")) << ended.err;
}

TEST_F(ArrangedSystem, WithoutItsProgramAnOrdinaryUserIsTold) {
    give(41235);
    if (IsSkipped()) return;
    const Ended ended = arranged(
        "for f in /usr/bin/fuse-overlayfs /usr/local/bin/fuse-overlayfs; do "
        "test -e $f && mount --bind /dev/null $f; done; true",
        kOrdinary, "echo ran");
    EXPECT_EQ(ended.exit, 125);
    EXPECT_EQ(ended.out, "");
    EXPECT_TRUE(has(ended.err, "needs fuse-overlayfs, which is not installed")) << ended.err;
    EXPECT_TRUE(has(ended.err, "apt-get install fuse-overlayfs")) << ended.err;
}

TEST_F(ArrangedSystem, AUserWithIdsToGiveHasOthersInside) {
    if (::access("/usr/bin/newuidmap", X_OK) != 0) GTEST_SKIP() << "newuidmap is not installed";
    give(41235);
    if (IsSkipped()) return;
    writeBytes(scratch / "ids", "ada:300000:65536\n");
    writeBytes(scratch / "people", bytesOf("/etc/passwd") + "ada:x:41235:41235::/nonexistent:/bin/sh\n");
    const std::string ids = (scratch / "ids").native();
    const std::string people = (scratch / "people").native();
    const Ended ended =
        arranged("touch /etc/subuid /etc/subgid; mount --bind " + ids + " /etc/subuid && mount --bind " + ids +
                     " /etc/subgid && mount --bind " + people + " /etc/passwd",
                 kOrdinary,
                 "touch /usr/x && chown 33:33 /usr/x && echo given; "
                 "su nobody -s /bin/sh -c \"id -u\"");
    EXPECT_EQ(ended.out, "given\n65534\n") << ended.err;
}

}  // namespace gradus::test
