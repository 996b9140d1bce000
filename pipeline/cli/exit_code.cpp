#include "pipeline/cli/exit_code.h"

#include <array>

namespace gradus {

namespace {

// Nothing answering to a name is the caller's mistake, like a misspelt option: 1 stays free for "checked, and the
// answer is no".
constexpr std::array<ErrorFace, 6> kFaces = {{
    {ErrorCode::kUsage, Exit::kUsage, "usage", false},
    {ErrorCode::kNotFound, Exit::kUsage, "not-found", false},
    {ErrorCode::kNotAllowed, Exit::kNotAllowed, "not-allowed", false},
    {ErrorCode::kBusy, Exit::kBusy, "busy", true},
    {ErrorCode::kInfrastructure, Exit::kInfrastructure, "infrastructure", false},
    {ErrorCode::kDamaged, Exit::kInfrastructure, "damaged", false},
}};

}  // namespace

const ErrorFace& faceOf(ErrorCode code) {
    for (const ErrorFace& face : kFaces) {
        if (face.code == code) return face;
    }
    throw std::logic_error("an error code without a row in the table of exit codes");
}

}  // namespace gradus
