#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gradus {

enum class HandleKind { kChange, kSandbox, kPromotion, kExecution, kRace, kLatest, kDigestPrefix };

/// How people name things: `c12`, `c12.2` (a revision), `s7`, `p31`, `e90`, `r3`, `@` (the latest), or the start of a
/// digest.
struct Handle {
    HandleKind kind = HandleKind::kLatest;
    std::int64_t number = 0;
    std::optional<std::int64_t> revision;  ///< changes only
    std::string digestPrefix;              ///< at least six hexadecimal digits

    bool operator==(const Handle&) const = default;
    std::string text() const;
};

/// Strict: no sign, no leading zero, nothing after the number. Nothing if it is not a handle.
std::optional<Handle> parseHandle(std::string_view text);

inline std::string changeHandle(std::int64_t id) { return "c" + std::to_string(id); }
inline std::string promotionHandle(std::int64_t id) { return "p" + std::to_string(id); }
inline std::string sandboxHandle(std::int64_t id) { return "s" + std::to_string(id); }
inline std::string raceHandle(std::int64_t id) { return "r" + std::to_string(id); }
inline std::string executionHandle(std::int64_t id) { return "e" + std::to_string(id); }

}  // namespace gradus
