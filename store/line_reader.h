#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "store/file.h"

namespace gradus {

/// The lines of a regular file, one after another, whatever its size.
class LineReader {
  public:
    /// Throws Error for anything but a regular file; never blocks.
    LineReader(const std::filesystem::path& path, std::size_t longestLine);
    /// The next line without its end; nothing at the end of the file. Throws Error(kDamaged) for one that is too long.
    std::optional<std::string> next();
    /// The last line that was given had no end: the file was cut in the middle of it.
    bool wasCut() const { return wasCut_; }
    std::int64_t number() const { return number_; }  ///< of the line that was given last, from 1

  private:
    bool fill();

    std::filesystem::path path_;
    std::size_t longest_;
    FileDescriptor file_;
    std::string buffer_;
    std::size_t at_ = 0;
    std::int64_t number_ = 0;
    bool atEnd_ = false;
    bool wasCut_ = false;
};

}  // namespace gradus
