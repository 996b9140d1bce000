#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "stages/changes/tree_writer_beneath.h"
#include "store/model/change_set.h"
#include "store/objects.h"

namespace gradus {

/// Something that was there before, with all that its path alone does not say.
struct PackedEntry {
    std::size_t change = 0;  ///< its index among the changes
    Entry entry;
    uid_t user = 0;
    gid_t group = 0;
    timespec modified{};
    std::vector<Attribute> attributes;
};

/// A `before` that stopped being true while it was packed.
struct Moved {
    std::string path;
};

/// Stores everything that `changes` take away or replace as one object (docs/writing.md has the format) and gives its
/// digest; durable when this returns. Takes constant memory for contents. Throws Moved, or Error.
Digest packBefore(const TreeRoot& root, const ChangeSet& changes, Objects& objects);

/// Reads it again, from front to back.
class UndoPack {
  public:
    /// Throws Error(kDamaged) unless it belongs to these changes.
    UndoPack(ObjectReader reader, const ChangeSet& changes);

    /// In the order of the changes.
    const std::vector<PackedEntry>& entries() const { return entries_; }
    const PackedEntry* find(std::size_t change) const;
    /// Calls `take` for each entry that has content and that `wanted` wants, in order, with the bytes to read: all of
    /// them, or none. At most once.
    void contents(const std::function<bool(const PackedEntry&)>& wanted,
                  const std::function<void(const PackedEntry&, ByteSource&)>& take);

  private:
    ObjectReader reader_;
    std::vector<PackedEntry> entries_;
};

}  // namespace gradus
