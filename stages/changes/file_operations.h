#pragma once

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/file.h"

namespace gradus {

/// How a name is given to something that has one already.
enum class Move {
    kNoReplace,  ///< EEXIST when the new name is taken
    kExchange,   ///< both names stay, each with what the other had; ENOENT when one is missing
};

/// Every call by which the writer and the drivers change anything, one method each, so that a test can kill the process
/// before the Nth of them or let it fail. A `name` is one component below an open directory: no call looks through a
/// link. The result is 0 or an errno, as the kernel said it.
class FileOperations {
  public:
    virtual ~FileOperations() = default;

    /// A new file of mode 0600, open for writing; EEXIST when the name is taken.
    virtual int createFile(int directory, const std::string& name, FileDescriptor& made) = 0;
    /// May write less than it is given; `written` says how much.
    virtual int write(int file, std::string_view bytes, std::uint64_t offset, std::size_t& written) = 0;
    virtual int resize(int file, std::uint64_t size) = 0;
    /// All of `source` by reference: the copy takes no room until one of them is written. EOPNOTSUPP, EXDEV or EINVAL
    /// where the file system cannot.
    virtual int shareContent(int file, int source) = 0;
    virtual int makeDirectory(int directory, const std::string& name) = 0;  ///< of mode 0700
    virtual int makeLink(int directory, const std::string& name, const std::string& text) = 0;
    virtual int move(int fromDirectory, const std::string& from, int toDirectory, const std::string& to, Move how) = 0;
    virtual int removeFile(int directory, const std::string& name) = 0;
    virtual int removeDirectory(int directory, const std::string& name) = 0;
    /// These three also take a descriptor that was opened with O_PATH, of whatever type.
    virtual int setMode(int file, mode_t mode) = 0;
    virtual int setOwner(int file, uid_t user, gid_t group) = 0;
    virtual int setModified(int file, const timespec& time) = 0;
    virtual int setAttribute(int file, const std::string& name, std::string_view value) = 0;
    /// What was written to a file, or the names of a directory, survive a power cut.
    virtual int sync(int file) = 0;
    struct SyncFault {
        std::size_t file = 0;  ///< which of them
        int error = 0;
    };
    /// The same for each of several; gives the first that failed. In their order, unless it can be done at once.
    virtual std::optional<SyncFault> syncAll(const std::vector<int>& files);
    /// The same for all of the file system: for a directory whose mode does not let it be opened.
    virtual int syncFileSystem(int anyFile) = 0;
    /// A change that another program makes for us (git). `what` names it; `act` gives 0 or an errno.
    virtual int delegate(std::string_view what, const std::function<int()>& act) = 0;
};

/// The kernel itself. Holds no state.
class RealFileOperations final : public FileOperations {
  public:
    int createFile(int directory, const std::string& name, FileDescriptor& made) override;
    int write(int file, std::string_view bytes, std::uint64_t offset, std::size_t& written) override;
    int resize(int file, std::uint64_t size) override;
    int shareContent(int file, int source) override;
    int makeDirectory(int directory, const std::string& name) override;
    int makeLink(int directory, const std::string& name, const std::string& text) override;
    int move(int fromDirectory, const std::string& from, int toDirectory, const std::string& to, Move how) override;
    int removeFile(int directory, const std::string& name) override;
    int removeDirectory(int directory, const std::string& name) override;
    int setMode(int file, mode_t mode) override;
    int setOwner(int file, uid_t user, gid_t group) override;
    int setModified(int file, const timespec& time) override;
    int setAttribute(int file, const std::string& name, std::string_view value) override;
    int sync(int file) override;
    std::optional<SyncFault> syncAll(const std::vector<int>& files) override;
    int syncFileSystem(int anyFile) override;
    int delegate(std::string_view what, const std::function<int()>& act) override;
};

/// Writes all of `bytes` at `offset`, through short writes. 0 or an errno.
int writeFully(FileOperations& files, int file, std::string_view bytes, std::uint64_t offset);

/// A small file of mode `mode` as a whole: a reader sees the old bytes or the new ones, also after a power cut. Its
/// temporary is `name` with ".part" behind it; `beforeNaming` is shown the file before anybody else can see it. The
/// file that has the name now; throws Error.
FileDescriptor putFile(FileOperations& files, int directory, const std::string& name, std::string_view bytes,
                       mode_t mode, const std::function<void(int)>& beforeNaming = {});

}  // namespace gradus
