// What a sandbox changed, told: 100 changes over small and large projects, beside a warm `git status` of the same.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>

#include "stages/changes/harvest.h"
#include "store/file.h"
#include "tests/bench/report.h"
#include "tests/bench/scratch.h"

namespace gradus::bench {

namespace {

namespace fs = std::filesystem;

constexpr int kFilesInADirectory = 100;
constexpr int kRounds = 200;
constexpr int kChanges = 100;

void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

fs::path fileAt(int number) {
    return fmt::format("d{}/e{}/f{}.txt", number / kFilesInADirectory / 10, number / kFilesInADirectory % 10, number);
}

void buildProject(const fs::path& root, int files) {
    for (int i = 0; i < files; ++i) {
        const fs::path path = root / fileAt(i);
        if (i % kFilesInADirectory == 0) fs::create_directories(path.parent_path());
        write(path, fmt::format("line one of file {}\nline two\n", i));
    }
    write(root / ".gitignore", "build/\n*.o\n");
}

// As an overlay would leave them, laid down directly: the walk sees no difference, and no mount is needed to measure.
// Ten in each of ten directories, whatever the size of the project.
void buildLayer(const fs::path& layer, int files) {
    for (int i = 0; i < kChanges; ++i) {
        const fs::path path = layer / fileAt(i / 10 * (files / 10) + i % 10);
        fs::create_directories(path.parent_path());
        write(i % 10 == 0 ? path.string() + ".new" : path.string(), fmt::format("changed {}\n", i));
    }
}

int run(const fs::path& directory, const std::string& command) {
    return std::system(("cd '" + directory.string() + "' && " + command + " >/dev/null 2>&1").c_str());
}

/// A project and what a sandbox wrote over it.
class Sample {
  public:
    explicit Sample(int files) {
        fs::create_directory(base_);
        fs::create_directory(layer_);
        buildProject(base_, files);
        hasGit_ = run(base_, "git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm x") == 0;
        ::usleep(20'000);  // past the last stamp, whatever the clock's step
        source_.base = base_;
        source_.since = fileSystemNow();
        buildLayer(layer_, files);
        top_ = openFile(layer_, O_RDONLY | O_DIRECTORY);
        source_.layers = {top_.get()};
    }

    void measure() {
        Harvest told;
        wall.push_back(
            microseconds([&] { processor.push_back(processorMicroseconds([&] { told = harvest(source_, {}); })); }));
        if (told.changes.changes().size() != kChanges || !told.baseMoved.empty())
            throw std::runtime_error(fmt::format("{} changes harvested", told.changes.changes().size()));
    }

    /// Microseconds; nothing without git.
    std::optional<double> status() const {
        if (!hasGit_) return std::nullopt;
        run(base_, "git status");
        std::vector<double> times;
        for (int i = 0; i < 7; ++i) times.push_back(microseconds([&] { run(base_, "git status --porcelain"); }));
        return median(times);
    }

    std::vector<double> wall;
    std::vector<double> processor;

  private:
    Scratch scratch_;
    fs::path base_ = scratch_ / "base";
    fs::path layer_ = scratch_ / "layer";
    FileDescriptor top_;
    HarvestSource source_;
    bool hasGit_ = false;
};

void showEach(int files, const Sample& sample) {
    const double each = median(sample.wall) / kChanges;
    row(fmt::format("harvest of {} changes over {} files", kChanges, files), fmt::format("{:.1f} us each", each),
        "<= 10 us each", each <= 10);
    note("the same in processor time", fmt::format("{:.1f} us each", median(sample.processor) / kChanges));
}

}  // namespace

void benchHarvest() {
    Sample small(1'000);
    Sample large(100'000);
    for (int i = 0; i < kRounds; ++i) {
        small.measure();
        large.measure();
    }
    showEach(1'000, small);
    showEach(100'000, large);
    const double growth = median(large.wall) / median(small.wall);
    row("the same, 100000 files against 1000", fmt::format("{:.2f}x", growth), "<= 1.3x", growth <= 1.3);
    const auto status = large.status();
    if (!status) return note("warm git status over 100000 files", "git is not installed");
    const double ratio = *status / median(large.wall);
    row(fmt::format("against warm git status over 100000 files ({:.0f} ms)", *status / 1000),
        fmt::format("{:.0f}x faster", ratio), ">= 200x", ratio >= 200);
}

}  // namespace gradus::bench
