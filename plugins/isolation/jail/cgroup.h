#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugins/isolation/jail/attempt.h"
#include "plugins/isolation/jail/system.h"
#include "store/model/limits.h"

namespace gradus {

/// The file system calls the cgroup code makes, so that a test can stand a hierarchy of its own in their place.
/// Each returns 0 or an errno.
class CgroupFiles {
  public:
    virtual ~CgroupFiles() = default;
    virtual int makeDirectory(const std::string& path) = 0;
    virtual int removeDirectory(const std::string& path) = 0;
    virtual int write(const std::string& path, std::string_view text) = 0;
    virtual int read(const std::string& path, std::string& text) = 0;
    virtual int list(const std::string& path, std::vector<std::string>& names) = 0;
    virtual bool exists(const std::string& path) = 0;
    /// Of files that are asked for again and again, from wherever the paths are no longer in view: once opened they
    /// stay so, until letGo().
    virtual int writeAgain(const std::string& path, std::string_view text) { return write(path, text); }
    virtual int readAgain(const std::string& path, std::string& text) { return read(path, text); }
    virtual void letGo() {}
};

class KernelCgroupFiles final : public CgroupFiles {
  public:
    int makeDirectory(const std::string& path) override;
    int removeDirectory(const std::string& path) override;
    int write(const std::string& path, std::string_view text) override;
    int read(const std::string& path, std::string& text) override;
    int list(const std::string& path, std::vector<std::string>& names) override;
    bool exists(const std::string& path) override;
    int writeAgain(const std::string& path, std::string_view text) override;
    int readAgain(const std::string& path, std::string& text) override;
    void letGo() override { open_.clear(); }

  private:
    /// Below 0 with errno: it cannot be opened.
    int opened(const std::string& path, int flags);

    std::map<std::pair<std::string, int>, Descriptor> open_;
};

/// What the kernel has counted for a sandbox.
struct CgroupCounters {
    std::uint64_t oomKills = 0;
    std::uint64_t taskRefusals = 0;
    std::optional<std::uint64_t> memoryPeak;  ///< since resetPeaks(), if it rose
    std::optional<std::uint64_t> memoryNow;   ///< where the peak cannot be reset
    std::optional<std::uint64_t> taskPeak;    ///< since resetPeaks(), if it rose
    std::optional<std::uint64_t> cpuNanos;
};

/// One sandbox's control groups: one directory on a unified hierarchy, one per controller on the old ones, both kinds
/// on a hybrid machine. Created below our own place, so that limits around us stay in force; removed by remove().
class Cgroups {
  public:
    /// `root` is where hierarchies are mounted; `ownCgroups` is the text of /proc/self/cgroup; `name` is ours alone.
    Cgroups(CgroupFiles& files, std::string root, std::string_view ownCgroups, std::string name);

    /// Makes the groups that `limits` need and sets them; `scratchBytes` is room for the scratch space, whose pages the
    /// kernel charges to the memory group. What could not be had stays kNone in enforcer().
    void create(const Limits& limits, std::uint64_t scratchBytes);
    Enforcer enforcer(LimitName name) const;
    /// Why a limit is not held here, in words.
    const std::string& reason() const { return reason_; }

    /// The files (old hierarchies) into which a process writes 0 to join.
    std::vector<std::string> taskFiles() const;
    /// The directory (unified hierarchy) into which a process is born; empty if there is none.
    const std::string& unifiedDirectory() const { return unifiedAccess_; }
    /// The old memory hierarchy's directory, for its out-of-memory event; empty if memory is not held there.
    std::string oldMemoryDirectory() const;

    /// From now on the groups are reached through open descriptors: their paths may no longer be in view, except for
    /// remove().
    void holdOpen();

    CgroupCounters counters() const;
    /// Forgets the peaks of earlier runs. Where the kernel does not let us, one that does not rise from now on is
    /// nobody's.
    void resetPeaks();
    /// False if some are still in use; a further call tries those again.
    bool remove();

  private:
    struct Old {
        std::string controller;
        std::string directory;
        std::string access;  ///< how it is reached
    };

    void createOld(const std::string& controller, const Limits& limits, std::uint64_t scratchBytes);
    void createUnified(const Limits& limits, std::uint64_t scratchBytes);
    bool findPlace(const std::string& top, const std::string& own, std::size_t least, std::vector<std::string>& wanted);
    bool makeUnifiedBelow(const std::string& parent, const std::vector<std::string>& wanted);
    bool handsOn(const std::string& parent, const std::vector<std::string>& wanted);
    bool set(const std::string& path, const std::string& value);
    std::string oldDirectory(std::string_view controller) const;
    std::string tasksDirectory() const;
    std::optional<std::uint64_t> number(const std::string& path) const;
    std::optional<std::uint64_t> keyed(const std::string& path, std::string_view key) const;
    void sweep(const std::string& parent);

    CgroupFiles& files_;
    std::string root_;
    std::vector<std::string> own_;  ///< lines of /proc/self/cgroup
    std::string name_;
    std::vector<Old> old_;
    std::string unified_;
    std::string unifiedAccess_;
    std::vector<Descriptor> held_;
    Enforcer memory_ = Enforcer::kNone;
    Enforcer tasks_ = Enforcer::kNone;
    Enforcer share_ = Enforcer::kNone;
    Enforcer time_ = Enforcer::kNone;
    std::uint64_t memoryFloor_ = 0;
    std::uint64_t taskFloor_ = 0;
    std::string reason_;
};

/// "gradus-PID-START": tells whose a group is for as long as this boot lasts.
std::string cgroupName(pid_t pid, std::uint64_t start, std::uint64_t serial);
/// The owner named by a group's name is gone.
bool isOrphan(std::string_view name);

}  // namespace gradus
