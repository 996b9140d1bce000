#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stages/drivers/driver.h"

namespace gradus {

/// What one promotion by commands needs to be finished or taken back.
struct CommandStep {
    std::int64_t promotion = 0;
    std::string handle;  ///< of the change
    std::string title;
    std::string author;
    std::vector<std::pair<std::string, std::string>> trailers;
    Digest changes;                  ///< the change set, as an object
    std::optional<Digest> previous;  ///< the tree before; nothing: the stage was empty
    Checkpoint copies;               ///< of our own copies

    std::string encode() const;
    static CommandStep decode(const Checkpoint& checkpoint);
};

/// What a command is told.
struct TargetRequest {
    const CommandStep& step;
    std::string stage;
    /// What the stage shall hold, and what it held until now. An empty path: nothing.
    struct Side {
        std::filesystem::path tree;
        std::string digest;
    };
    Side now;
    Side before;
    bool isBack = false;

    /// NAME=value: one variable each, never a part of a command.
    std::vector<std::string> environment() const;
    /// All of it, and the paths that change; bytes that are no text are replaced.
    std::string json(const std::string& action, const ChangeSet& changes) const;
};

}  // namespace gradus
