#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace gradus {

/// What kind of fault it is. Each has one exit code and one word in `--json`, so that a script can decide without
/// reading the message.
enum class ErrorCode {
    kUsage,           ///< the caller's words, or a file the caller wrote, are wrong
    kNotFound,        ///< a name or handle that nothing answers to
    kNotAllowed,      ///< understood, and refused by a rule
    kBusy,            ///< someone else holds it; the same call may work later
    kInfrastructure,  ///< disk, kernel, permissions: the machine said no
    kDamaged,         ///< stored bytes are not what was stored
};

/// A fault: what happened, to what, and the way out. Answers ("the check failed", "not found") are values instead.
class Error : public std::runtime_error {
  public:
    template <typename... Args>
    explicit Error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args)
        : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)), code_(code) {}

    /// Adds the next step, shown on a line of its own.
    Error&& hint(std::string text) && {
        hint_ = std::move(text);
        return std::move(*this);
    }

    ErrorCode code() const { return code_; }
    const std::string& hint() const { return hint_; }

  private:
    ErrorCode code_;
    std::string hint_;
};

/// "No space left on device" for 28: errno as people read it, thread-safe.
std::string errnoText(int error);

}  // namespace gradus
