#pragma once

#include <cerrno>
#include <optional>
#include <string>
#include <utility>

namespace gradus {

/// Which step of building a sandbox failed, with what errno, and on what.
struct Failure {
    std::string step;
    int error = 0;
    std::string detail;
};

/// The result of a step. Empty: it worked. The jail throws nothing; a failure travels up and is reported.
using Attempt = std::optional<Failure>;

inline Failure failure(std::string step, std::string detail, int error = errno) {
    return Failure{std::move(step), error, std::move(detail)};
}

}  // namespace gradus
