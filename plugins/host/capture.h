#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plugins/api/isolation.h"

namespace gradus {

/// Keeps the first and the last bytes of a stream of any length in bounded memory, and counts them all.
class Capture {
  public:
    explicit Capture(const CaptureBudget& budget) : budget_(budget) {}

    void append(std::string_view bytes);
    /// Counts bytes that are not kept.
    void skip(std::uint64_t bytes) { bytes_ += bytes; }
    std::uint64_t bytes() const { return bytes_; }
    CapturedStream take();

  private:
    CaptureBudget budget_;
    std::string head_;
    std::string ring_;  ///< once full, the oldest byte is at next_
    std::size_t next_ = 0;
    std::uint64_t bytes_ = 0;
};

}  // namespace gradus
