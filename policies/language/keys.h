#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace gradus {

/// What the value of a key is. Each has one row in the table of types (value_types.cpp): how it is read, what it is
/// called, and its JSON Schema.
enum class ValueType {
    kText,
    kName,  ///< letters, digits, '-' and '_'
    kNameList,
    kTextList,
    kPeople,  ///< names of people, each as the record would have it
    kBoolean,
    kCount,       ///< a whole number
    kCountList,   ///< one or several whole numbers
    kDecimal,     ///< kept in thousandths
    kDuration,    ///< "90s", kept in milliseconds
    kSize,        ///< "4G", kept in bytes
    kChoice,      ///< one of `choices`
    kChoiceList,  ///< some of `choices`
    kGlobList,
    kPath,
    kPathList,
    kInnerPath,    ///< a relative path that stays below the project
    kCommand,      ///< words, or a list of words
    kEnvironment,  ///< NAME (passed on) or NAME=value (set)
    kUrl,
    kReport,   ///< FORMAT:PATH, the format one of `choices`
    kNetwork,  ///< "none", "host" or { allow = ["host:port"] }
    kCron,
    kTimeZone,
    kTable,      ///< the keys of `section`
    kTableList,  ///< a list of such tables
};

/// How a policy that builds on another may change the value: always towards stricter.
enum class Stricter {
    kFree,         ///< no order: the later one counts
    kMore,         ///< a larger number is stricter
    kLess,         ///< a smaller number is stricter
    kLaterChoice,  ///< choices are listed from loose to strict
    kUnion,        ///< a list of demands: what is added is stricter, nothing is taken away
    kSubset,       ///< a list of permissions: what is left out is stricter
    kNarrower,     ///< of networks: none is stricter than a list, a shorter list than a longer one, a list than host
    kFields,       ///< a table: each key by its own rule
};

/// One key of the language. The parser, the JSON Schema and the reference page know nothing but these rows.
struct KeyRow {
    std::string name;
    ValueType type = ValueType::kText;
    std::string documentation;  ///< one sentence
    std::string example;        ///< a TOML value
    std::string fallback = {};  ///< the default as a TOML value; empty: not set
    bool required = false;
    std::int64_t least = 0;  ///< of numbers, durations (ms), sizes (bytes), decimals (thousandths); of lists: how many
    std::int64_t most = std::numeric_limits<std::int64_t>::max();
    std::vector<std::string> choices = {};
    std::string section = {};  ///< of tables: the id of the section that has their keys
    Stricter stricter = Stricter::kFree;
};

/// A table of the file and the keys in it.
struct Section {
    enum class Shape {
        kSingle,  ///< [pipeline]
        kNamed,   ///< [check.NAME]
        kList,    ///< [[window]]
        kNested,  ///< a value: limits = { … }
    };
    std::string id;
    Shape shape = Shape::kSingle;
    std::string documentation;
    std::vector<KeyRow> rows;
};

/// Every section of the language, in the order of the reference page. Stages and checks have the keys of their driver
/// or kind besides (see Vocabulary).
const std::vector<Section>& sections();

/// The section with that id; it must exist.
const Section& section(std::string_view id);

/// The row of `name`, or nullptr.
const KeyRow* findRow(const std::vector<KeyRow>& rows, std::string_view name);

/// The guarantees an isolation can prove; the first four are the floor of every check.
const std::vector<std::string>& guaranteeNames();

/// Who acts: person, agent, daemon, ci.
const std::vector<std::string>& actorKinds();

/// The gates that a policy may let people override (policies/gate/gate.h has all of them).
const std::vector<std::string>& overridableGates();

}  // namespace gradus
