#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/file.h"
#include "store/model/clock.h"
#include "store/model/digest.h"

namespace gradus {

// How objects lie on disk, for the object store's own files only (docs/object-format.md).

enum class ObjectEncoding : std::uint8_t { kRaw = 0, kZstd = 1 };

/// The front of every object's file.
struct ObjectHeader {
    static constexpr std::size_t kSize = 80;
    static constexpr std::size_t kSealSize = 16;
    /// What a file has besides the payload: the header, and its seal once more at the end.
    static constexpr std::size_t kOverhead = kSize + kSealSize;

    Digest digest;
    ObjectEncoding encoding = ObjectEncoding::kRaw;
    std::uint64_t size = 0;    ///< of the content
    std::uint64_t stored = 0;  ///< of the payload

    std::string encode() const;
    /// The last bytes of the header and of the file.
    static std::string_view sealOf(std::string_view encoded) { return encoded.substr(kSize - kSealSize); }
};

/// The header of an open object, after its kind, length, checksum, name and closing seal were found right; throws
/// Error(kDamaged) otherwise.
ObjectHeader readObjectHeader(int fd, const std::filesystem::path& path, const Digest& expected);

[[noreturn]] void throwDamaged(const std::filesystem::path& path, std::string_view reason);
[[noreturn]] void throwErrno(std::string_view action, const std::filesystem::path& path, int error);

/// Nothing when there is no such file. Never waits (a FIFO) and never follows a link; what is not a regular file is
/// refused by what it is.
std::optional<FileDescriptor> openObjectFile(const std::filesystem::path& path);

/// Takes the lock of a directory and holds it until closed. Publishing and refreshing hold it shared, removing holds it
/// exclusively: so an object that a writer has just found cannot be removed before it is young again.
FileDescriptor lockDirectory(const std::filesystem::path& directory, int operation);

/// Everything in a directory but "." and "..".
std::vector<std::string> namesIn(const std::filesystem::path& directory);

/// The names of the 256 directories that objects are spread over: "00" to "ff".
const std::vector<std::string>& fanOutNames();
/// The object that a file of this name in that directory would hold, if any.
std::optional<Digest> digestOfName(std::string_view fanOut, std::string_view name);

/// Makes a store of `directory` where there is none; refuses one of another release and a directory of something else.
void prepareObjects(const std::filesystem::path& directory);
inline std::filesystem::path temporariesOf(const std::filesystem::path& store) { return store / "tmp"; }

}  // namespace gradus
