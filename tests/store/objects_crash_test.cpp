#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <set>
#include <thread>

#include "store/file.h"
#include "store/objects.h"
#include "tests/store/objects_rig.h"
#include "tests/support/effort.h"

namespace gradus {
namespace {

namespace fs = std::filesystem;

/// What the writers put: from empty to several blocks, half of it noise. Known by its number on both sides.
std::string contentOf(std::uint32_t number) {
    const std::size_t size = number % 5 == 0 ? number * 9'973 % 400'000 : number * 131 % 9'000;
    return number % 2 == 0 ? noise(number, size) : prose(number, size);
}

[[noreturn]] void putForEver(const fs::path& store, std::uint32_t first, int acknowledgements) {
    const SystemClock clock;
    Objects objects(store, clock);
    for (std::uint32_t number = first;; ++number) {
        objects.put(contentOf(number));
        if (::write(acknowledgements, &number, sizeof number) != sizeof number) ::_exit(1);
    }
}

/// A child that puts contents from `first` on until it is killed.
class Writer {
  public:
    Writer(const fs::path& store, std::uint32_t first) {
        std::array<int, 2> ends{};
        if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
        acknowledgements_ = FileDescriptor(ends[0]);
        const FileDescriptor writing(ends[1]);
        child_ = ::fork();
        if (child_ == 0) putForEver(store, first, writing.get());
    }
    ~Writer() { endBy(SIGKILL); }
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

    /// The next number that was put for good; nothing once the writer is dead and all were read.
    std::optional<std::uint32_t> acknowledged() const {
        std::uint32_t number = 0;
        if (::read(acknowledgements_.get(), &number, sizeof number) != sizeof number) return std::nullopt;
        return number;
    }
    /// Whether it was this signal that ended it, and not a fault of its own.
    bool endBy(int signal) {
        if (child_ <= 0) return false;
        int status = 0;
        ::kill(child_, signal);
        ::waitpid(std::exchange(child_, -1), &status, 0);
        return WIFSIGNALED(status) && WTERMSIG(status) == signal;
    }

  private:
    FileDescriptor acknowledgements_;
    pid_t child_ = -1;
};

TEST(ObjectsCrash, WhatWasAcknowledgedIsThereAndWhatIsThereIsWholeAfterKills) {
    const Scratch scratch(fs::temp_directory_path());  // a real disk: its writers are met at more moments
    const fs::path store = scratch.path() / "objects";
    std::mt19937 random(20240229);
    std::set<std::uint32_t> acknowledged;
    std::uint64_t leftovers = 0;
    const SystemClock clock;
    for (unsigned round = 0; round < (test::isLong() ? 300u : 30u); ++round) {
        // Two writers, a few numbers apart: they meet on the same contents.
        const std::uint32_t first = round * 20;
        Writer ahead(store, first + 3);
        Writer behind(store, first);
        const auto wanted = random() % 12;
        for (auto i = wanted; i > 0; --i)
            if (const auto number = behind.acknowledged()) acknowledged.insert(*number);
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 4'000));  // the moment is the point here
        ASSERT_TRUE(behind.endBy(SIGKILL));
        ASSERT_TRUE(ahead.endBy(SIGKILL));
        for (const Writer* writer : {&ahead, &behind})
            while (const auto number = writer->acknowledged()) acknowledged.insert(*number);

        Objects objects(store, clock);
        const ObjectsCheck check = objects.check();
        ASSERT_EQ(check.damaged + check.unreadable, 0u) << "round " << round << ": " << check.flaws.at(0).reason;
        ASSERT_TRUE(check.strays.empty());
        for (const std::uint32_t number : acknowledged)
            ASSERT_TRUE(objects.contains(sha256(contentOf(number)))) << "round " << round << " number " << number;
        leftovers += objects.sweep(kNothingIsReferenced, clock.now(), 24h).temporaries;
        ASSERT_EQ(countIn(store / "tmp"), 0u);
    }
    for (const std::uint32_t number : acknowledged)
        EXPECT_EQ(Objects(store, clock).readAll(sha256(contentOf(number)), kCap), contentOf(number));
    EXPECT_GT(leftovers, 0u) << "no kill met a writer at work: the moments are badly chosen";
    std::cout << acknowledged.size() << " acknowledged, " << leftovers << " temporaries left by the dead\n";
}

TEST(ObjectsCrash, ASweepBesideManyProcessesTakesNothingThatWasAcknowledged) {
    const Scratch scratch;
    const fs::path store = scratch.path() / "objects";
    const SystemClock clock;
    Objects objects(store, clock);
    std::vector<std::unique_ptr<Writer>> writers;
    for (std::uint32_t i = 0; i < 4; ++i) writers.push_back(std::make_unique<Writer>(store, i));
    std::set<std::uint32_t> acknowledged;
    for (int round = 0; round < 20; ++round) {
        const SweepReport report = objects.sweep(kNothingIsReferenced, clock.now(), 24h);
        EXPECT_EQ(report.removed, 0u);
        for (const auto& writer : writers)
            if (const auto number = writer->acknowledged()) acknowledged.insert(*number);
    }
    // Alive until now: none of them stumbled over the sweep.
    for (const auto& writer : writers) EXPECT_TRUE(writer->endBy(SIGKILL));
    for (const std::uint32_t number : acknowledged) EXPECT_TRUE(objects.contains(sha256(contentOf(number))));
    EXPECT_EQ(objects.check().damaged, 0u);
}

}  // namespace
}  // namespace gradus
