#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "store/chained_fields.h"
#include "store/model/clock.h"
#include "store/sql.h"

namespace gradus {

/// What events are looked up by.
enum class IndexWord { kKind, kActor, kProject, kChange, kStage };
inline constexpr std::array<std::string_view, 5> kIndexWords{"kind", "actor", "project", "change", "stage"};

/// Keeps the tables event_index and clock_step in step with the log. Gathers bits in memory and writes a row once per
/// value and block, so that events of one commit share the cost. Runs inside the caller's transaction.
class EventIndexer {
  public:
    explicit EventIndexer(Sql& sql) : sql_(sql) {}
    /// Events come in the order of their numbers. `before` is the time of the event before, if there is one.
    void add(const ChainedFields& fields, std::optional<std::int64_t> before);
    /// Writes what was gathered. Whoever forgets it leaves the events unfindable.
    void flush();

  private:
    struct Entry {
        std::variant<std::int64_t, std::string> value;
        std::uint64_t bits = 0;
    };
    void mark(IndexWord word, std::int64_t value, std::uint64_t bit);
    void mark(IndexWord word, std::string_view value, std::uint64_t bit);

    Sql& sql_;
    std::int64_t block_ = 0;
    std::array<std::vector<Entry>, kIndexWords.size()> entries_;
};

/// Events that have one of the values of a word.
struct IndexTerm {
    IndexWord word = IndexWord::kKind;
    std::vector<std::variant<std::int64_t, std::string>> values;
};

/// A run of events by number, both ends included.
struct SeqRange {
    std::int64_t first = 0;
    std::int64_t last = 0;
};

/// Adds the events of `range` that satisfy every term to `found`, the newest first, until it has `limit` elements.
/// `terms` is not empty; the first drives the search and is best the one with the fewest events.
void findIndexed(Sql& sql, const std::vector<IndexTerm>& terms, SeqRange range, std::size_t limit,
                 std::vector<std::int64_t>& found);

/// Calls `visit` with every run of events whose time is within [since, until), the newest run first, until it returns
/// false. There is one run, plus at most one for every time the clock stepped back.
void visitSpan(Sql& sql, std::int64_t since, std::int64_t until, const std::function<bool(SeqRange)>& visit);

}  // namespace gradus
