// Which backend is taken, and when a kept proof is believed.
#include "plugins/api/choice.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "plugins/isolation/builtin.h"
#include "store/file.h"
#include "tests/support/case.h"
#include "tests/support/scratch.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

/// Proves what it is told to, and counts how often it is asked.
class FakeBackend final : public IsolationBackend {
  public:
    FakeBackend(std::string name, std::vector<Guarantee> holds, bool clones = true)
        : name_(std::move(name)), holds_(std::move(holds)), clones_(clones) {}

    std::string_view name() const override { return name_; }
    bool clones() const override { return clones_; }
    ProbeKey probeKey() const override { return {boot, "6.1", sha256("program"), 1000}; }
    ProbeResult probe() override {
        ++asked;
        ProbeResult result{name_, "1", {}};
        for (std::size_t i = 0; i < kGuaranteeNames.size(); ++i) {
            const auto guarantee = static_cast<Guarantee>(i);
            const bool held = std::find(holds_.begin(), holds_.end(), guarantee) != holds_.end();
            result.proofs.push_back(
                {guarantee, held, held ? "seen" : "not so on " + name_, held ? "" : "buy another " + name_});
        }
        return result;
    }
    std::unique_ptr<Sandbox> open(const Workspace&, const Limits&, Network, const Identity&) override {
        return nullptr;
    }

    int asked = 0;
    std::string boot = "boot";

  private:
    std::string name_;
    std::vector<Guarantee> holds_;
    bool clones_;
};

const ProbeFunction kAsk = [](IsolationBackend& backend) { return backend.probe(); };

TEST(BackendChoice, TakesTheCheapestThatProvesAll) {
    FakeBackend cheap("cheap", {Guarantee::kKernelFilter});
    FakeBackend strong("strong", {Guarantee::kKernelFilter, Guarantee::kNoNetwork});
    FakeBackend strongest("strongest", {Guarantee::kKernelFilter, Guarantee::kNoNetwork, Guarantee::kSeparateKernel});
    const std::vector<IsolationBackend*> all = {&cheap, &strong, &strongest};
    EXPECT_EQ(&chooseBackend(all, {{Guarantee::kKernelFilter}}, kAsk), &cheap);
    EXPECT_EQ(&chooseBackend(all, {{Guarantee::kNoNetwork, Guarantee::kKernelFilter}}, kAsk), &strong);
    EXPECT_EQ(&chooseBackend(all, {{Guarantee::kSeparateKernel}}, kAsk), &strongest);
    EXPECT_EQ(&chooseBackend(all, {{}}, kAsk), &cheap);
}

TEST(BackendChoice, ABackendWithoutAViewOfItsOwnIsNotTakenForAClone) {
    FakeBackend plain("plain", {Guarantee::kKernelFilter}, false);
    FakeBackend cloning("cloning", {Guarantee::kKernelFilter});
    const std::vector<IsolationBackend*> all = {&plain, &cloning};
    EXPECT_EQ(&chooseBackend(all, {{Guarantee::kKernelFilter}, true}, kAsk), &cloning);
    EXPECT_EQ(&chooseBackend(all, {{Guarantee::kKernelFilter}, false}, kAsk), &plain);
}

TEST(BackendChoice, NeverTakesAWeakerOneAndSaysWhatIsMissingWhereAndHowToCureIt) {
    GRADUS_CASES("E6");
    FakeBackend first("first", {Guarantee::kNoNetwork});
    FakeBackend second("second", {Guarantee::kMemoryLimit});
    try {
        chooseBackend({&first, &second}, {{Guarantee::kNoNetwork, Guarantee::kMemoryLimit}}, kAsk);
        FAIL() << "a weaker backend was taken";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kInfrastructure);
        const std::string text = error.what();
        EXPECT_NE(text.find("first lacks memory-limit (not so on first)"), std::string::npos) << text;
        EXPECT_NE(text.find("second lacks no-network (not so on second)"), std::string::npos) << text;
        EXPECT_EQ(error.hint(), "buy another first; or buy another second");
    }
    EXPECT_THROW(chooseBackend({}, {}, kAsk), Error);
}

TEST(KeptProbe, IsAskedOnceForAMachineProgramAndUser) {
    const test::ScratchDirectory place;
    FakeBackend backend("fake", {Guarantee::kNoNetwork});
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(cachedProbe(backend, place.path()).proves(Guarantee::kNoNetwork));
    EXPECT_EQ(backend.asked, 1);
    struct stat info {};
    ASSERT_EQ(::stat((place / "probe-fake").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600U);
    backend.boot = "another";
    cachedProbe(backend, place.path());
    EXPECT_EQ(backend.asked, 2);
}

TEST(KeptProbe, IsNotBelievedWhenDamagedCutShortOrAnothers) {
    const test::ScratchDirectory place;
    FakeBackend backend("fake", {Guarantee::kNoNetwork});
    cachedProbe(backend, place.path());
    const fs::path file = place / "probe-fake";
    const std::string whole = readSmallFile(file, 1U << 20, "the cache");
    int asked = 1;
    const auto keep = [&](const std::string& text) {
        fs::remove(file);
        writeFileDurably(file, text, 0600);
    };
    for (const std::string& text :
         {std::string(), whole.substr(0, whole.size() / 2), whole.substr(0, whole.find("memory-limit")), "x" + whole,
          whole + "x", std::string(200'000, 'a')}) {
        keep(text);
        cachedProbe(backend, place.path());
        EXPECT_EQ(backend.asked, ++asked) << text.substr(0, 40);
    }
    FakeBackend other("other", {});
    keep(formatProbe(other.probeKey(), other.probe()));
    EXPECT_TRUE(cachedProbe(backend, place.path()).proves(Guarantee::kNoNetwork)) << "another backend's answer";
}

TEST(KeptProbe, IsNotReadFromWhatAnotherUserCouldHaveWritten) {
    const test::ScratchDirectory place;
    FakeBackend backend("fake", {Guarantee::kNoNetwork});
    cachedProbe(backend, place.path());
    ::chmod((place / "probe-fake").c_str(), 0666);
    cachedProbe(backend, place.path());
    EXPECT_EQ(backend.asked, 2) << "a file that anybody may write was believed";
    ::chmod(place.path().c_str(), 0777);
    cachedProbe(backend, place.path());
    EXPECT_EQ(backend.asked, 3) << "a directory that anybody may write was believed";
    ::chmod(place.path().c_str(), 0700);
    fs::rename(place / "probe-fake", place / "elsewhere");
    fs::create_symlink(place / "elsewhere", place / "probe-fake");
    cachedProbe(backend, place.path());
    EXPECT_EQ(backend.asked, 4) << "a link was followed";
    if (::geteuid() != 0) return;
    fs::remove(place / "probe-fake");
    fs::rename(place / "elsewhere", place / "probe-fake");
    ASSERT_EQ(::chown((place / "probe-fake").c_str(), 41235, 41235), 0);
    cachedProbe(backend, place.path());
    EXPECT_EQ(backend.asked, 5) << "another user's file was believed";
}

TEST(KeptProbe, APlaceThatCannotBeWrittenCostsAProbeAndNothingElse) {
    FakeBackend backend("fake", {Guarantee::kNoNetwork});
    EXPECT_TRUE(cachedProbe(backend, "/no/such/directory").proves(Guarantee::kNoNetwork));
    EXPECT_TRUE(cachedProbe(backend, "/proc/self").proves(Guarantee::kNoNetwork));
    EXPECT_EQ(backend.asked, 2);
}

TEST(BackendRegistry, HasTheBuiltInOnesInOrderAndRefusesATakenName) {
    Registry registry;
    addBuiltinBackends(registry);
    ASSERT_FALSE(registry.backends().empty());
    EXPECT_EQ(registry.backends().front().name, "namespaces");
    EXPECT_EQ(registry.backends().back().name, "process") << "the weakest is the last resort";
    EXPECT_THROW(registry.addBackend({"namespaces", nullptr}), Error);
}

}  // namespace
}  // namespace gradus
