#include "store/event_index.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace gradus {

namespace {

constexpr std::int64_t kBlockSize = 64;

// Rounds down, also below zero: whoever inserts an event by hand may number it as he likes.
std::int64_t blockOf(std::int64_t seq) { return seq >> 6; }
unsigned placeOf(std::int64_t seq) { return static_cast<unsigned>(seq & (kBlockSize - 1)); }

std::string_view wordOf(IndexWord word) { return kIndexWords.at(static_cast<std::size_t>(word)); }

using IndexValue = std::variant<std::int64_t, std::string>;

void bindValue(Sql::Call& call, const IndexValue& value) {
    std::visit([&](const auto& one) { call.bind(one); }, value);
}

/// The newest block before `below` that has an event with one of the values.
std::optional<std::int64_t> blockBefore(Sql& sql, const IndexTerm& term, std::int64_t below) {
    std::optional<std::int64_t> newest;
    for (const IndexValue& value : term.values) {
        auto row =
            sql("select max(block) from event_index where word = ? and value = ? and block < ?", wordOf(term.word));
        bindValue(row, value);
        row.bind(below);
        if (row.step() && !row.isNull(0)) newest = std::max(newest.value_or(row.number(0)), row.number(0));
    }
    return newest;
}

std::uint64_t bitsOf(Sql& sql, const IndexTerm& term, std::int64_t block) {
    std::uint64_t bits = 0;
    for (const IndexValue& value : term.values) {
        auto row = sql("select bits from event_index where word = ? and value = ? and block = ?", wordOf(term.word));
        bindValue(row, value);
        row.bind(block);
        if (row.step()) bits |= static_cast<std::uint64_t>(row.number(0));
    }
    return bits;
}

/// The bits of those events of a block that are within the range.
std::uint64_t withinRange(std::int64_t block, SeqRange range) {
    std::uint64_t bits = ~std::uint64_t{0};
    if (block == blockOf(range.first)) bits &= ~std::uint64_t{0} << placeOf(range.first);
    if (block == blockOf(range.last)) bits &= ~std::uint64_t{0} >> (kBlockSize - 1 - placeOf(range.last));
    return bits;
}

/// The first event of `range` that is not before `moment`; one past its end if all are. Times must not fall in it.
std::int64_t firstNotBefore(Sql& sql, SeqRange range, std::int64_t moment) {
    std::int64_t low = range.first;
    std::int64_t high = range.last + 1;
    while (low < high) {
        const std::int64_t middle = low + (high - low) / 2;
        // Not "= ?": a log that somebody cut has gaps, and is still to be shown as far as it goes.
        const auto at = sql.number("select at from event where seq >= ? order by seq limit 1", middle);
        if (at && *at < moment) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/// A run of events in which times never fall, with the times of its ends.
struct SteadyRun {
    SeqRange range;
    std::int64_t firstAt = 0;
    std::int64_t lastAt = 0;
};

/// False if the visitor has enough.
bool visitWithin(Sql& sql, const SteadyRun& run, std::int64_t since, std::int64_t until,
                 const std::function<bool(SeqRange)>& visit) {
    if (run.firstAt >= until || run.lastAt < since) return true;
    SeqRange range = run.range;
    if (run.lastAt >= until) range.last = firstNotBefore(sql, range, until) - 1;
    if (run.firstAt < since) range.first = firstNotBefore(sql, range, since);
    return range.first > range.last || visit(range);
}

}  // namespace

void EventIndexer::add(const ChainedFields& fields, std::optional<std::int64_t> before) {
    if (blockOf(fields.seq) != block_) flush();
    block_ = blockOf(fields.seq);
    const std::uint64_t bit = std::uint64_t{1} << placeOf(fields.seq);
    mark(IndexWord::kKind, fields.kind, bit);
    if (fields.actor) mark(IndexWord::kActor, *fields.actor, bit);
    if (fields.project) mark(IndexWord::kProject, *fields.project, bit);
    if (fields.change) mark(IndexWord::kChange, *fields.change, bit);
    if (fields.stage) mark(IndexWord::kStage, *fields.stage, bit);
    if (before && fields.at < *before)
        sql_.run("insert into clock_step (seq, before, at) values (?, ?, ?)", fields.seq, *before, fields.at);
}

// From the newest on: an event mostly has the values of the one before it.
void EventIndexer::mark(IndexWord word, std::int64_t value, std::uint64_t bit) {
    auto& entries = entries_.at(static_cast<std::size_t>(word));
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry)
        if (std::get<std::int64_t>(entry->value) == value) return static_cast<void>(entry->bits |= bit);
    Entry& added = entries.emplace_back();
    added.value = value;
    added.bits = bit;
}

void EventIndexer::mark(IndexWord word, std::string_view value, std::uint64_t bit) {
    auto& entries = entries_.at(static_cast<std::size_t>(word));
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry)
        if (std::get<std::string>(entry->value) == value) return static_cast<void>(entry->bits |= bit);
    Entry& added = entries.emplace_back();
    added.value.emplace<std::string>(value);
    added.bits = bit;
}

void EventIndexer::flush() {
    for (std::size_t word = 0; word < entries_.size(); ++word) {
        for (const Entry& entry : entries_.at(word)) {
            auto insert = sql_(
                "insert into event_index (word, value, block, bits) values (?, ?, ?, ?) "
                "on conflict do update set bits = bits | excluded.bits",
                kIndexWords.at(word));
            bindValue(insert, entry.value);
            insert.bind(block_).bind(static_cast<std::int64_t>(entry.bits)).run();
        }
        entries_.at(word).clear();
    }
}

void findIndexed(Sql& sql, const std::vector<IndexTerm>& terms, SeqRange range, std::size_t limit,
                 std::vector<std::int64_t>& found) {
    auto block = blockBefore(sql, terms.front(), blockOf(range.last) + 1);
    while (block && *block >= blockOf(range.first) && found.size() < limit) {
        std::uint64_t bits = withinRange(*block, range);
        for (const IndexTerm& term : terms)
            if (bits != 0) bits &= bitsOf(sql, term, *block);
        while (bits != 0 && found.size() < limit) {
            const auto place = static_cast<std::int64_t>(std::bit_width(bits)) - 1;
            found.push_back(*block * kBlockSize + place);
            bits &= ~(std::uint64_t{1} << place);
        }
        block = blockBefore(sql, terms.front(), *block);
    }
}

void visitSpan(Sql& sql, std::int64_t since, std::int64_t until, const std::function<bool(SeqRange)>& visit) {
    SteadyRun run;
    {
        auto head = sql("select seq, at from event order by seq desc limit 1");
        if (!head.step()) return;
        run.range.last = head.number(0);
        run.lastAt = head.number(1);
    }
    auto steps = sql("select seq, before, at from clock_step where seq <= ? order by seq desc", run.range.last);
    while (steps.step()) {
        run.range.first = steps.number(0);
        run.firstAt = steps.number(2);
        if (!visitWithin(sql, run, since, until, visit)) return;
        run.range.last = run.range.first - 1;
        run.lastAt = steps.number(1);
    }
    auto first = sql("select seq, at from event order by seq limit 1");
    if (!first.step()) return;
    run.range.first = first.number(0);
    run.firstAt = first.number(1);
    visitWithin(sql, run, since, until, visit);
}

}  // namespace gradus
