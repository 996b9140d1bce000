#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "stages/sandbox/layer_entries.h"
#include "store/file.h"

namespace gradus {

/// Trees that commands wrote: no link is followed, nothing is opened but directories and regular files, and neither
/// names nor depth are believed. At most kDeepest levels are open at a time.
inline constexpr int kDeepest = 256;

/// Owner, mode, times and attributes of one directory, for another: with the overlay's own marks, or as the top of a
/// layer, which has none but those its overlay gives it.
enum class Marks { kCarry, kLeave };
void copyLook(int source, int target, Marks marks);

/// Everything below `source` into the empty directory `target`, with the overlay's marks of deletion and replacement,
/// hard links, holes and times. `leftOut` are paths below `source`.
void copyTree(int source, int target, Tree tree = Tree::kOurs, const std::set<std::string>& leftOut = {});

/// What an overlay of the layers (topmost first) would show over any base, as one layer in the empty `target`. Files
/// are hard links to the layers', which nobody writes any more. Throws Error where they nest deeper than kDeepest.
void mergeTrees(const std::vector<FileDescriptor>& layers, int target, FuseMarks fuse = FuseMarks::kFiles);

/// Bytes allocated to what lies below, files of several names once. Nothing is touched, and somebody may be writing:
/// what vanishes meanwhile, or is closed to us, is not counted.
std::uint64_t allocatedBelow(int directory);

/// Deletes everything below `directory`, whatever its depth and modes; gives the bytes that were allocated. What cannot
/// be deleted stays, and is an Error once everything else is gone. Somebody else may be deleting the same.
std::uint64_t removeContents(int directory);

}  // namespace gradus
