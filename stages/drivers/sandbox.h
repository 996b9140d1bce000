#pragma once

#include "stages/drivers/driver.h"

namespace gradus {

/// Nothing real: the tree it holds is the project's, and a change is verified over it and goes no further.
class SandboxDriver final : public StageDriver {
  public:
    explicit SandboxDriver(const DriverContext& context) : context_(context) {}

    TargetIdentity identity() const override;
    std::optional<HeldTree> held() const override;
    std::optional<std::filesystem::path> shown() const override { return context_.project; }
    HeldTree adopt(Adopting /*how*/) override { return *held(); }
    std::vector<Conflict> conflicts(const StageChange&) const override { return {}; }
    Checkpoint checkpoint(const StageChange& change) override;
    ApplyOutcome apply(const Checkpoint& checkpoint) override;
    Observed observe(const Checkpoint&) const override { return Observed::kAfter; }
    RollbackOutcome rollback(const Checkpoint& checkpoint) override;
    std::optional<Digest> treeAfter(const Checkpoint&) const override { return std::nullopt; }
    void tidy(const std::vector<Checkpoint>&) override {}

  private:
    DriverContext context_;
};

}  // namespace gradus
