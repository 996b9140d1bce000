#pragma once

#include <filesystem>
#include <string>

#include "tests/support/scratch.h"

namespace gradus::bench {

/// A directory that stays until the benchmark ends: where a file system keeps no journal, what was deleted a moment ago
/// makes new files dear, and the next section would pay for it.
class Scratch {
  public:
    Scratch() {
        static const test::ScratchDirectory place;
        static int made = 0;
        path_ = place / std::to_string(++made);
        std::filesystem::create_directory(path_);
    }

    const std::filesystem::path& path() const { return path_; }
    std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  private:
    std::filesystem::path path_;
};

}  // namespace gradus::bench
