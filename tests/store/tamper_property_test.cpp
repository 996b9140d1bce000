// Whatever is edited, it is found.
#include <rapidcheck.h>

#include "tests/store/tamper_rig.h"
#include "tests/support/case.h"

namespace gradus {
namespace {

using enum Tampering;

struct RandomEdit {
    std::int64_t seq = 0;
    std::string column;
};

rc::Gen<RandomEdit> anyEdit() {
    return rc::gen::build<RandomEdit>(
        rc::gen::set(&RandomEdit::seq, rc::gen::inRange<std::int64_t>(1, kHead + 1)),
        rc::gen::set(&RandomEdit::column,
                     rc::gen::element<std::string>("at", "batch", "kind", "actor", "project", "change", "promotion",
                                                   "stage", "body", "payload_digest", "hash", "salt", "text")));
}

bool isOfThePayload(const RandomEdit& edit) { return edit.column == "salt" || edit.column == "text"; }

bool isBlob(const std::string& column) { return column == "payload_digest" || column == "hash" || column == "salt"; }

bool isText(const std::string& column) {
    return column == "kind" || column == "stage" || column == "body" || column == "text";
}

/// Another value than the one that is there: one bit of it turned around, or something where there was nothing.
void applyEdit(Tamperer& t, const RandomEdit& edit, unsigned bit) {
    const std::string table = isOfThePayload(edit) ? "payload" : "event";
    const auto old = t.read(fmt::format("select {} from {} where seq = {}", edit.column, table, edit.seq));
    RC_PRE(old.has_value());
    std::string value = *old;
    if (!isBlob(edit.column) && !isText(edit.column))
        return t.run(fmt::format("update event set {0} = coalesce({0}, -1) + {1} where seq = {2}", edit.column,
                                 1U << (bit % 20), edit.seq));
    if (value.empty())
        value.assign(isBlob(edit.column) ? 32 : 1, 'a');
    else if (isBlob(edit.column))
        value[bit / 8 % value.size()] ^= static_cast<char>(1U << (bit % 8));
    else
        value[bit % value.size()] ^= 1;  // the lowest bit: stays ASCII
    std::string quoted = "x'";
    for (const char c : value) quoted += fmt::format("{:02x}", static_cast<unsigned char>(c));
    quoted += "'";
    if (isText(edit.column)) quoted = "cast(" + quoted + " as text)";
    t.run(fmt::format("update {} set {} = {} where seq = {}", table, edit.column, quoted, edit.seq));
}

TEST(TamperProperty, AnySingleEditIsFoundAndNamedPrecisely) {
    GRADUS_CASES("I12", "DL6");
    const int wanted = std::getenv("GRADUS_LONG") != nullptr ? 2000 : 200;
    const char* given = std::getenv("RC_PARAMS");
    ::setenv("RC_PARAMS", fmt::format("{} max_success={}", given != nullptr ? given : "seed=2026", wanted).c_str(), 1);
    int found = 0;
    const bool held = rc::check([&] {
        const RandomEdit edit = *anyEdit();
        const unsigned bit = *rc::gen::arbitrary<unsigned>();
        const TamperedStore store(shortLog());
        const AuditVerdict verdict = store.tamperAndVerify([&](Tamperer& t) { applyEdit(t, edit, bit); });
        RC_LOG() << edit.column << " of event " << edit.seq << ": " << verdict.detail;
        RC_ASSERT(verdict.kind == kAltered);
        RC_ASSERT(verdict.seq == edit.seq);
        ++found;
    });
    EXPECT_TRUE(held);
    EXPECT_GE(found, wanted);
}

}  // namespace
}  // namespace gradus
