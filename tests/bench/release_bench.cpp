// Goal 5: a release is switched in the same instant whatever its size.
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <stdexcept>

#include "stages/drivers/driver.h"
#include "stages/drivers/target_lock.h"
#include "tests/bench/report.h"

namespace gradus::bench {

namespace {

namespace fs = std::filesystem;
using Instant = std::chrono::steady_clock::time_point;

constexpr int kFilesPerDirectory = 100;

/// When `current` has become another one, as somebody else sees it.
class Onlooker {
  public:
    explicit Onlooker(const fs::path& directory) : notices_(::inotify_init1(IN_CLOEXEC)) {
        if (::inotify_add_watch(notices_.get(), directory.c_str(), IN_MOVED_TO) < 0)
            throw std::runtime_error("cannot watch " + directory.native());
        seen_ = std::async(std::launch::async, [this] { return watch(); });
    }
    Instant seen() { return seen_.get(); }

  private:
    Instant watch() {
        alignas(inotify_event) char buffer[4096];
        while (true) {
            const ssize_t got = ::read(notices_.get(), buffer, sizeof buffer);
            const Instant now = std::chrono::steady_clock::now();
            if (got <= 0) throw std::runtime_error("cannot read notices");
            for (ssize_t at = 0; at < got;) {
                const auto* event = reinterpret_cast<const inotify_event*>(buffer + at);
                if (std::string(event->name) == "current") return now;
                at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
            }
        }
    }

    FileDescriptor notices_;
    std::future<Instant> seen_;
};

class Bench {
  public:
    Bench() {
        std::string name = (fs::temp_directory_path() / "gradus-release-bench-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
        base_ = name;
        objects_ = std::make_unique<Objects>(base_ / "objects", clock_);
        stage_.name = "staging";
        stage_.driver = "release-directory";
        Value path;
        path.text = "../target";
        stage_.settings.set("path", path);
        Value keep;
        keep.number = 2;
        stage_.settings.set("keep", keep);
    }
    ~Bench() {
        std::error_code ignored;
        fs::remove_all(base_, ignored);
    }

    /// Medians of: building the release, until it is seen, until it is durable, until the old one is seen again.
    void run(int files, int rounds) {
        for (const char* name : {"project", "target", "state"}) fs::remove_all(base_ / name);
        for (int i = 0; i < files; ++i) {
            const fs::path path = base_ / "project" / std::to_string(i / kFilesPerDirectory) / std::to_string(i);
            if (i % kFilesPerDirectory == 0) fs::create_directories(path.parent_path());
            std::ofstream(path) << "file " << i << "\n";
        }
        const TargetLock lock = TargetLock::take(driver()->identity(), {"bench", "", "", "staging", 1, false}, files_);
        StageChange seed;
        seed.seed = base_ / "project";
        driver()->apply(driver()->checkpoint(seed));
        for (int round = 0; round < rounds; ++round) measure(round);
        report(files);
    }

  private:
    std::unique_ptr<StageDriver> driver() {
        return makeDriver({stage_, base_ / "project", base_ / "state", *objects_, files_, random_, clock_, {}, {}, {}});
    }

    void measure(int round) {
        StageChange change;
        change.promotion = round;
        const std::string text = std::to_string(round);
        change.changes =
            ChangeSet({{"new", std::nullopt, Entry{EntryType::kFile, 0644, objects_->put(text), text.size()}, true}});
        Checkpoint checkpoint;
        built_.push_back(microseconds([&] { checkpoint = driver()->checkpoint(change); }));
        const auto moving = driver();
        visible_.push_back(untilSeen([&] { durable_.push_back(microseconds([&] { moving->apply(checkpoint); })); }));
        back_.push_back(untilSeen([&] { moving->rollback(checkpoint); }));
    }

    template <typename Work>
    double untilSeen(Work&& work) {
        Onlooker onlooker(base_ / "target");
        const Instant begin = std::chrono::steady_clock::now();
        work();
        return std::chrono::duration<double, std::micro>(onlooker.seen() - begin).count();
    }

    void report(int files) {
        const double there = median(visible_) / 1e3;
        const double back = median(back_) / 1e3;
        row(fmt::format("release of {} files: switched, as others see it", files), fmt::format("{:.2f} ms", there),
            "<= 2 ms", there <= 2);
        row("  and back", fmt::format("{:.2f} ms", back), "<= 2 ms", back <= 2);
        note("  until the switch survives a power cut", fmt::format("{:.2f} ms", median(durable_) / 1e3));
        note("  building it (copies every file, unseen)", fmt::format("{:.1f} ms", median(built_) / 1e3));
        for (auto* values : {&built_, &visible_, &durable_, &back_}) values->clear();
    }

    fs::path base_;
    SystemClock clock_;
    SystemRandom random_;
    RealFileOperations files_;
    std::unique_ptr<Objects> objects_;
    Stage stage_;
    std::vector<double> built_;
    std::vector<double> visible_;
    std::vector<double> durable_;
    std::vector<double> back_;
};

}  // namespace

void benchRelease() {
    Bench bench;
    bench.run(100, 15);
    bench.run(10'000, 5);
}

}  // namespace gradus::bench
