#include "stages/sandbox/clone_mounts.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>

#include "plugins/host/mounts.h"
#include "stages/sandbox/clone_user.h"
#include "store/model/error.h"
#include "tests/stages/sandbox/clone_fixture.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

int shellOut(const std::string& script) { return ::system(script.c_str()); }

TEST(CloneMounts, KnowsUsersByTheirLines) {
    const auto users = parseUsers("root:x:0:0:root:/root:/bin/bash\nann:x:1000:100::/home/ann:/bin/zsh\nodd\nx:y:z\n");
    ASSERT_EQ(users.size(), 2U);
    EXPECT_EQ(users[1].name, "ann");
    EXPECT_EQ(users[1].gid, 100U);
    EXPECT_EQ(users[1].home, "/home/ann");
    EXPECT_EQ(users[1].shell, "/bin/zsh");
}

TEST(CloneMounts, NamesFileSystemsThatCannotBeUsed) {
    EXPECT_EQ(unfitAsLower("/proc"), "procfs");
    EXPECT_EQ(unfitAsUpper("/sys"), "sysfs");
    EXPECT_EQ(unfitAsLower("/"), std::nullopt);
    EXPECT_TRUE(takesUserAttributes("/var/tmp"));
    EXPECT_FALSE(takesUserAttributes("/proc"));
}

class CloneOfMounts : public CloneTest {};

/// A mount of the test's own mount namespace, gone with it.
class Mounted {
  public:
    Mounted(const fs::path& target, const std::string& command) : target_(target) {
        made_ = shellOut(command + " '" + target.native() + "' 2>/dev/null") == 0;
    }
    ~Mounted() {
        if (made_) ::umount2(target_.c_str(), MNT_DETACH);
    }
    Mounted(const Mounted&) = delete;
    Mounted& operator=(const Mounted&) = delete;
    bool isThere() const { return made_; }

  private:
    fs::path target_;
    bool made_ = false;
};

TEST_F(CloneOfMounts, AMountBelowTheProjectHasACopyOfItsOwn) {
    GRADUS_CASES("OV38");
    if (!isRoot()) GTEST_SKIP() << "only root can mount something below the project";
    const FakeHome home(someone());
    const fs::path data = home.project() / "da ta";
    home.write("code/shop/da ta/x", "below\n");
    const Mounted mounted(data, "mount -t tmpfs none");
    ASSERT_TRUE(mounted.isThere());
    home.write("code/shop/da ta/file", "mounted\n");
    home.own(data);
    const ClonePlan plan = planClone(home.request());
    EXPECT_EQ(output(plan, "ls 'da ta'; cat 'da ta/file'; echo changed > 'da ta/file'; cat 'da ta/file'"),
              "file\nmounted\nchanged\n");
    std::ifstream file(data / "file");
    std::string text;
    std::getline(file, text);
    EXPECT_EQ(text, "mounted");
    EXPECT_EQ(plan.notOurs, std::vector<std::string>{"da ta"});
    EXPECT_EQ(plan.alsoKept.size(), 1U);
    EXPECT_TRUE(mentions(plan.notes, data.native())) << joined(plan.notes);
}

TEST_F(CloneOfMounts, AMountOfTheKernelIsEmptyAndAMountedFileReadOnly) {
    GRADUS_CASES("OV38");
    if (!isRoot()) GTEST_SKIP() << "only root can mount something below the project";
    const FakeHome home(someone());
    home.write("code/shop/p/x", "");
    home.write("code/shop/single", "old\n");
    home.write("code/other", "other\n");
    const Mounted proc(home.project() / "p", "mount -t proc none");
    const Mounted file(home.project() / "single", "mount --bind " + (home.path() / "code/other").native());
    ASSERT_TRUE(proc.isThere() && file.isThere());
    const ClonePlan plan = planClone(home.request());
    EXPECT_EQ(output(plan, "ls -A p; cat single; (echo x > single) 2>/dev/null || echo refused"), "other\nrefused\n");
    EXPECT_EQ(plan.notes.size(), 2U) << joined(plan.notes);
}

// The kernel locks mounts to what they lie in for everybody but root.
TEST_F(CloneOfMounts, AsAnOrdinaryUserAMountBelowIsRefusedByName) {
    GRADUS_CASES("OV38");
    if (isRoot()) GTEST_SKIP() << "for an ordinary user";
    CloneRequest request;
    request.project = request.directory = "/dev";  // it has mounts below it nearly everywhere
    request.environment = [](const std::string&) { return std::nullopt; };
    const auto below = mountsBelow(topmost(hostMounts()), "/dev");
    if (below.empty()) GTEST_SKIP() << "nothing is mounted below /dev";
    try {
        planClone(request);
        FAIL() << "planned";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(below.front().path.native()), std::string::npos) << error.what();
        EXPECT_NE(error.hint().find("umount"), std::string::npos);
    }
}

TEST_F(CloneOfMounts, ACacheWithAMountInItIsShownReadOnly) {
    if (!isRoot()) GTEST_SKIP() << "only root can mount";
    const FakeHome home(someone());
    home.write(".cargo/registry/x", "");
    const Mounted mounted(home.path() / ".cargo/registry", "mount -t tmpfs none");
    ASSERT_TRUE(mounted.isThere());
    home.write(".cargo/registry/index", "kept\n");
    const ClonePlan plan = planClone(home.request());
    EXPECT_EQ(output(plan, "cat ~/.cargo/registry/index; (echo x > ~/.cargo/y) 2>/dev/null || echo refused"),
              "kept\nrefused\n");
    EXPECT_TRUE(mentions(plan.notes, "/.cargo is shown read-only")) << joined(plan.notes);
}

struct DiskImage {
    const char* name;
    const char* make;
};
class CloneOnDisk : public CloneTest, public ::testing::WithParamInterface<DiskImage> {};

// And the file systems people have.
TEST_P(CloneOnDisk, TheProjectCanLieThereAndSoCanTheLayers) {
    GRADUS_CASES("OV39");
    if (!isRoot()) GTEST_SKIP() << "mounting a disk image needs root";
    const HostProject place(someone());
    const fs::path image = place.path() / "image";
    const fs::path disk = place.path() / "disk";
    const std::string quiet = " >/dev/null 2>&1";
    ASSERT_EQ(::mkdir(disk.c_str(), 0755), 0);
    const std::string tool = std::string(GetParam().make).substr(0, std::string(GetParam().make).find(' '));
    if (shellOut("PATH=$PATH:/usr/sbin:/sbin command -v " + tool + quiet) != 0)
        GTEST_SKIP() << tool << " is not installed";
    ASSERT_EQ(shellOut("truncate -s 400M " + image.native() + " && PATH=$PATH:/usr/sbin:/sbin " + GetParam().make +
                       " " + image.native() + quiet),
              0);
    const Mounted mounted(disk, "mount -o loop " + image.native());
    if (!mounted.isThere()) GTEST_SKIP() << "this kernel cannot mount " << GetParam().name << " from a loop device";
    ASSERT_EQ(::chmod(disk.c_str(), 0777), 0);
    {
        const FakeHome home(someone(), disk);
        for (const bool onDisk : {false, true}) {
            CloneRequest request = home.request();
            if (onDisk) {
                request.upper = disk / "upper";
                request.work = disk / "work";
                for (const fs::path& layer : {*request.upper, *request.work}) {
                    ASSERT_EQ(::mkdir(layer.c_str(), 0755), 0);
                    home.own(layer);
                }
                request.hiddenPaths = {disk / "upper", disk / "work"};
            }
            EXPECT_EQ(output(planClone(request),
                             "cat README.md; echo new > README.md; mkdir d && mv README.md d && cat d/README.md; ls"),
                      "hello\nnew\nd\n")
                << GetParam().name << (onDisk ? ", layers there too" : "");
            std::ifstream file(home.project() / "README.md");
            std::string text;
            std::getline(file, text);
            EXPECT_EQ(text, "hello");
        }
    }
}
INSTANTIATE_TEST_SUITE_P(FileSystems, CloneOnDisk,
                         ::testing::Values(DiskImage{"ext4", "mkfs.ext4 -q"}, DiskImage{"xfs", "mkfs.xfs -q"},
                                           DiskImage{"btrfs", "mkfs.btrfs -q"}),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

TEST_F(CloneOfMounts, TheProjectCanLieInMemory) {
    struct stat info {};
    if (::stat("/dev/shm", &info) != 0 || ::access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no /dev/shm";
    const FakeHome home(someone());
    if (!isRoot()) GTEST_SKIP() << "only root can mount something";
    const Mounted mounted(home.path() / "code", "mount -t tmpfs none");
    ASSERT_TRUE(mounted.isThere());
    home.write("code/shop/README.md", "in memory\n");
    EXPECT_EQ(output(planClone(home.request()), "cat README.md; rm -r ../shop/README.md; ls"), "in memory\n");
}

// As in a container.
TEST_F(CloneOfMounts, TheProjectCanLieOnAnOverlayButItsLayersCannot) {
    GRADUS_CASES("OV39");
    if (!isRoot()) GTEST_SKIP() << "only root can mount an overlay here";
    const FakeHome home(someone());
    const HostProject layers(someone());
    for (const char* name : {"l", "u", "w"}) ASSERT_EQ(::mkdir((layers.path() / name).c_str(), 0755), 0);
    const std::string base = layers.path().native();
    const Mounted mounted(home.path() / "code", "mount -t overlay none -o lowerdir=" + base + "/l,upperdir=" + base +
                                                    "/u,workdir=" + base + "/w");
    if (!mounted.isThere()) GTEST_SKIP() << "no overlay on this file system";
    home.write("code/shop/README.md", "stacked\n");
    CloneRequest request = home.request();
    EXPECT_EQ(output(planClone(request), "cat README.md; echo x > README.md; rm README.md; ls"), "stacked\n");
    request.upper = home.path() / "code";
    request.work = home.path() / "code";
    try {
        planClone(request);
        FAIL() << "planned";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("overlayfs"), std::string::npos) << error.what();
        EXPECT_NE(error.hint().find("GRADUS_HOME"), std::string::npos);
    }
}

sockaddr_un socketAddress(const fs::path& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.native().copy(address.sun_path, sizeof address.sun_path - 1);
    return address;
}

bool listenAt(int fd, const fs::path& path) {
    const sockaddr_un address = socketAddress(path);
    return ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 && ::listen(fd, 8) == 0 &&
           ::chmod(path.c_str(), 0777) == 0;
}

/// A socket that is listened on.
class Listener {
  public:
    explicit Listener(const fs::path& path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        EXPECT_TRUE(listenAt(fd_, path)) << path;
    }
    ~Listener() { ::close(fd_); }
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

  private:
    int fd_;
};

/// The same by a process with a network of its own, whose sockets /proc/net/unix does not name.
class ForeignListener {
  public:
    explicit ForeignListener(const fs::path& path) {
        int pipe[2];
        EXPECT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
        process_ = ::fork();
        if (process_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            const bool up = ::unshare(CLONE_NEWNET) == 0 && listenAt(::socket(AF_UNIX, SOCK_STREAM, 0), path);
            if (!up || ::write(pipe[1], "u", 1) != 1) ::_exit(1);
            for (;;) ::pause();
        }
        ::close(pipe[1]);
        char up = 0;
        EXPECT_EQ(::read(pipe[0], &up, 1), 1) << path;
        ::close(pipe[0]);
    }
    ~ForeignListener() {
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
    }
    ForeignListener(const ForeignListener&) = delete;
    ForeignListener& operator=(const ForeignListener&) = delete;

  private:
    pid_t process_ = -1;
};

/// A script that names each of the sockets that it can connect to.
std::string reaching(const std::vector<fs::path>& sockets) {
    std::string script = "for s in";
    for (const fs::path& path : sockets) script += " '" + path.native() + "'";
    return script +
           "; do /usr/bin/python3 -c 'import socket,sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])' $s "
           "2>/dev/null && echo reached $s; done; echo done";
}

// NW5: neither outside of the project nor in it can a host's socket be spoken to.
TEST_F(CloneOfMounts, SocketsOfTheHostCannotBeReached) {
    if (shellOut("command -v python3 >/dev/null") != 0) GTEST_SKIP() << "python3 is not installed";
    const FakeHome home(someone());
    const fs::path parent = isRoot() ? "/opt" : "/dev/shm";
    const HostProject place(someone(), parent);
    const Listener outside(place.path() / "s");
    const Listener inProject(home.project() / "s");
    const Listener inTools([&] {
        home.write(".nvm/x", "");
        return home.path() / ".nvm/s";
    }());
    const ClonePlan plan = planClone(home.request());
    const std::string script = reaching({place.path() / "s", home.project() / "s", home.path() / ".nvm/s"});
    EXPECT_EQ(output(plan, script), "done\n");
    // The proof that the question can be answered otherwise.
    EXPECT_NE(onHost(plan.environment, "/", script, plan.identity).find("reached"), std::string::npos);
}

class SocketsElsewhere : public CloneOfMounts, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Views, SocketsElsewhere, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "System" : "Plain"; });

// A container's view of its host's Docker: the socket was bound in another network, and is mounted where it is used.
TEST_P(SocketsElsewhere, WhatAnotherNetworkListensOnCannotBeReachedEither) {
    if (!isRoot()) GTEST_SKIP() << "only root can mount a socket somewhere else";
    if (shellOut("command -v python3 >/dev/null") != 0) GTEST_SKIP() << "python3 is not installed";
    const FakeHome home(someone());
    const HostProject place(someone(), "/opt");
    const HostProject hidden(someone(), "/run");
    const auto file = [](const fs::path& path) {
        std::ofstream{path};
        return path;
    };
    const fs::path direct = place.path() / "direct";
    const ForeignListener listening(direct);
    const ForeignListener elsewhere(hidden.path() / "s");
    const Listener own(hidden.path() / "own");
    const std::string bind = "mount --bind " + hidden.path().native();
    const fs::path mounted = file(place.path() / "mounted");
    const fs::path inProject = file(home.project() / "mounted");
    const fs::path directory = place.path() / "directory";
    fs::create_directory(directory);
    const Mounted one(mounted, bind + "/s");
    const Mounted two(inProject, bind + "/s");
    const Mounted three(directory, bind);
    ASSERT_TRUE(one.isThere() && two.isThere() && three.isThere());
    CloneRequest request = home.request();
    request.system = GetParam();
    const ClonePlan plan = planClone(request);
    const std::vector<fs::path> sockets{direct, mounted, inProject, directory / "s", directory / "own"};
    EXPECT_EQ(output(plan, reaching(sockets)), "done\n");
    const std::string outside = onHost(plan.environment, "/", reaching(sockets), plan.identity);
    for (const fs::path& socket : sockets)
        EXPECT_NE(outside.find(socket.native() + "\n"), std::string::npos) << outside;
}

}  // namespace
}  // namespace gradus
