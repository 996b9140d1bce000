#pragma once

#include <optional>
#include <string>

#include "stages/changes/file_operations.h"

namespace gradus {

/// `current`: the link that says which release a stage shows. Borrows the open directory of the target.
class ReleaseLink {
  public:
    static constexpr const char* kName = "current";
    /// What is being switched, for the time of a switch.
    static constexpr const char* kTemporary = ".gradus-current";

    ReleaseLink(int directory, FileOperations& files) : directory_(directory), files_(files) {}

    /// Where it leads, as it is written; nothing where there is no such name. Throws Error(kNotAllowed) for something
    /// that is no link.
    std::optional<std::string> text() const;

    /// From one to the other in one instant: whoever looks sees the old release or the new one. False, and nothing is
    /// changed, if it is not what `from` says. Durable when this returns.
    bool change(const std::optional<std::string>& from, const std::optional<std::string>& to);

    /// Removes what an interrupted switch left.
    void tidy();

  private:
    bool exchange(const std::string& from, const std::string& to);
    bool make(const std::string& to);
    bool remove(const std::string& from);
    void prepare(const std::string& to);
    void sync();

    int directory_;
    FileOperations& files_;
};

}  // namespace gradus
