#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "store/model/error.h"
#include "store/object_file.h"
#include "store/objects.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kInputSize = std::size_t{128} * 1024;
/// 8 MiB. What the writer makes needs 2; a file that claims to need more may not have it.
constexpr int kMostWindow = 23;

struct FreeDecoder {
    void operator()(ZSTD_DCtx* decoder) const { ZSTD_freeDCtx(decoder); }
};
using Decoder = std::unique_ptr<ZSTD_DCtx, FreeDecoder>;

Decoder makeDecoder() {
    Decoder decoder(ZSTD_createDCtx());
    if (!decoder || ZSTD_isError(ZSTD_DCtx_setParameter(decoder.get(), ZSTD_d_windowLogMax, kMostWindow)))
        throw Error(ErrorCode::kInfrastructure, "cannot set up zstd for reading");
    return decoder;
}

// Setting one up touches some 160 KiB. A thread that reads many small objects keeps its last one for the next.
Decoder& spareDecoder() {
    thread_local Decoder spare;
    return spare;
}

Decoder takeDecoder() { return spareDecoder() ? std::move(spareDecoder()) : makeDecoder(); }

void giveBack(Decoder decoder) {
    if (decoder && !ZSTD_isError(ZSTD_DCtx_reset(decoder.get(), ZSTD_reset_session_only)))
        spareDecoder() = std::move(decoder);
}

}  // namespace

struct ObjectReader::State {
    State(FileDescriptor opened, fs::path name, const Digest& digest)
        : file(std::move(opened)), path(std::move(name)), header(readObjectHeader(file.get(), path, digest)) {
        payloadLeft = header.stored;
        if (::lseek(file.get(), ObjectHeader::kSize, SEEK_SET) < 0) throwErrno("read", path, errno);
        isPacked = header.encoding == ObjectEncoding::kZstd;
        if (header.size == 0) finish();
    }
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() { giveBack(std::move(decoder)); }

    std::size_t read(std::span<char> space) {
        space = space.first(std::min<std::uint64_t>(space.size(), header.size - produced));
        if (space.empty()) return 0;
        const std::size_t got = isPacked ? inflate(space) : readPayload(space);
        hasher.update({space.data(), got});
        produced += got;
        if (produced == header.size) finish();
        return got;
    }

    std::size_t readPayload(std::span<char> space) {
        space = space.first(std::min<std::uint64_t>(space.size(), payloadLeft));
        if (space.empty()) throwDamaged(path, "its content ends too early");
        ssize_t got = 0;
        do got = ::read(file.get(), space.data(), space.size());
        while (got < 0 && errno == EINTR);
        if (got < 0) throwErrno("read", path, errno);
        if (got == 0) throwDamaged(path, "it became shorter while it was read");
        payloadLeft -= static_cast<std::uint64_t>(got);
        return static_cast<std::size_t>(got);
    }

    std::size_t inflate(std::span<char> space) {
        std::size_t got = 0;
        while (got == 0) got = decodeSome(space);
        return got;
    }

    // May take input and give nothing yet.
    std::size_t decodeSome(std::span<char> space) {
        if (!decoder) decoder = takeDecoder();
        if (input.pos == input.size) {
            if (buffer.empty()) buffer.resize(std::clamp<std::uint64_t>(header.stored, 1, kInputSize));
            input = {buffer.data(), readPayload(buffer), 0};
        }
        ZSTD_outBuffer output{space.data(), space.size(), 0};
        const std::size_t rest = ZSTD_decompressStream(decoder.get(), &output, &input);
        if (ZSTD_isError(rest)) throwDamaged(path, fmt::format("it cannot be unpacked ({})", ZSTD_getErrorName(rest)));
        frameEnded = rest == 0;
        return output.pos;
    }

    // The recorded size is the most that ever comes out; that no more would have come is proven here.
    void finish() {
        std::array<char, 1> spare{};
        while (isPacked && !frameEnded)
            if (decodeSome(spare) > 0) throwDamaged(path, "it unpacks to more than was stored");
        if (payloadLeft > 0 || input.pos < input.size) throwDamaged(path, "bytes follow its content");
        if (hasher.finish() != header.digest) throwDamaged(path, "its content does not match its name");
    }

    FileDescriptor file;
    fs::path path;
    ObjectHeader header;
    bool isPacked = false;
    Decoder decoder;  ///< none before the first reading, and for an object stored raw
    Hasher hasher;
    std::vector<char> buffer;
    ZSTD_inBuffer input{nullptr, 0, 0};
    bool frameEnded = false;
    std::uint64_t payloadLeft = 0;
    std::uint64_t produced = 0;
};

ObjectReader::ObjectReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
ObjectReader::ObjectReader(ObjectReader&&) noexcept = default;
ObjectReader& ObjectReader::operator=(ObjectReader&&) noexcept = default;
ObjectReader::~ObjectReader() = default;

std::uint64_t ObjectReader::size() const { return state_->header.size; }
std::uint64_t ObjectReader::stored() const { return state_->header.stored + ObjectHeader::kOverhead; }
int ObjectReader::descriptor() const { return state_->file.get(); }
std::size_t ObjectReader::read(std::span<char> space) { return state_->read(space); }

ObjectReader ObjectReader::over(FileDescriptor file, const fs::path& path, const Digest& digest) {
    return ObjectReader(std::make_unique<State>(std::move(file), path, digest));
}

void ObjectReader::verify() {
    std::vector<char> space(std::min<std::uint64_t>(size(), kInputSize));
    while (read(space) > 0) continue;
}

}  // namespace gradus
