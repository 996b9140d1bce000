// Windows. Noon is Wednesday, 2026-03-04 12:00 UTC; Berlin changes to summer time on 2026-03-29 at 01:00 UTC and back
// on 2026-10-25 at 01:00 UTC.
#include "tests/policies/gate/gate_table.h"

namespace gradus::test {

namespace {

std::string window(const std::string& when, const std::string& more = "stages = [\"here\"]") {
    return "[[window]]\n" + more + "\n" + when + "\n";
}

const std::string kWorkdays = window(R"(allow = { cron = "0 9 * * MON-FRI", for = "8h", timezone = "Europe/Berlin" })");
const std::string kWeekend = window(R"(deny = { cron = "0 16 * * FRI", for = "64h", timezone = "Europe/Berlin" })");
const std::string kNight = window(R"(deny = { cron = "30 2 * * *", for = "1h", timezone = "Europe/Berlin" })");
const std::string kTwoShifts =
    window(R"(allow = { cron = "0 8 * * *", for = "4h" })") + window(R"(allow = { cron = "0 12 * * *", for = "4h" })");
const std::string kAlways = window(R"(allow = { cron = "*/30 * * * *", for = "30m", timezone = "Europe/Berlin" })");
const std::string kAgents =
    "alone = [\"person\", \"agent\"]\n" +
    window(R"(deny = { cron = "0 0 * * *", for = "24h" })", "stages = [\"here\"]\nactors = [\"agent\", \"daemon\"]");

}  // namespace

std::vector<Row> timeRows() {
    return {
        {"no window", "", "", "step=apply na=window"},
        {"a window of another stage", window(R"(deny = { cron = "* * * * *", for = "1h" })", "stages = [\"local\"]"),
         "", "step=apply na=window"},
        {"within working hours", kWorkdays, "", "step=apply open=window next=window:2026-03-04T16:00"},
        {"before working hours", kWorkdays, "at=2026-03-04T07:59",
         "step=wait closed=window next=window:2026-03-04T08:00"},
        {"as working hours begin", kWorkdays, "at=2026-03-04T08:00", "step=apply next=window:2026-03-04T16:00"},
        {"just before working hours end", kWorkdays, "at=2026-03-04T15:59:59.999", "step=apply"},
        {"as working hours end", kWorkdays, "at=2026-03-04T16:00",
         "step=wait closed=window next=window:2026-03-05T08:00"},
        {"on Friday evening", kWorkdays, "at=2026-03-06T20:00", "step=wait closed=window next=window:2026-03-09T08:00"},
        {"on the weekend over which summer begins", kWorkdays, "at=2026-03-28T12:00 checked=age:1h",
         "step=wait closed=window next=window:2026-03-30T07:00"},
        {"on the weekend over which summer ends", kWorkdays, "at=2026-10-24T12:00 checked=age:1h",
         "step=wait closed=window next=window:2026-10-26T08:00"},

        {"before the weekend", kWeekend, "", "step=apply open=window next=window:2026-03-06T15:00"},
        {"just before the weekend", kWeekend, "at=2026-03-06T14:59:59.999", "step=apply"},
        {"as the weekend begins", kWeekend, "at=2026-03-06T15:00",
         "step=wait closed=window next=window:2026-03-09T07:00"},
        {"during the weekend", kWeekend, "at=2026-03-08T03:00", "step=wait closed=window next=window:2026-03-09T07:00"},
        {"as the weekend ends", kWeekend, "at=2026-03-09T07:00", "step=apply next=window:2026-03-13T15:00"},
        {"64 hours are 64 hours when an hour is skipped", kWeekend, "at=2026-03-28T12:00 checked=age:1h",
         "step=wait closed=window next=window:2026-03-30T07:00"},
        {"64 hours are 64 hours when an hour is repeated", kWeekend, "at=2026-10-24T12:00 checked=age:1h",
         "step=wait closed=window next=window:2026-10-26T06:00"},

        {"at night", kNight, "at=2026-03-05T01:45", "step=wait closed=window next=window:2026-03-05T02:30"},
        {"in the night whose clock jumps over the start it starts at the jump", kNight,
         "at=2026-03-29T01:00 checked=age:1h", "step=wait closed=window next=window:2026-03-29T02:00"},
        {"before the jump", kNight, "at=2026-03-29T00:59 checked=age:1h", "step=apply next=window:2026-03-29T01:00"},
        {"in the night whose clock shows the start twice it starts twice", kNight, "at=2026-10-25T00:40 checked=age:1h",
         "step=wait closed=window next=window:2026-10-25T02:30"},
        {"before the first of both", kNight, "at=2026-10-25T00:29 checked=age:1h",
         "step=apply next=window:2026-10-25T00:30"},

        {"the first of two shifts", kTwoShifts, "at=2026-03-04T09:00", "step=apply next=window:2026-03-04T16:00"},
        {"as the shifts change", kTwoShifts, "at=2026-03-04T12:00", "step=apply next=window:2026-03-04T16:00"},
        {"after both shifts", kTwoShifts, "at=2026-03-04T17:00",
         "step=wait closed=window next=window:2026-03-05T08:00"},
        {"always is always", kAlways, "", "step=apply open=window next=window:never"},
        {"always is always when an hour is repeated", kAlways, "at=2026-10-25T01:10 checked=age:1h", "step=apply"},
        {"always is always when an hour is skipped", kAlways, "at=2026-03-29T01:10 checked=age:1h", "step=apply"},
        {"deny wins over allow", kWorkdays + kWeekend, "at=2026-03-06T15:30",
         "step=wait closed=window next=window:2026-03-09T08:00"},
        {"deny shortens allow", kWorkdays + kWeekend, "at=2026-03-06T12:00", "step=apply next=window:2026-03-06T15:00"},
        {"never is never", window(R"(allow = { cron = "0 0 30 2 *", for = "1h" })"), "",
         "step=wait closed=window next=window:never"},
        {"a leap day is years away", window(R"(allow = { cron = "0 0 29 2 *", for = "1h" })"), "",
         "step=wait closed=window next=window:2028-02-29T00:00"},
        {"a day of the month or of the week", window(R"(deny = { cron = "0 0 13 * FRI", for = "1d" })"),
         "at=2026-03-05T00:00", "step=apply next=window:2026-03-06T00:00"},
        {"another side of the world",
         window(R"(allow = { cron = "0 9 * * *", for = "1h", timezone = "Australia/Lord_Howe" })"), "",
         "step=wait closed=window next=window:2026-03-04T22:00"},
        {"a zone that jumps by half an hour",
         window(R"(allow = { cron = "0 9 * * *", for = "1h", timezone = "Australia/Lord_Howe" })"),
         "at=2026-07-01T00:00 checked=age:1h", "step=wait closed=window next=window:2026-07-01T22:30"},
        {"a zone that is not known here keeps closed what it allows",
         window(R"(allow = { cron = "* * * * *", for = "1h", timezone = "Asia/Tokyo" })"), "",
         "step=wait closed=window next=window:never"},
        {"a zone that is not known here keeps closed what it denies",
         window(R"(deny = { cron = "0 0 1 1 *", for = "1h", timezone = "Asia/Tokyo" })"), "",
         "step=wait closed=window"},

        {"a window for agents binds an agent", kAgents, "by=agent:fixer promoter=agent:fixer",
         "step=wait closed=window"},
        {"a window for agents does not bind a person", kAgents, "", "step=apply na=window"},
        {"a window for agents does not bind a person who promotes an agent's change", kAgents, "by=agent:fixer",
         "step=apply na=window"},
        {"a closed window is overridden", kWeekend, "at=2026-03-08T03:00 override=window", "step=apply open=window"},
        {"an overridden window does not close later", kWeekend, "override=window", "step=apply next=window:never"},
        {"people are not asked while the window is closed", "approvals = [{ count = 1 }]\n" + kWeekend,
         "at=2026-03-08T03:00", "step=wait closed=approvals,window"},
        {"an approval given at the weekend is kept", "approvals = [{ count = 1 }]\n" + kWeekend,
         "at=2026-03-08T03:00 yes=ben,age:1h", "step=wait closed=window open=approvals"},
    };
}

}  // namespace gradus::test
