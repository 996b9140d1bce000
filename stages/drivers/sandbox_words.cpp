#include "stages/drivers/builtin.h"

namespace gradus {

DriverWords sandboxDriverWords() {
    return {.name = "sandbox",
            .documentation = "Nothing real: a change is verified in disposable clones and goes no further.",
            .keys = {},
            .hasTarget = false};
}

}  // namespace gradus
