// A disk without room, at every point at which it can run out.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include "store/audit_verify.h"
#include "store/ballast.h"
#include "store/file.h"
#include "tests/store/crash_rig.h"
#include "tests/store/own_mounts.h"
#include "tests/support/case.h"
#include "tests/support/sample_store.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;
using test::Acknowledged;
using test::Climb;
using test::someSubmission;

std::uintmax_t step() { return static_cast<std::uintmax_t>(test::roundsOf(8, 4)); }

/// A small disk of its own, gone with the test, and with the process should the test die.
class SmallDisk {
  public:
    SmallDisk() {
        test::enterOwnMounts();
        if (::mount("tmpfs", root().c_str(), "tmpfs", 0, "size=16m,mode=0700") != 0)
            throw std::runtime_error("cannot mount a tmpfs: " + errnoText(errno));
    }
    ~SmallDisk() { ::umount2(root().c_str(), MNT_DETACH); }
    const fs::path& root() const { return directory_.path(); }

    void fillUpTo(std::uintmax_t left) const {
        freeAll();
        const auto room = fs::space(root()).available;
        const FileDescriptor filler = openFile(fillerPath(), O_RDWR | O_CREAT);
        const auto taken = static_cast<off_t>(room - std::min(room, left));
        EXPECT_TRUE(taken == 0 || ::posix_fallocate(filler.get(), 0, taken) == 0);
    }
    void freeAll() const { fs::remove(fillerPath()); }

  private:
    fs::path fillerPath() const { return root() / "filler"; }
    test::ScratchDirectory directory_;
};

class FullDiskTest : public testing::Test {
  protected:
    void SetUp() override {
        if (::geteuid() != 0) GTEST_SKIP() << "mounting a small disk needs root";
        disk = std::make_unique<SmallDisk>();
    }
    Store open() const { return Store::openForWriting({disk->root() / "state"}, {.clock = clock, .random = random}); }
    static AuditVerdict verify(Store& store) { return verifyAudit(store.sql(), store.anchor()); }

    /// False if there was no room. Any other fault fails the test.
    static bool submit(Store& store, const Climb& climb, std::vector<Acknowledged>& acknowledged,
                       Store::Urgency urgency = Store::Urgency::kRoutine) {
        Acknowledged commit{0, 0, "change " + std::to_string(acknowledged.size())};
        try {
            store.write(
                [&](Writer& w) {
                    commit.change = w.submit(climb.project, climb.actor, someSubmission(commit.title));
                    climb.stage(w, commit.change, "staging", PromotionState::kPromoted);
                    commit.seq = w.counts().events;
                },
                urgency);
        } catch (const FullDisk&) {
            return false;
        }
        acknowledged.push_back(commit);
        return true;
    }

    std::unique_ptr<SmallDisk> disk;
    test::FakeClock clock;
    mutable test::FakeRandom random;
};

TEST_F(FullDiskTest, FailsARoutineWriteClearlyAndChangesNothing) {
    GRADUS_CASES("CR6");
    Store store = open();
    const Climb climb = Climb::begin(store);
    const auto before = store.records().counts().events;
    disk->fillUpTo(0);
    try {
        store.write([&](Writer& w) { climb.whole(w, "no room"); });
        FAIL() << "written on a full disk";
    } catch (const FullDisk& e) {
        EXPECT_NE(std::string(e.what()).find("no space left for " + store.state().database().native()),
                  std::string::npos);
        EXPECT_NE(e.hint().find("nothing was changed"), std::string::npos);
    }
    EXPECT_EQ(store.records().counts().events, before);
    EXPECT_EQ(verify(store).kind, Tampering::kNone) << verify(store).detail;
    EXPECT_TRUE(Ballast(store.state().ballast()).isPresent());
}

TEST_F(FullDiskTest, LetsAVitalWriteThroughOnTheBallast) {
    GRADUS_CASES("CR6");
    Store store = open();
    const Climb climb = Climb::begin(store);
    disk->fillUpTo(0);
    store.write([&](Writer& w) { climb.whole(w, "a rollback's record"); }, Store::Urgency::kVital);
    EXPECT_FALSE(Ballast(store.state().ballast()).isPresent());
    const AuditVerdict verdict = verify(store);
    EXPECT_EQ(verdict.kind, Tampering::kNone) << verdict.detail;
    EXPECT_EQ(verdict.notYetAnchored, 0);
    disk->freeAll();
    open();
    EXPECT_TRUE(Ballast(store.state().ballast()).isPresent());
}

TEST_F(FullDiskTest, LosesAndHalvesNothingWhereverTheRoomEnds) {
    GRADUS_CASES("CR6");
    std::size_t commits = 0;
    std::size_t refusals = 0;
    for (std::uintmax_t left = 0; left <= 400; left += step()) {
        const StateDirectory state{disk->root() / "state"};
        std::vector<Acknowledged> acknowledged;
        {
            Store store = open();
            const Climb climb = Climb::begin(store);
            disk->fillUpTo(left * 1024);
            for (int i = 0; i < 12; ++i) refusals += submit(store, climb, acknowledged) ? 0 : 1;
            EXPECT_TRUE(submit(store, climb, acknowledged, Store::Urgency::kVital)) << left << " KiB left";
            EXPECT_NE(verify(store).kind, Tampering::kStateMismatch);
        }
        disk->freeAll();
        const auto broken = test::brokenPromise(state, acknowledged, test::After::kPowerCut);
        EXPECT_FALSE(broken) << left << " KiB left: " << *broken;
        commits += acknowledged.size();
        fs::remove_all(state.root);
    }
    EXPECT_GT(commits, 0U);
    EXPECT_GT(refusals, 0U);
    std::cout << commits << " commits, " << refusals << " refused for want of room\n";
}

TEST_F(FullDiskTest, CreatesAStoreWholeOrLaterWhereverTheRoomEnds) {
    int refused = 0;
    for (std::uintmax_t left = 0; left <= 600; left += step()) {
        const StateDirectory state{disk->root() / "state"};
        disk->fillUpTo(left * 1024);
        try {
            open();
        } catch (const Error& e) {
            ++refused;
            EXPECT_EQ(e.code(), ErrorCode::kInfrastructure) << left << " KiB left: " << e.what();
        }
        disk->freeAll();
        const auto broken = test::brokenPromise(state, {}, test::After::kKill);
        EXPECT_FALSE(broken) << left << " KiB left: " << *broken;
        fs::remove_all(state.root);
    }
    EXPECT_GT(refused, 0);
    std::cout << refused << " creations refused for want of room\n";
}

}  // namespace
}  // namespace gradus
