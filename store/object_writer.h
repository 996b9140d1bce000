#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "store/file.h"
#include "store/model/digest.h"
#include "store/object_file.h"

namespace gradus {

/// How much of a content is looked at to choose its encoding.
inline constexpr std::size_t kObjectBlock = std::size_t{128} * 1024;

/// An object being written, under a temporary name that no reader looks at. The destructor removes the file unless it
/// was moved into its place; if this process dies, a sweep does. One thread at a time.
class ObjectWriter {
  public:
    /// `firstBlock` is the start of the content, or all of it: it decides the encoding. write() still wants it.
    ObjectWriter(const std::filesystem::path& directory, std::string_view firstBlock);
    ~ObjectWriter();
    ObjectWriter(const ObjectWriter&) = delete;
    ObjectWriter& operator=(const ObjectWriter&) = delete;

    void write(std::string_view bytes);
    /// Completes the file, not yet to last, and names the content.
    Digest finish();
    void sync() const { syncFile(file_.get(), path_); }
    /// False when something is there already and `replace` is not set.
    bool moveTo(const std::filesystem::path& target, bool replace);
    int descriptor() const { return file_.get(); }

  private:
    struct Encoder;

    ObjectWriter();
    void create(const std::filesystem::path& directory);
    void store(std::string_view payload);

    FileDescriptor file_;
    std::filesystem::path path_;
    ObjectHeader header_;
    Hasher hasher_;
    std::unique_ptr<Encoder> encoder_;  ///< none for an object stored raw
};

}  // namespace gradus
