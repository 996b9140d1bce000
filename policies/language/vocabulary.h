#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policies/language/keys.h"
#include "store/model/clock.h"

namespace gradus {

/// A stage driver, as the language sees it.
struct DriverWords {
    std::string name;
    std::string documentation;
    std::vector<KeyRow> keys;
    /// A stage of one of these names uses this driver when it names none; a driver's own name needs no mention.
    std::vector<std::string> stageNames = {};
    /// Whether something real is behind it: only then can it soak, or be looked at by a check afterwards.
    bool hasTarget = true;
    /// Whether it brings what checks build into the stage, beside the tree itself.
    bool carriesOutputs = false;
};

/// A kind of check, as the language sees it. Its first key names it: a check with that key is of this kind.
struct CheckKindWords {
    std::string name;
    std::string documentation;
    std::vector<KeyRow> keys;
    std::string when = "before";  ///< the default of `when`
    /// The default of `timeout`, beyond the time that several answers in a row take; none: that of every check.
    std::optional<Milliseconds> timeout = std::nullopt;
};

/// The words that depend on what is built in: composed by the program's main, so that the language knows no plugin.
struct Vocabulary {
    std::vector<DriverWords> drivers;
    std::vector<CheckKindWords> checkKinds;
    /// Where time zones are looked up; where the directory does not exist only the form of a name is checked.
    std::filesystem::path zoneinfo = "/usr/share/zoneinfo";

    const DriverWords* findDriver(std::string_view name) const;
    const CheckKindWords* findCheckKind(std::string_view name) const;
    /// The driver a stage gets by its name alone, or nullptr.
    const DriverWords* driverForStage(std::string_view stageName) const;
};

}  // namespace gradus
