#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "store/file.h"
#include "store/model/clock.h"
#include "store/model/error.h"
#include "store/objects.h"
#include "tests/support/error_of.h"

namespace gradus {

using namespace std::chrono_literals;

/// Syncing is what costs time, and a disk may be busy with others' work: in memory a test takes as long as it takes.
inline std::filesystem::path memoryOrDisk() {
    return std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
}

/// A directory that is gone with its owner.
class Scratch {
  public:
    explicit Scratch(const std::filesystem::path& parent = memoryOrDisk()) {
        std::string name = (parent / "gradus-objects-XXXXXX").native();
        if (::mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), name);
        path_ = name;
    }
    ~Scratch() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

/// Stands still until told; may be told from another thread.
class StandingClock final : public Clock {
  public:
    Time now() const override { return fromMillis(millis_); }
    void advance(Milliseconds by) { millis_ += by.count(); }

  private:
    std::atomic<std::int64_t> millis_{1'700'000'000'000};
};

inline std::string noise(std::uint64_t seed, std::size_t size) {
    std::mt19937_64 random(seed);
    std::string bytes;
    bytes.reserve(size + 8);
    while (bytes.size() < size) {
        const std::uint64_t value = random();
        bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    bytes.resize(size);
    return bytes;
}

inline std::string prose(std::uint64_t seed, std::size_t size) {
    std::string bytes;
    for (std::uint64_t line = 0; bytes.size() < size; ++line)
        bytes += fmt::format("{} line {}: the quick brown fox jumps over the lazy dog\n", seed, line);
    bytes.resize(size);
    return bytes;
}

inline void writeBytes(const std::filesystem::path& path, std::string_view bytes) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << bytes;
    ASSERT_TRUE(file.flush().good()) << path;
}

inline std::string bytesOf(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

inline std::size_t countIn(const std::filesystem::path& directory) {
    using Iterator = std::filesystem::directory_iterator;
    return static_cast<std::size_t>(std::distance(Iterator(directory), Iterator()));
}

constexpr auto kNothingIsReferenced = [](const Digest&) { return false; };
constexpr std::uint64_t kCap = std::uint64_t{64} << 20;

class ObjectsTest : public ::testing::Test {
  protected:
    Scratch scratch_;
    StandingClock clock_;
    Objects objects_{scratch_.path() / "objects", clock_};

    std::filesystem::path directory() const { return scratch_.path() / "objects"; }
    std::size_t temporaries() const { return countIn(directory() / "tmp"); }
    std::string read(const Digest& digest) const { return objects_.readAll(digest, kCap); }
    ino_t inodeOf(const Digest& digest) const {
        struct stat info {};
        EXPECT_EQ(::stat(objects_.pathOf(digest).c_str(), &info), 0);
        return info.st_ino;
    }
    /// Overwrites a part of the object's file, as a bad disk would.
    void hurt(const Digest& digest, std::size_t at, std::string_view bytes) const {
        std::string file = bytesOf(objects_.pathOf(digest));
        file.replace(at, bytes.size(), bytes);
        overwrite(digest, file);
    }
    void overwrite(const Digest& digest, std::string_view file) const {
        std::filesystem::permissions(objects_.pathOf(digest),
                                     std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
        writeBytes(objects_.pathOf(digest), file);
    }
};

/// Hands out its pieces as they are, however small.
class Pieces final : public ByteSource {
  public:
    explicit Pieces(std::vector<std::string> pieces) : pieces_(std::move(pieces)) { std::ranges::reverse(pieces_); }
    std::size_t read(std::span<char> space) override {
        while (!pieces_.empty() && pieces_.back().empty()) pieces_.pop_back();
        if (pieces_.empty()) return 0;
        const std::size_t count = pieces_.back().copy(space.data(), space.size());
        pieces_.back().erase(0, count);
        return count;
    }

  private:
    std::vector<std::string> pieces_;
};

/// So many bytes, made as they are asked for: noise, or the same block over and over.
class Generated final : public ByteSource {
  public:
    Generated(std::uint64_t size, bool isNoise) : left_(size), isNoise_(isNoise) {}
    std::size_t read(std::span<char> space) override {
        const std::size_t count = std::min<std::uint64_t>({space.size(), left_, block_.size()});
        if (isNoise_)
            for (std::size_t i = 0; i + 8 <= count; i += 8) {
                const std::uint64_t value = random_();
                std::memcpy(block_.data() + i, &value, 8);
            }
        std::memcpy(space.data(), block_.data(), count);
        left_ -= count;
        return count;
    }

  private:
    std::uint64_t left_;
    bool isNoise_;
    std::mt19937_64 random_{7};
    std::string block_ = prose(7, 65536);
};

}  // namespace gradus
