#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policies/language/document.h"
#include "policies/language/findings.h"
#include "policies/language/value.h"
#include "policies/language/vocabulary.h"

namespace gradus {

/// Reads tables of one file against rows of keys. Everything wrong becomes a finding; what is right is kept, so that
/// later questions can be asked about the rest of the file.
class TableReader {
  public:
    TableReader(const Vocabulary& vocabulary, Findings& findings, Origin::Kind kind, std::string file)
        : vocabulary_(vocabulary), findings_(findings), kind_(kind), file_(std::move(file)) {}

    /// `where` names the table in messages: "[check.unit]". Defaults are not filled in.
    Settings read(const Node& table, const std::vector<KeyRow>& rows, const std::string& where);

    /// The value of one key, or nothing after a finding.
    std::optional<Value> readValue(const Node& node, const KeyRow& row, const std::string& where);

    /// A check: its kind is found by its keys, then all its keys are read.
    Settings readCheck(const Node& table, const std::vector<KeyRow>& extraRows, const std::string& where);

    Origin originOf(Span span) const { return {kind_, file_, span}; }
    Findings& findings() { return findings_; }
    const Vocabulary& vocabulary() const { return vocabulary_; }

  private:
    void reportUnknown(const NodeEntry& entry, const std::vector<KeyRow>& rows, const std::string& where);
    void reportMissing(const Node& table, const KeyRow& row, const std::string& where);
    const CheckKindWords* kindOf(const Node& table, const std::string& where);

    const Vocabulary& vocabulary_;
    Findings& findings_;
    Origin::Kind kind_;
    std::string file_;
};

/// Gives every key of `rows` that has a default and no value its default; also inside tables that are there.
void fillDefaults(Settings& settings, const std::vector<KeyRow>& rows, const Vocabulary& vocabulary);

/// The setting that holds a check's kind; it is not a key of the language.
constexpr const char* kKindSetting = "kind";

/// The keys of a check of that kind.
std::vector<KeyRow> checkRows(const CheckKindWords& kind);

/// The keys of a stage with that driver.
std::vector<KeyRow> stageRows(const DriverWords& driver);

}  // namespace gradus
