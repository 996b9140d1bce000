#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace gradus {

struct DirectoryItem {
    std::string name;
    unsigned char type = 0;  ///< DT_…, never DT_UNKNOWN
    std::size_t layer = 0;   ///< the caller's own number
};

/// Appends everything in an open directory but "." and "..", in large batches. Returns 0 or errno.
int listDirectory(int directory, std::size_t layer, std::vector<DirectoryItem>& items);

}  // namespace gradus
