#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "plugins/isolation/jail_session.h"

namespace gradus {

/// What a sandbox was built on: every directory and file of the host that its plan names, as it was then.
class PlanGround {
  public:
    explicit PlanGround(const JailSetup& setup);
    /// Nothing of it was replaced, removed or made since, and no directory of it has other names in it.
    bool isAsItWas() const;

  private:
    struct Place {
        std::string path;
        dev_t device = 0;
        ino_t inode = 0;
        std::int64_t changed = 0;
        bool operator==(const Place&) const = default;
    };
    static Place look(const std::string& path);

    std::vector<Place> places_;
};

/// Sandboxes built up to their command for a plan that came before and will probably come again. One is given away only
/// for the very same plan, and only while what it was built on is as it was; others are dropped. May be used from
/// several threads at once.
class BuiltAhead {
  public:
    explicit BuiltAhead(std::size_t most) : most_(most) {}

    /// A plan that was asked for: the newest is what is built.
    void note(const JailSetup& setup, std::string plan);
    /// Nothing if there is none. `hostView`: the state of the host's mounts now.
    std::unique_ptr<JailSession> take(const std::string& plan, std::uint64_t hostView);
    /// The plan to build a sandbox for, if there are fewer than there may be. Lets go of those that are of no more use.
    std::optional<JailSetup> wanted(std::uint64_t hostView);
    void put(const JailSetup& setup, std::unique_ptr<JailSession> session, const PlanGround& ground,
             std::uint64_t hostView);
    void clear();
    std::size_t size();
    /// How many were given away.
    std::size_t given();

  private:
    struct Built {
        std::string plan;
        std::uint64_t hostView = 0;
        PlanGround ground;
        std::unique_ptr<JailSession> session;
    };
    bool isOfUse(const Built& built, std::uint64_t hostView) const;
    std::deque<Built> takeUseless(std::uint64_t hostView);

    const std::size_t most_;
    std::mutex mutex_;
    std::optional<JailSetup> newest_;
    std::string newestPlan_;
    int asked_ = 0;  ///< how often in a row
    std::size_t given_ = 0;
    std::deque<Built> built_;
};

}  // namespace gradus
