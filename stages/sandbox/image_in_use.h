#pragma once

#include <filesystem>
#include <optional>

#include "store/file.h"

namespace gradus {

/// What an image holds while a command writes to it: its file system once more, only to be read. Nothing if nobody has
/// it mounted to write. What is opened keeps the image in use; whoever wants it next waits for that.
std::optional<FileDescriptor> openImageInUse(const std::filesystem::path& image);

}  // namespace gradus
