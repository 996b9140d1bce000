#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

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
    std::optional<Digest> environment;
    std::optional<std::int64_t> execution;  ///< e90, for one that ran in a sandbox
    bool isKept = false;                    ///< and what it left is there to be looked at
    std::int64_t wallMs = 0;
};

/// What a kind of check is given.
struct CheckContext {
    const Check& check;
    /// Runs the check's words in a sandbox over the tree under test, under the check's limits and guarantees. Never
    /// weaker than asked: a demand that cannot be met is an errored answer with the reason and the cure.
    std::function<CheckAnswer(const std::vector<std::string>& words)> confined;
    /// Runs the check's words on the host, in the tree that the stage shows; only for checks that come after.
    std::function<CheckAnswer(const std::vector<std::string>& words)> onHost;
    std::stop_token cancel;
    /// Told what is going on, for a live view.
    std::function<void(std::string_view)> progress = [](std::string_view) {};
};

/// One way to ask about a change. Holds no state: one object serves all checks, from several threads.
class CheckKind {
  public:
    virtual ~CheckKind() = default;
    /// Ends within the check's timeout. Never throws for what is asked about. `wallMs` and `environment` are filled in
    /// by the caller where they are left out.
    virtual CheckAnswer run(const CheckContext& context) const = 0;
};

/// By name.
using CheckKinds = std::map<std::string, std::unique_ptr<const CheckKind>, std::less<>>;

}  // namespace gradus
