#pragma once

#include <filesystem>

#include "store/file.h"
#include "store/model/clock.h"

namespace gradus {

/// Held by the one process and thread that may write or checkpoint the database. SQLite alone would let two
/// connections checkpoint and reset the log at once, which in this release can damage it.
class WriterLock {
  public:
    /// Waits up to `patience`, then throws Error(kBusy).
    WriterLock(const std::filesystem::path& path, Milliseconds patience);

  private:
    FileDescriptor file_;  // flock goes with the open file description: closing it is the release, also by kill -9
};

}  // namespace gradus
