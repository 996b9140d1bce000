#pragma once

#include <span>
#include <string_view>

namespace gradus {

/// One entry of plugins/toolchains.toml. Paths are as written there: "~/…", "/…" or "${NAME:-default}…".
struct Toolchain {
    std::string_view name;
    std::span<const std::string_view> readOnly;
    std::span<const std::string_view> caches;
    std::span<const std::string_view> secrets;
    std::span<const std::string_view> variables;
};

/// The file as it was when the program was built: a table, so that using it costs no parsing.
std::span<const Toolchain> toolchains();

/// Places that are never shown, whatever lies around them.
std::span<const std::string_view> secretPlaces();

/// Names of files that are hidden at the top of every directory shown from a home.
std::span<const std::string_view> secretNames();

}  // namespace gradus
