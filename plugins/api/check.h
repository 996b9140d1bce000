#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "plugins/host/host_command.h"
#include "policies/language/pipeline.h"
#include "store/model/clock.h"
#include "store/model/digest.h"
#include "store/model/promotion.h"

namespace gradus {

/// What a check says. Errored is not failed: only a check that ran and said no speaks against a change.
struct CheckAnswer {
    Cause verdict = Cause::kErrored;  ///< passed, failed, errored, timed-out, cancelled
    std::optional<std::int64_t> exitCode;
    std::string reason;  ///< a line for a person: "exit code 1", "connection refused, 3 of 3 tries"
    std::string log;     ///< what it printed, within bounds
    /// Kernel, backend and version, guarantees, image: what the verdict was reached in.
    Digest environment;
    std::optional<std::int64_t> execution;  ///< e90, for one that ran in a sandbox
    std::int64_t wallMs = 0;
};

/// What a kind of check is given.
struct CheckContext {
    const Check& check;
    /// Runs the check's words in a sandbox over the tree under test, under the check's limits and guarantees. Never
    /// weaker than asked: a demand that cannot be met is an errored answer with the reason and the cure.
    std::function<CheckAnswer(const std::vector<std::string>& words)> confined;
    /// Runs on the host, in the tree that the stage holds; only for checks that come after.
    std::function<HostOutcome(HostCommand command)> host;
    const Clock& clock;
    std::stop_token cancel;
    /// Told what is going on, for a live view.
    std::function<void(std::string_view)> progress = [](std::string_view) {};
};

/// One way to ask about a change. Holds no state: one object serves all checks, from several threads.
class CheckKind {
  public:
    virtual ~CheckKind() = default;
    virtual std::string_view name() const = 0;
    /// Ends within the check's timeout. Never throws for what is asked about.
    virtual CheckAnswer run(const CheckContext& context) const = 0;
};

}  // namespace gradus
