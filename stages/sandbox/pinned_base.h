#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace gradus {

/// What sandboxes stand on instead of the project as it is: its files as they were at one instant.
struct StandingBase {
    std::filesystem::path directory;  ///< the copy: has every path that a change can be about
    /// For CloneRequest::lowers: the copy, and the project itself where some of it is shown as it is.
    std::vector<std::filesystem::path> lowers;
    timespec since{};     ///< the file system's own clock just before the first byte was read
    bool hasGit = false;  ///< the project's own `.git` is in the copy
};

/// How much is copied at most. What git ignores (node_modules, a virtual environment, what was built) is copied as long
/// as it is small, a directory at a time, and shown as it is otherwise.
struct PinBudget {
    std::uint64_t mostPaths = 50'000;
    std::uint64_t mostBytes = std::uint64_t{1} << 30;  ///< allocated
    std::uint64_t mostIgnoredPaths = 4'000;
    std::uint64_t mostIgnoredBytes = std::uint64_t{128} << 20;
};

/// A project's directory, sorted into what is copied and what is shown as it is. Reads names and sizes, no contents.
class PinPlan {
  public:
    /// Nothing when what git does not ignore is more than the budget allows. Throws Error when the project cannot be
    /// read.
    static std::optional<PinPlan> make(const std::filesystem::path& project, const PinBudget& budget);

    /// Into the empty directory `target`: bytes by reference where the file system can, modes, owners, times and
    /// attributes as they are. False when something was not there any more: plan again.
    bool copyTo(const std::filesystem::path& target) const;

    /// The first path that git does not ignore and that somebody touched since then; nothing if all is as it was.
    std::optional<std::string> firstTouched(const timespec& since) const;
    /// The same for what is shown as it is, and for names that are new beside it. What was never still (a log that is
    /// being written) is not looked at: see settle().
    std::optional<std::string> firstMoved(const timespec& since) const;
    /// What is shown as it is and was touched since then is from now on not looked at; says which.
    std::vector<std::string> settle(const timespec& since);

    std::uint64_t paths() const { return paths_; }
    std::uint64_t bytes() const { return bytes_; }
    bool hasGit() const { return hasGit_; }
    /// Relative paths.
    std::vector<std::string> shownAsTheyAre() const;

  private:
    struct File {
        std::string name;
        bool ignored = false;
    };
    struct Directory {
        std::string path{};
        std::vector<File> files{};      ///< and links, to be copied
        std::set<std::string> names{};  ///< everything in it
        bool ignored = false;           ///< by git, or git's own
        bool shows = false;             ///< something in it, at any depth, is shown as it is
    };
    struct Live {
        std::string path;
        bool watched = true;
    };
    class Walk;

    std::optional<std::string> newName(int root, const Directory& directory) const;
    void openWays();

    std::filesystem::path project_;
    std::vector<Directory> directories_;  ///< each after the one it lies in
    std::vector<Live> live_;
    std::uint64_t paths_ = 0;
    std::uint64_t bytes_ = 0;
    bool hasGit_ = false;
};

/// A copy that stands still, for as long as this lives. Made by Sandboxes::pin().
class PinnedBase {
  public:
    PinnedBase(PinPlan plan, StandingBase base, std::vector<std::string> restless, std::function<void()> remove)
        : plan_(std::move(plan)), base_(std::move(base)), restless_(std::move(restless)), remove_(std::move(remove)) {}
    PinnedBase(const PinnedBase&) = delete;
    PinnedBase& operator=(const PinnedBase&) = delete;
    ~PinnedBase() { remove_(); }

    const StandingBase& base() const { return base_; }
    const PinPlan& plan() const { return plan_; }
    /// Shown as it is, and never still: nobody can say that all see the same of it.
    const std::vector<std::string>& restless() const { return restless_; }
    /// Something that is not copied changed since: what was seen from then on is not what others saw.
    std::optional<std::string> moved() const { return plan_.firstMoved(base_.since); }

  private:
    PinPlan plan_;
    StandingBase base_;
    std::vector<std::string> restless_;
    std::function<void()> remove_;
};

}  // namespace gradus
