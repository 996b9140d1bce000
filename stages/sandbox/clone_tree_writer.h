#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/file.h"

namespace gradus {

/// Writes files of a commit into a fresh directory. Whatever a hostile tree names, nothing is written outside of it and
/// nothing twice: every name is looked at, no link is followed, nothing that exists is opened.
class TreeFiles {
  public:
    /// Makes `root`. With an owner given (as root) everything belongs to it.
    TreeFiles(const std::filesystem::path& root, std::optional<uid_t> owner, gid_t group);

    void directory(const std::string& path);
    void link(const std::string& path, const std::string& text);
    /// A submodule: its files are in another repository.
    void submodule(const std::string& path);

    /// One file at a time: begin, its bytes in pieces, end.
    void beginFile(const std::string& path, bool executable);
    void write(std::string_view bytes);
    void endFile();

    const std::vector<std::string>& notes() const { return notes_; }

  private:
    FileDescriptor parentOf(const std::string& path, std::string& name) const;
    void own(int directory, const std::string& name) const;

    std::filesystem::path root_;
    FileDescriptor top_;
    std::optional<uid_t> owner_;
    gid_t group_;
    std::string fileName_;
    FileDescriptor file_;
    bool executable_ = false;
    bool isStart_ = false;
    std::size_t lfsFiles_ = 0;
    std::vector<std::string> notes_;
};

}  // namespace gradus
