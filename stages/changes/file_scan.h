#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>

#include "stages/changes/git_blob_id.h"
#include "store/model/change_set.h"
#include "store/objects.h"

namespace gradus {

/// One file or link as it stood still.
struct FileScan {
    struct stat info {};
    Entry entry;
    std::string blob;  ///< git's name for the content, if asked for

    bool isFile() const { return S_ISREG(info.st_mode); }
};

struct ScanOptions {
    Objects* keep = nullptr;              ///< where the content goes
    BlobNaming blob = BlobNaming::kNone;  ///< which name of git's is wanted
};

/// Reads the regular file or link `name` in an open directory, following nothing. What changes while it is read is read
/// again; Error(kBusy) if it never stands still. `path` is for messages. The entry has the nine permission bits.
/// Throws Error(kNotAllowed) for anything else that is there and Error(kInfrastructure) for what cannot be read.
FileScan scanFile(int directory, const std::string& name, std::string_view path, const ScanOptions& options);

/// Of all that is left of it.
Digest digestOf(ByteSource& source);

/// The same inode with the same content, mode and names.
bool isUntouched(const struct stat& a, const struct stat& b);

}  // namespace gradus
