#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <list>

#include "store/audit_log.h"
#include "store/audit_verify.h"
#include "store/projection.h"
#include "tests/support/sample_store.h"

namespace gradus {

namespace fs = std::filesystem;

/// The log every case starts from. A line is a commit:
///   1 log.started | 2 actor, 3 project | 4 rules.trusted | 5 submit c1 | 6 submit c2 | 7 revise c1 |
///   8..15 one promotion of c1 | 16 submit c3 | 17 redacts 16 | 18..25 submit c4..c11, a commit each
inline constexpr std::int64_t kHead = 25;

inline void fillLog(Store& store) {
    const test::Climb climb = test::Climb::begin(store);
    store.write([&](Writer& w) {
        w.trustRules(climb.project, climb.actor, test::someDigest("rules"), test::someDigest("files"));
    });
    const auto submit = [&](const std::string& title) {
        store.write([&](Writer& w) { w.submit(climb.project, climb.actor, test::someSubmission(title)); });
    };
    submit("first");
    submit("second");
    store.write([&](Writer& w) { w.revise(1, climb.actor, test::someSubmission("first, better")); });
    store.write([&](Writer& w) { climb.stage(w, 1, "staging", PromotionState::kPromoted); });
    submit("a secret");
    store.write([&](Writer& w) { w.redact(16, climb.actor); });
    for (int i = 4; i <= 11; ++i) submit("change " + std::to_string(i));
}

inline std::vector<std::string> linesOf(const fs::path& path) {
    std::ifstream in(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

inline void writeLines(const fs::path& path, const std::vector<std::string>& lines) {
    std::ofstream out(path, std::ios::trunc);
    for (const std::string& line : lines) out << line << '\n';
}

/// A hand on the files: a connection of its own, with every guard of the schema taken away.
class Tamperer {
  public:
    explicit Tamperer(const StateDirectory& state) : state_(state), sql_(state.database(), Sql::Mode::kReadWrite) {
        sql_.script("pragma foreign_keys = off; pragma ignore_check_constraints = on; pragma synchronous = off");
        std::vector<std::string> triggers;
        {
            auto rows = sql_("select name from sqlite_schema where type = 'trigger'");
            while (rows.step()) triggers.push_back(rows.text(0));
        }
        for (const std::string& name : triggers) sql_.script("drop trigger " + name);
    }

    void run(const std::string& script) { sql_.script(script); }
    Sql& sql() { return sql_; }
    /// The first row's first column, if there is a row; empty if it is null.
    std::optional<std::string> read(const std::string& select) {
        auto row = sql_(texts_.emplace_back(select));
        if (!row.step()) return std::nullopt;
        return row.isNull(0) ? std::string() : row.text(0);
    }
    const StateDirectory& state() const { return state_; }

    /// Makes the chain whole again from event `from` to event `to`, whatever stands there.
    void rechain(std::int64_t from = 1, std::int64_t to = std::int64_t{1} << 40) {
        Digest previous;
        if (auto row = sql_("select hash from event where seq < ? order by seq desc limit 1", from); row.step())
            previous = row.digest(0);
        ChainHasher hasher;
        for (std::int64_t seq = from; seq <= to && rechainOne(hasher, seq, previous); ++seq) {
        }
    }

    /// Moves the numbers of all events from `from` on; through far ones, because a number may be taken only once.
    void renumber(std::int64_t from, std::int64_t by) {
        for (const char* table : {"event", "payload"}) {
            run(fmt::format("update {} set seq = seq + 1000000 where seq >= {}", table, from));
            run(fmt::format("update {} set seq = seq - 1000000 + ({}) where seq >= 1000000", table, by));
        }
    }

    void swap(std::int64_t a, std::int64_t b, const std::string& columns) {
        run("create temp table kept as select * from event");
        const auto copy = [&](std::int64_t to, std::int64_t from) {
            run(fmt::format("update event set ({0}) = (select {0} from kept where seq = {1}) where seq = {2}", columns,
                            from, to));
        };
        copy(a, b);
        copy(b, a);
        run("drop table kept");
    }

    /// An event that never happened, with room made for it.
    void insertAt(std::int64_t seq) {
        renumber(seq, 1);
        addEvent(seq);
    }
    void addEvent(std::int64_t seq) {
        run(
            fmt::format("insert into event (seq, at, batch, kind, body, hash) values ({}, 1772366400000, 0, "
                        "'clock.went-back', '{{\"by-ms\":5000}}', zeroblob(32))",
                        seq));
    }

    void rebuildState() {
        for (const std::string_view table : kStateTables) run(fmt::format("delete from {}", table));
        replay(sql_, sql_, 1, std::int64_t{1} << 40);
    }

    std::vector<std::string> anchor() const { return linesOf(state_.anchor()); }
    void anchor(const std::vector<std::string>& lines) const { writeLines(state_.anchor(), lines); }
    /// Which line vouches for that event.
    std::size_t anchorLine(std::int64_t seq) const {
        const auto lines = anchor();
        for (std::size_t i = 0; i < lines.size(); ++i)
            if (lines[i].starts_with(std::to_string(seq) + " ")) return i;
        ADD_FAILURE() << "the anchor has no line for event " << seq;
        return 0;
    }
    void forgetNewestAnchorLines(std::size_t count) const {
        auto lines = anchor();
        lines.resize(lines.size() - count);
        anchor(lines);
    }

  private:
    bool rechainOne(ChainHasher& hasher, std::int64_t seq, Digest& previous) {
        {
            auto row = sql_(
                "select seq, at, batch, kind, actor, project, change, promotion, stage, body, payload_digest, hash "
                "from event where seq = ?",
                seq);
            if (!row.step()) return false;
            previous = hasher.link(previous, chainedFields(row));
        }
        sql_.run("update event set hash = ? where seq = ?", previous, seq);
        return true;
    }

    StateDirectory state_;
    std::list<std::string> texts_;  // a connection borrows the text of its statements
    Sql sql_;
};

/// The log is made once; each case works on a copy of its directory.
class TamperedStore {
  public:
    explicit TamperedStore(const StateDirectory& original) : state{directory_ / "state"} {
        fs::copy(original.root, state.root, fs::copy_options::recursive);
    }

    AuditVerdict tamperAndVerify(const std::function<void(Tamperer&)>& tamper) const {
        Tamperer tamperer(state);
        tamper(tamperer);
        return verify();
    }
    AuditVerdict verify() const {
        Sql sql(state.database(), Sql::Mode::kReadOnly);
        return verifyAudit(sql, FileAnchor(state.anchor()));
    }

  private:
    test::ScratchDirectory directory_;

  public:
    StateDirectory state;
};

inline const StateDirectory& shortLog() {
    static test::SampleStore sample;
    static const bool kFilled = [] {
        Store store = sample.open();
        fillLog(store);
        EXPECT_EQ(store.records().counts().events, kHead);
        store.sql().script("pragma wal_checkpoint(truncate)");
        return true;
    }();
    EXPECT_TRUE(kFilled);
    return sample.state;
}

}  // namespace gradus
