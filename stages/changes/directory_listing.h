#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace gradus {

struct DirectoryItem {
    std::string name;
    unsigned char type = 0;  ///< DT_…, never DT_UNKNOWN
    std::size_t layer = 0;   ///< the caller's own number
};

/// Appends everything in an open directory but "." and "..", in large batches. Returns 0 or errno. `between` is called
/// after each batch, and may throw.
int listDirectory(int directory, std::size_t layer, std::vector<DirectoryItem>& items,
                  const std::function<void()>& between = nullptr);

}  // namespace gradus
