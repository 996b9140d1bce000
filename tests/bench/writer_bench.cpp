// Goal 11: what a journal, an undo object and verified swaps add to writing the same files durably by hand.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <set>
#include <stdexcept>

#include "stages/changes/tree_writer.h"
#include "store/file.h"
#include "store/model/clock.h"
#include "tests/bench/report.h"

namespace gradus::bench {

namespace {

namespace fs = std::filesystem;

constexpr int kFiles = 100;
constexpr int kRounds = 25;

/// Text like source code, another one each round.
std::string contentOf(int file, int round) {
    std::string text = fmt::format("// file {} as of round {}\n", file, round);
    for (int line = 0; text.size() < 4000; ++line)
        text += fmt::format("int value{} = {}; // round {}\n", line, line * file + round, round);
    return text;
}

struct Layout {
    std::string name;
    int directories = 1;
    fs::path pathOf(int file) const { return fmt::format("d{}/file{}.c", file % directories, file); }
};

class Bench {
  public:
    Bench() {
        std::string name = (fs::temp_directory_path() / "gradus-writer-bench-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
        base_ = name;
    }
    ~Bench() {
        std::error_code ignored;
        fs::remove_all(base_, ignored);
    }

    void run(const Layout& layout) {
        objects_ = std::make_unique<Objects>(base_ / "objects", clock_);
        for (const char* tree : {"bare", "journaled"})
            for (int file = 0; file < kFiles; ++file) {
                fs::create_directories((base_ / tree / layout.pathOf(file)).parent_path());
                writeFileDurably(base_ / tree / layout.pathOf(file), contentOf(file, 0), 0644);
            }
        std::vector<double> bare;
        std::vector<double> journaled;
        std::vector<double> undo;
        for (int round = 1; round <= kRounds; ++round) {
            bare.push_back(microseconds([&] { writeBare(layout, round); }));
            journaled.push_back(writeJournaled(layout, round, undo));
        }
        const double ratio = median(journaled) / median(bare);
        row(fmt::format("apply {} changed files, {}, to bare tmp+fsync+rename", kFiles, layout.name),
            fmt::format("{:.2f}x ({:.1f}/{:.1f} ms)", ratio, median(journaled) / 1e3, median(bare) / 1e3), "<= 1.5x",
            ratio <= 1.5);
        note("  undoing the same", fmt::format("{:.1f} ms", median(undo) / 1e3));
        for (const char* tree : {"bare", "journaled", "journals"}) fs::remove_all(base_ / tree);
    }

  private:
    /// What a careful program does without any way back.
    void writeBare(const Layout& layout, int round) {
        std::set<fs::path> directories;
        for (int file = 0; file < kFiles; ++file) {
            const fs::path path = base_ / "bare" / layout.pathOf(file);
            const fs::path temporary = path.native() + ".tmp";
            const FileDescriptor out = openFile(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0644);
            writeAll(out.get(), contentOf(file, round), temporary);
            syncFile(out.get(), temporary);
            if (std::rename(temporary.c_str(), path.c_str()) != 0) throw std::runtime_error("rename failed");
            directories.insert(path.parent_path());
        }
        for (const fs::path& directory : directories) syncDirectory(directory);
    }

    /// Sealing and applying; the new contents are objects already, as they are when a change is promoted.
    double writeJournaled(const Layout& layout, int round, std::vector<double>& undo) {
        std::vector<PathChange> changes;
        for (int file = 0; file < kFiles; ++file) {
            const std::string old = contentOf(file, round - 1);
            const std::string fresh = contentOf(file, round);
            changes.push_back({layout.pathOf(file), Entry{EntryType::kFile, 0644, sha256(old), old.size()},
                               Entry{EntryType::kFile, 0644, objects_->put(fresh), fresh.size()}, true});
        }
        const ChangeSet set(std::move(changes));
        TreeWriter writer(base_ / "journaled", base_ / "journals", *objects_, files_, random_);
        JournalRef ref;
        const auto apply = [&] {
            ref = writer.seal(writer.plan(set));
            if (!writer.apply(ref).applied) throw std::runtime_error("a conflict where there is none");
        };
        const double first = microseconds(apply);
        undo.push_back(microseconds([&] { writer.undo(ref); }));
        apply();
        return first;
    }

    fs::path base_;
    SystemClock clock_;
    SystemRandom random_;
    RealFileOperations files_;
    std::unique_ptr<Objects> objects_;
};

}  // namespace

void benchWriter() {
    Bench bench;
    bench.run({"one directory", 1});
    bench.run({"ten directories", 10});
}

}  // namespace gradus::bench
