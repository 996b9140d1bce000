#include "store/object_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <cerrno>
#include <cstdio>
#include <vector>

#include "store/model/clock.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr int kLevel = 3;
/// Enough to tell text from noise, at a third of the time.
constexpr int kTrialLevel = 1;

struct FreeCompressor {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};

// Saving less than a sixteenth is not worth unpacking at every reading.
bool isWorthCompressing(std::string_view block) {
    std::vector<char> packed(ZSTD_compressBound(block.size()));
    const std::size_t size = ZSTD_compress(packed.data(), packed.size(), block.data(), block.size(), kTrialLevel);
    return !ZSTD_isError(size) && size < block.size() - block.size() / 16;
}

std::string freshName() {
    const Digest noise = sha256(SystemRandom().bytes(16));
    return fmt::format("{}.{}", ::getpid(), noise.hex().substr(0, 32));
}

bool isStillNamed(int fd, const fs::path& path) {
    struct stat info {};
    if (::fstat(fd, &info) != 0) throwErrno("look at", path, errno);
    return info.st_nlink > 0;
}

}  // namespace

struct ObjectWriter::Encoder {
    Encoder() {
        if (!context || ZSTD_isError(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, kLevel)))
            throw Error(ErrorCode::kInfrastructure, "cannot set up zstd for writing");
    }

    /// Hands every piece of output to `sink`.
    template <typename Sink>
    void encode(std::string_view bytes, ZSTD_EndDirective directive, const Sink& sink) {
        ZSTD_inBuffer input{bytes.data(), bytes.size(), 0};
        std::size_t rest = 1;
        while (directive == ZSTD_e_end ? rest != 0 : input.pos < input.size) {
            ZSTD_outBuffer output{buffer.data(), buffer.size(), 0};
            rest = ZSTD_compressStream2(context.get(), &output, &input, directive);
            if (ZSTD_isError(rest)) throw Error(ErrorCode::kInfrastructure, "zstd: {}", ZSTD_getErrorName(rest));
            sink(std::string_view(buffer.data(), output.pos));
        }
    }

    std::unique_ptr<ZSTD_CCtx, FreeCompressor> context{ZSTD_createCCtx()};
    std::vector<char> buffer = std::vector<char>(ZSTD_CStreamOutSize());
};

ObjectWriter::ObjectWriter() = default;

// Delegates, so that the destructor tidies up whatever the rest of the construction throws at.
ObjectWriter::ObjectWriter(const fs::path& directory, std::string_view firstBlock) : ObjectWriter() {
    if (isWorthCompressing(firstBlock)) {
        encoder_ = std::make_unique<Encoder>();
        header_.encoding = ObjectEncoding::kZstd;
    }
    do create(directory);
    while (!isStillNamed(file_.get(), path_));
    // Room for the header, which is known last. Until then the file is no object, whatever its name.
    writeAll(file_.get(), std::string(ObjectHeader::kSize, '\0'), path_);
}

// The lock says that the writer lives; the kernel drops it when the process ends, however it ends. A sweep may take the
// file for a dead one's in the moment before it is locked: then it has lost its name, and another is made.
void ObjectWriter::create(const fs::path& directory) {
    const fs::path path = directory / freshName();
    file_ = openFile(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    path_ = path;
    while (::flock(file_.get(), LOCK_EX) != 0)
        if (errno != EINTR) throwErrno("lock", path_, errno);
}

ObjectWriter::~ObjectWriter() {
    if (!path_.empty()) ::unlink(path_.c_str());
}

void ObjectWriter::write(std::string_view bytes) {
    hasher_.update(bytes);
    header_.size += bytes.size();
    if (!encoder_) return store(bytes);
    encoder_->encode(bytes, ZSTD_e_continue, [this](std::string_view payload) { store(payload); });
}

void ObjectWriter::store(std::string_view payload) {
    writeAll(file_.get(), payload, path_);
    header_.stored += payload.size();
}

Digest ObjectWriter::finish() {
    if (encoder_) encoder_->encode({}, ZSTD_e_end, [this](std::string_view payload) { store(payload); });
    header_.digest = hasher_.finish();
    const std::string encoded = header_.encode();
    writeAll(file_.get(), ObjectHeader::sealOf(encoded), path_);
    if (::lseek(file_.get(), 0, SEEK_SET) < 0) throwErrno("write", path_, errno);
    writeAll(file_.get(), encoded, path_);
    return header_.digest;
}

bool ObjectWriter::moveTo(const fs::path& target, bool replace) {
    const unsigned flags = replace ? 0 : RENAME_NOREPLACE;
    int result = ::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target.c_str(), flags);
    // A file system without this flag: replacing one whole object by its twin does no harm, it only wastes a sync.
    if (result != 0 && errno == EINVAL) result = std::rename(path_.c_str(), target.c_str());
    if (result != 0 && errno == EEXIST) return false;
    if (result != 0) throwErrno("move an object into place as", target, errno);
    path_.clear();
    return true;
}

}  // namespace gradus
