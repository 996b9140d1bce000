#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "store/model/error.h"

namespace gradus {

/// What keeps a way back from coming to its end now, although nothing that it needs is lost. It goes once the cause is
/// gone.
struct Obstruction {
    ErrorCode code = ErrorCode::kNotAllowed;  ///< kInfrastructure: the machine says no
    std::string reason;
    std::string cure;
};

/// Names in the directory cannot change.
std::optional<Obstruction> closed(const std::filesystem::path& directory);

/// What going back writes into the file system of `where`.
struct RoomWanted {
    std::uint64_t bytes = 0;
    std::uint64_t files = 0;
};

/// There is less. `reserve`: a file that is given up for a way back, half of it for what the driver writes; empty:
/// none.
std::optional<Obstruction> shortOfRoom(const std::filesystem::path& where, const RoomWanted& wanted,
                                       const std::filesystem::path& reserve);

}  // namespace gradus
