#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "store/file.h"
#include "store/model/change_set.h"
#include "store/objects.h"

namespace gradus {

/// A tree to be asked path by path. "Not there" is an answer.
class TreeReader {
  public:
    virtual ~TreeReader() = default;
    /// What is at `path`. Throws Error(kNotAllowed) for what no change can hold (a socket, a set-user-ID file) and for
    /// a path that leads through a link.
    virtual std::optional<Entry> at(const std::string& path) const = 0;
    /// The same, and its content is among `objects` afterwards.
    virtual std::optional<Entry> keep(const std::string& path, Objects& objects) const = 0;
    /// The names in a directory, in order; none where there is no directory.
    virtual std::vector<std::string> names(const std::string& directory) const = 0;
};

/// A directory of the host: every path is looked up beneath it, through no link.
class DirectoryReader final : public TreeReader {
  public:
    /// Throws Error when it cannot be opened.
    explicit DirectoryReader(const std::filesystem::path& directory);
    std::optional<Entry> at(const std::string& path) const override;
    std::optional<Entry> keep(const std::string& path, Objects& objects) const override;
    std::vector<std::string> names(const std::string& directory) const override;

  private:
    std::optional<Entry> read(const std::string& path, Objects* objects) const;

    FileDescriptor root_;
};

}  // namespace gradus
