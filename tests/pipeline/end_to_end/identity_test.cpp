// A project that was moved, or mounted under another device's number, is the one that it was: also half-way.
#include "store/project_identity.h"
#include "tests/pipeline/end_to_end/troubled_program.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::bytesOf;
using test::Ended;
using test::has;
using test::Json;

class Identity : public test::TroubledProgram {
  protected:
    /// The first check after the change is in kills gradus; the next one fails, so recovering takes the change out.
    void rulesThatKill() {
        const fs::path mark = outside("killed", "");
        fs::remove(mark);
        rules("\"local\"", "[stage.local]\nchecks = [\"after\"]\n" +
                               afterCheck(fmt::format("grep -q v2 app.txt && test ! -e '{0}' && touch '{0}' && kill -9 "
                                                      "$PPID; grep -q v2 app.txt && exit 1; "
                                                      "exit 0",
                                                      mark.native())));
    }
    void killedHalfWay() {
        const Ended killed = gradus({"promote", changed("echo v2 > app.txt")});
        ASSERT_EQ(killed.exit, 137) << killed.out << killed.err;
        ASSERT_EQ(bytesOf(project / "app.txt"), "v2\n");
    }
    void expectRecovered() {
        EXPECT_TRUE(has(gradus({"status"}).out, "left by a process that ended")) << gradus({"status"}).out;
        const Ended recovered = gradus({"recover"});
        EXPECT_EQ(bytesOf(project / "app.txt"), "v1\n") << recovered.out << recovered.err;
        const Ended next = gradus({"promote", changed("echo u2 > lib/util.txt")});
        EXPECT_EQ(next.exit, 0) << next.out << next.err;
        EXPECT_EQ(bytesOf(project / "lib/util.txt"), "u2\n");
        expectWhole();
    }
    std::string birthless() { return identify(project).key.empty() ? "this file system keeps no time of birth" : ""; }
    void move() {
        const fs::path moved = scratch / "moved";
        fs::rename(project, moved);
        project = moved;
    }
};

INSTANTIATE_TEST_SUITE_P(Users, Identity, testing::Values(test::As::kSelf, test::As::kOrdinaryUser), test::nameOfUser);

TEST_P(Identity, AMovedProjectIsRecoveredWhereItIs) {
    if (const std::string why = birthless(); !why.empty()) GTEST_SKIP() << why;
    rulesThatKill();
    killedHalfWay();
    move();
    expectRecovered();
}

TEST_P(Identity, AMovedProjectWithoutGitIsRecoveredWhereItIs) {
    if (const std::string why = birthless(); !why.empty()) GTEST_SKIP() << why;
    rulesThatKill();
    fs::remove_all(project / ".git");
    killedHalfWay();
    move();
    expectRecovered();
}

TEST_P(Identity, ACopyOfWhatIsHalfDoneIsToldApartAndWaitsForIt) {
    if (const std::string why = birthless(); !why.empty()) GTEST_SKIP() << why;
    const fs::path mark = outside("killed", "");
    fs::remove(mark);
    // Killed where nothing can be told yet: the files are written, the stage's commands have not ended.
    rules("\"local\", \"production\"",
          release(
              fmt::format("activate = [\"sh\", \"-c\", \"test ! -e '{0}' && touch '{0}' && kill -9 $PPID; exit 0\"]\n",
                          mark.native())));
    const Ended killed = gradus({"promote", changed("echo v2 > app.txt")});
    ASSERT_EQ(killed.exit, 137) << killed.out << killed.err;
    const fs::path original = project;
    const fs::path copy = scratch / "copy";
    shell(fmt::format("cp -a '{}' '{}'", original.native(), copy.native()));
    project = copy;
    ASSERT_EQ(gradus({"trust", "--yes"}).exit, 0) << "another project, whose rules are not trusted yet";
    EXPECT_FALSE(has(gradus({"status"}).out, "left by a process that ended"));
    const Ended refused = gradus({"promote", changed("echo u2 > lib/util.txt")});
    EXPECT_NE(refused.exit, 0) << refused.out << refused.err;
    EXPECT_EQ(bytesOf(production / "current/app.txt"), "v2\n");
    project = original;
    EXPECT_EQ(gradus({"recover"}).exit, 0);
    expectWhole();
}

/// A file system in a file, mounted below `at` and gone with this.
class MountedImage {
  public:
    MountedImage(const fs::path& image, fs::path at) : image_(image), at_(std::move(at)) {
        fs::create_directories(at_);
        works_ = sh("truncate -s 64M '{0}' && mkfs.ext4 -q -F '{0}' && mount -o loop '{0}' '{1}'");
    }
    MountedImage(const MountedImage&) = delete;
    MountedImage& operator=(const MountedImage&) = delete;
    ~MountedImage() { sh("umount -l '{1}'; test ! -e '{0}-loop' || losetup -d $(cat '{0}-loop')"); }

    bool works() const { return works_; }
    /// What it was mounted through is another's now.
    bool mountAgain() const {
        return sh(
            "for i in $(seq 100); do umount '{1}' && break; sleep 0.1; done; ! mountpoint -q '{1}' && truncate -s 1M "
            "'{0}-other' && losetup -f --show '{0}-other' > '{0}-loop' && "
            "mount -o loop '{0}' '{1}'");
    }

  private:
    bool sh(std::string_view script) const {
        const std::string command = fmt::format(fmt::runtime(script), image_.native(), at_.native());
        return ::system(("PATH=$PATH:/usr/sbin:/sbin; { " + command + "; } > /dev/null 2>&1").c_str()) == 0;
    }
    fs::path image_;
    fs::path at_;
    bool works_ = false;
};

TEST_P(Identity, AProjectThatIsMountedUnderAnotherNumberIsRecovered) {
    if (GetParam() != test::As::kSelf || ::geteuid() != 0) GTEST_SKIP() << "only root mounts";
    const MountedImage image(scratch / "image", scratch / "mounted");
    if (!image.works()) GTEST_SKIP() << "no image can be mounted here";
    shell(fmt::format("cp -a . '{}/shop'", (scratch / "mounted").native()));
    project = scratch / "mounted/shop";
    rulesThatKill();
    killedHalfWay();
    const std::int64_t before = identify(project).device;
    ASSERT_TRUE(image.mountAgain());
    if (identify(project).device == before) GTEST_SKIP() << "the number stayed the same";
    EXPECT_FALSE(has(gradus({"status"}).out, "not trusted"));
    expectRecovered();
}

}  // namespace
}  // namespace gradus
