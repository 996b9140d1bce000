#include "policies/language/watch_keys.h"

namespace gradus {

namespace {

using enum ValueType;
using enum Stricter;

constexpr std::int64_t kSecond = 1000;
constexpr std::int64_t kDay = 86'400 * kSecond;
constexpr std::int64_t kMostQueued = 10'000;

}  // namespace

KeyRow soakRow() {
    return {.name = "soak",
            .type = kDuration,
            .documentation = "How long the after checks keep passing before a change counts as promoted.",
            .example = "\"10m\"",
            .most = 30 * kDay,
            .stricter = kMore};
}

KeyRow monitorRow() {
    return {.name = "monitor",
            .type = kDuration,
            .documentation =
                "How long the after checks keep running once a change is promoted; one that fails then takes "
                "it back by a new promotion.",
            .example = "\"24h\"",
            .most = 30 * kDay,
            .stricter = kMore};
}

KeyRow monitorChecksRow() {
    return {.name = "monitor-checks",
            .type = kNameList,
            .documentation =
                "The after checks that keep running while it soaks and is monitored; without it, all of "
                "them.",
            .example = "[\"health\"]"};
}

KeyRow leastSoakRow() {
    return {.name = "soak",
            .type = kDuration,
            .documentation = "The least time that a stage must soak.",
            .example = "\"10m\"",
            .fallback = "\"0s\"",
            .most = 30 * kDay,
            .stricter = kMore};
}

KeyRow leastMonitorRow() {
    return {.name = "monitor",
            .type = kDuration,
            .documentation = "The least time that a stage must be monitored after a promotion.",
            .example = "\"24h\"",
            .fallback = "\"0s\"",
            .most = 30 * kDay,
            .stricter = kMore};
}

KeyRow gapLimitRow() {
    return {.name = "gap-limit",
            .type = kDuration,
            .documentation =
                "How long the checks of a soak may fail to run at one time; after longer nobody knows what "
                "happened, and it is taken back.",
            .example = "\"15m\"",
            .fallback = "\"1d\"",
            .least = 60 * kSecond,
            .most = 30 * kDay,
            .stricter = kLess};
}

KeyRow queueRow() {
    return {
        .name = "queue",
        .type = kCount,
        .documentation = "How many promotions of a stage may wait or be under way at one time; one more is refused.",
        .example = "20",
        .fallback = "100",
        .least = 1,
        .most = kMostQueued,
        .stricter = kLess};
}

KeyRow waitLimitRow() {
    return {.name = "wait-limit",
            .type = kDuration,
            .documentation = "How long a promotion may wait before it ends as expired.",
            .example = "\"2d\"",
            .fallback = "\"30d\"",
            .least = kSecond,
            .most = 365 * kDay,
            .stricter = kLess};
}

}  // namespace gradus
