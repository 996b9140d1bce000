#pragma once

#include <string>
#include <vector>

#include "policies/gate/gate.h"

namespace gradus::test {

/// One row: the policy of the stage `here` as TOML, what is otherwise than in readyFacts() in words (see
/// gate_table.cpp), and what must come of it: `step=` what is done, `closed=` exactly the gates that are closed, `ask=`
/// exactly those put to people, and as wanted `open=`, `na=` and `next=GATE:TIME`.
struct Row {
    std::string name;
    std::string policy;
    std::string facts;
    std::string expected;
};

std::vector<Row> consentRows();
std::vector<Row> changeRows();
std::vector<Row> timeRows();

/// What a row's words say.
struct Situation {
    Facts facts;
    Time now;
    std::string stage = "here";
};

/// Throws std::runtime_error for a word that it does not know.
Situation situationOf(const std::string& words);

/// The words of `expected` that the decision does not fulfil, with what it says instead; empty: all are.
std::string differences(const Decision& decision, const std::string& expected);

/// "2026-03-06T17:00" in UTC, or "+2h" and "-2h" from noon.
Time timeOf(const std::string& text);

}  // namespace gradus::test
