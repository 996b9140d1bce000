#include "plugins/checks/builtin.h"

namespace gradus {

CheckKindWords httpCheckWords() {
    return {.name = "http",
            .documentation = "Asks an address; the expected status, several times in a row, is a yes.",
            .keys =
                {
                    {.name = "http",
                     .type = ValueType::kUrl,
                     .documentation = "The address that is asked.",
                     .example = "\"http://127.0.0.1:8080/healthz\"",
                     .required = true},
                    {.name = "expect-status",
                     .type = ValueType::kCountList,
                     .documentation = "The status that is a yes.",
                     .example = "[200, 204]",
                     .fallback = "200",
                     .least = 100,
                     .most = 599},
                    {.name = "consecutive-success",
                     .type = ValueType::kCount,
                     .documentation = "How often in a row it must be so.",
                     .example = "3",
                     .fallback = "1",
                     .least = 1,
                     .most = 1000},
                    {.name = "interval",
                     .type = ValueType::kDuration,
                     .documentation = "The time between two attempts.",
                     .example = "\"5s\"",
                     .fallback = "\"5s\"",
                     .least = 100,
                     .most = 3'600'000},
                },
            .when = "after"};
}

}  // namespace gradus
