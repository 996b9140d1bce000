#include "stages/drivers/obstruction.h"

#include <fcntl.h>
#include <unistd.h>

#include "stages/changes/room.h"

namespace gradus {

namespace fs = std::filesystem;

std::optional<Obstruction> closed(const fs::path& directory) {
    if (::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) == 0 || errno == ENOENT) return std::nullopt;
    return Obstruction{ErrorCode::kInfrastructure,
                       fmt::format("nothing can be written in {}: {}", directory.native(), errnoText(errno)),
                       "open it for writing, then try again"};
}

std::optional<Obstruction> shortOfRoom(const fs::path& where, const RoomWanted& wanted, const fs::path& reserve) {
    const auto room = roomAt(where);
    if (!room) return std::nullopt;
    std::uint64_t bytes = room->bytes;
    std::error_code error;
    const std::uint64_t spare = reserve.empty() ? 0 : fs::file_size(reserve, error);
    if (const auto there = error || spare == 0 ? std::nullopt : roomAt(reserve); there && there->device == room->device)
        bytes += spare / 2;
    if (bytes >= wanted.bytes && room->inodes >= wanted.files) return std::nullopt;
    return Obstruction{
        ErrorCode::kInfrastructure,
        fmt::format("going back writes {} bytes and {} files into {}, and there is room for {} bytes and {} files",
                    wanted.bytes, wanted.files, where.native(), bytes, room->inodes),
        "free space there, then try again"};
}

}  // namespace gradus
