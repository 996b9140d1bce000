#pragma once

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "store/model/clock.h"

namespace gradus::test {

/// A directory of the test's own, gone with it.
class ScratchDirectory {
  public:
    ScratchDirectory() {
        std::string name = (std::filesystem::temp_directory_path() / "gradus-test-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed for " + name);
        path_ = name;
    }
    ~ScratchDirectory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    ScratchDirectory(const ScratchDirectory&) = delete;
    ScratchDirectory& operator=(const ScratchDirectory&) = delete;

    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  private:
    std::filesystem::path path_;
};

class FakeClock final : public Clock {
  public:
    Time now() const override { return now_; }
    Moment moment() const override { return {now_, boot_, uptime_}; }
    void advance(Milliseconds by) {
        now_ += by;
        uptime_ += by;
    }
    /// As somebody who sets it would: the machine goes on counting.
    void set(Time time) { now_ = time; }
    void reboot(Milliseconds off) {
        now_ += off;
        boot_ += "+";
        uptime_ = Milliseconds(0);
    }

  private:
    std::string boot_ = "boot";
    Milliseconds uptime_{1'000'000};
    Time now_ = fromMillis(1'772'366'400'000);  // 2026-03-01T12:00:00Z
};

/// The same bytes in every run.
class FakeRandom final : public Random {
  public:
    explicit FakeRandom(std::uint64_t seed = 1) : state_(seed) {}
    std::string bytes(std::size_t count) override {
        std::string out;
        while (out.size() < count) {
            state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
            out += static_cast<char>(state_ >> 56);
        }
        return out;
    }

  private:
    std::uint64_t state_;
};

}  // namespace gradus::test
