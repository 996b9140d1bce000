#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/file.h"
#include "store/model/clock.h"
#include "store/model/digest.h"

namespace gradus {

class ObjectWriter;

/// Where bytes come from, a piece at a time.
class ByteSource {
  public:
    virtual ~ByteSource() = default;
    /// Fills the front of `space` and says how much; 0 only at the end. Faults are thrown.
    virtual std::size_t read(std::span<char> space) = 0;
};

/// One stored object, read from front to back. One thread at a time; stays readable when the object is swept meanwhile.
class ObjectReader final : public ByteSource {
  public:
    ObjectReader(ObjectReader&&) noexcept;
    ObjectReader& operator=(ObjectReader&&) noexcept;
    ~ObjectReader() override;

    std::uint64_t size() const;
    /// The last piece is handed out only once the digest of the whole is proven, so whoever has read size() bytes has
    /// read the right ones. Throws Error(kDamaged) naming the file otherwise.
    std::size_t read(std::span<char> space) override;

  private:
    friend class Objects;
    struct State;
    explicit ObjectReader(std::unique_ptr<State> state);
    /// Throws Error(kDamaged) unless length, header and seal of the file are right.
    static ObjectReader over(FileDescriptor file, const std::filesystem::path& path, const Digest& digest);
    /// The bytes are proven too, to the end. Leaves nothing to read.
    void verify();
    int descriptor() const;
    std::uint64_t stored() const;

    std::unique_ptr<State> state_;
};

struct SweepReport {
    std::uint64_t referenced = 0;
    std::uint64_t young = 0;  ///< put or refreshed within the grace
    std::uint64_t removed = 0;
    std::uint64_t removedBytes = 0;             ///< as stored, temporaries included
    std::uint64_t temporaries = 0;              ///< left behind by dead writers, removed
    std::uint64_t writers = 0;                  ///< temporaries of living writers, left alone
    std::vector<std::filesystem::path> strays;  ///< not ours, or not a regular file: left alone
};

struct ObjectsCheck {
    struct Flaw {
        std::filesystem::path file;
        std::string reason;
    };
    static constexpr std::size_t kMostFlaws = 1000;

    std::uint64_t objects = 0;      ///< whole ones
    std::uint64_t bytes = 0;        ///< their content
    std::uint64_t storedBytes = 0;  ///< what it takes on disk
    std::uint64_t damaged = 0;
    std::uint64_t unreadable = 0;  ///< the machine would not let us look
    std::vector<Flaw> flaws;       ///< at most kMostFlaws, with the reason for each
    std::vector<std::filesystem::path> strays;
};

/// Content-addressed bytes in one directory (docs/object-format.md): the SHA-256 of the content is its name, equal
/// contents are stored once. Holds no state but the path: any number of threads and processes may use one directory.
class Objects {
  public:
    /// Opens the store in `directory`, making it when there is none. Throws when the directory holds something else
    /// or was written by a newer release. `clock` must outlive this.
    Objects(std::filesystem::path directory, const Clock& clock);

    /// When this returns the content survives a power cut and is safe from every sweep for the grace from now. When it
    /// throws no temporary is left and nothing half-written is visible. Takes constant memory, whatever the size.
    /// Content that is there already is not written again, but refreshed (see refresh()); a damaged copy of it is
    /// replaced by a whole one.
    Digest put(ByteSource& source);
    Digest put(std::string_view bytes);
    /// From the descriptor's position to its end; `name` is for messages.
    Digest putFrom(int fd, const std::filesystem::path& name);

    /// Makes an object young again, as if it had just been put, and says whether there was a believable one: whoever
    /// wants to refer to an object not put in the same breath asks this first. Believable means: a regular file of the
    /// exact length, with an unhurt header, the right digest and the seal at the end; contents up to 1 MiB are read and
    /// hashed besides.
    bool refresh(const Digest& digest);

    bool contains(const Digest& digest) const { return size(digest).has_value(); }
    /// Of the content, from the header alone. A file that cannot be an object is a fault, its absence an answer.
    std::optional<std::uint64_t> size(const Digest& digest) const;
    std::optional<ObjectReader> find(const Digest& digest) const;
    /// As find(), for one that must be there: throws Error(kNotFound).
    ObjectReader open(const Digest& digest) const;
    /// The whole content; throws Error(kNotAllowed) when it is larger than `cap`.
    std::string readAll(const Digest& digest, std::uint64_t cap) const;

    /// Removes what nothing refers to and nobody has put or refreshed within `grace` before `now`, and the temporaries
    /// of dead writers. `now` is when the references were read, not later: an object put before that and committed
    /// after it is then protected by its age. `isReferenced` is called without any lock held, once per old object.
    SweepReport sweep(const std::function<bool(const Digest&)>& isReferenced, Time now, Milliseconds grace);

    /// Reads every object to its end. Damage is the answer here, not a fault.
    ObjectsCheck check() const;

    std::filesystem::path pathOf(const Digest& digest) const;

  private:
    struct Occupant;

    Occupant occupantOf(const Digest& digest) const;
    Digest store(ObjectWriter& writer);
    bool place(ObjectWriter& writer, const Digest& digest) const;
    void checkObject(const Digest& digest, ObjectsCheck& check) const;

    std::filesystem::path directory_;
    const Clock& clock_;
};

}  // namespace gradus
