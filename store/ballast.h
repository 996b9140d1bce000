#pragma once

#include <filesystem>

namespace gradus {

/// A file that only takes up room. On a full disk SQLite cannot even record that something was rolled back; giving the
/// ballast up makes room for exactly that.
class Ballast {
  public:
    static constexpr std::uintmax_t kSize = std::uintmax_t{2} << 20;

    explicit Ballast(std::filesystem::path path) : path_(std::move(path)) {}

    /// Sets it aside again if it is missing and there is room; otherwise leaves things as they are.
    void restore() const noexcept;
    /// True if there was one to give up.
    bool release() const noexcept;
    /// Gives it up where less room than its own size is left.
    void releaseIfShort() const noexcept;
    bool isPresent() const noexcept;

  private:
    std::filesystem::path path_;
};

}  // namespace gradus
