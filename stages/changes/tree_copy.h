#pragma once

#include <string>

#include "stages/changes/file_operations.h"
#include "stages/changes/tree_record.h"
#include "stages/changes/tree_writer_beneath.h"

namespace gradus {

enum class Owners {
    kKept,       ///< or it is an Error
    kKeptIfCan,  ///< what only root may do is left
};

/// Puts a copy of everything that `record` names into the empty directory `to`: contents by reference where the file
/// system can, byte by byte elsewhere, never as hard links; modes, owners, modification times and extended attributes
/// as they were. A file whose bytes are not the recorded ones is an Error(kNotAllowed). Nothing is synced.
void copyTree(const TreeRoot& from, const TreeRecord& record, const TreeRoot& to, FileOperations& files, Owners owners);

/// Removes `name` below `directory` and all that is in it, through no link and into no other mount. What is not there
/// is removed already.
void removeTree(int directory, const std::string& name, FileOperations& files);

}  // namespace gradus
