#include "stages/changes/patch_binary.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "store/model/error.h"

namespace gradus {

namespace {

constexpr std::string_view kDigits =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
constexpr std::size_t kLineBytes = 52;
constexpr std::size_t kMostInflated = std::size_t{1} << 30;

// 'A' to 'Z' for 1 to 26, 'a' to 'z' for 27 to 52.
std::size_t lengthOf(char letter) {
    if (letter >= 'A' && letter <= 'Z') return static_cast<std::size_t>(letter - 'A') + 1;
    if (letter >= 'a' && letter <= 'z') return static_cast<std::size_t>(letter - 'a') + 27;
    return 0;
}

char letterOf(std::size_t length) { return static_cast<char>(length <= 26 ? 'A' + (length - 1) : 'a' + (length - 27)); }

bool readSize(std::string_view& delta, std::size_t& size) {
    size = 0;
    for (unsigned shift = 0; shift < 63 && !delta.empty(); shift += 7) {
        const auto byte = static_cast<unsigned char>(delta.front());
        delta.remove_prefix(1);
        size |= static_cast<std::size_t>(byte & 127U) << shift;
        if ((byte & 128U) == 0) return true;
    }
    return false;
}

// Up to `count` bytes, each there if its bit is set.
bool readSparse(std::string_view& delta, unsigned bits, unsigned count, std::size_t& value) {
    value = 0;
    for (unsigned i = 0; i < count; ++i) {
        if ((bits >> i & 1U) == 0) continue;
        if (delta.empty()) return false;
        value |= static_cast<std::size_t>(static_cast<unsigned char>(delta.front())) << (8 * i);
        delta.remove_prefix(1);
    }
    return true;
}

bool copyFrom(std::string_view old, std::string_view& delta, unsigned command, std::string& made) {
    constexpr std::size_t kZeroMeans = 0x10000;
    std::size_t offset = 0;
    std::size_t size = 0;
    if (!readSparse(delta, command, 4, offset) || !readSparse(delta, command >> 4, 3, size)) return false;
    if (size == 0) size = kZeroMeans;
    if (offset > old.size() || size > old.size() - offset) return false;
    made += old.substr(offset, size);
    return true;
}

}  // namespace

bool decodeBase85Line(std::string_view line, std::string& bytes) {
    const std::size_t length = line.empty() ? 0 : lengthOf(line.front());
    if (length == 0 || line.size() != 1 + (length + 3) / 4 * 5) return false;
    std::size_t left = length;
    for (std::size_t at = 1; at < line.size(); at += 5) {
        std::uint64_t value = 0;
        for (const char c : line.substr(at, 5)) {
            const std::size_t digit = kDigits.find(c);
            if (digit == std::string_view::npos) return false;
            value = value * 85 + digit;
        }
        if (value > UINT32_MAX) return false;
        for (int shift = 24; shift >= 0 && left > 0; shift -= 8, --left)
            bytes += static_cast<char>(value >> shift & 255U);
    }
    return true;
}

std::string encodeBase85(std::string_view bytes) {
    std::string out;
    for (; !bytes.empty(); bytes.remove_prefix(std::min(kLineBytes, bytes.size()))) {
        const std::string_view line = bytes.substr(0, kLineBytes);
        out += letterOf(line.size());
        for (std::size_t at = 0; at < line.size(); at += 4) {
            std::uint32_t value = 0;
            for (std::size_t i = 0; i < 4; ++i)
                value = value << 8 | (at + i < line.size() ? static_cast<unsigned char>(line[at + i]) : 0U);
            std::array<char, 5> digits{};
            for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit, value /= 85)
                *digit = kDigits[value % 85];
            out.append(digits.data(), digits.size());
        }
        out += '\n';
    }
    return out;
}

std::optional<std::string> inflated(std::string_view packed, std::size_t size) {
    if (size > kMostInflated || packed.size() > kMostInflated) return std::nullopt;
    // One byte more than expected, so that too much is seen. Nothing is believed beyond what a deflated byte can hold.
    if (size / 1100 > packed.size()) return std::nullopt;
    std::string bytes(size + 1, '\0');
    z_stream stream{};
    if (::inflateInit(&stream) != Z_OK) throw Error(ErrorCode::kInfrastructure, "cannot unpack");
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    stream.avail_in = static_cast<uInt>(packed.size());
    stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
    stream.avail_out = static_cast<uInt>(bytes.size());
    const int said = ::inflate(&stream, Z_FINISH);
    const bool isExact = said == Z_STREAM_END && stream.total_out == size && stream.avail_in == 0;
    ::inflateEnd(&stream);
    if (!isExact) return std::nullopt;
    bytes.pop_back();
    return bytes;
}

std::string deflated(std::string_view bytes) {
    uLongf size = ::compressBound(bytes.size());
    std::string packed(size, '\0');
    if (::compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                    bytes.size(), Z_DEFAULT_COMPRESSION) != Z_OK)
        throw Error(ErrorCode::kInfrastructure, "cannot pack {} bytes", bytes.size());
    packed.resize(size);
    return packed;
}

std::optional<std::string> appliedDelta(std::string_view old, std::string_view delta) {
    std::size_t oldSize = 0;
    std::size_t newSize = 0;
    if (!readSize(delta, oldSize) || !readSize(delta, newSize) || oldSize != old.size() || newSize > kMostInflated)
        return std::nullopt;
    std::string made;
    while (!delta.empty() && made.size() <= newSize) {
        const auto command = static_cast<unsigned char>(delta.front());
        delta.remove_prefix(1);
        if ((command & 128U) != 0) {
            if (!copyFrom(old, delta, command & 127U, made)) return std::nullopt;
        } else {
            if (command == 0 || command > delta.size()) return std::nullopt;
            made += delta.substr(0, command);
            delta.remove_prefix(command);
        }
    }
    return delta.empty() && made.size() == newSize ? std::optional(std::move(made)) : std::nullopt;
}

}  // namespace gradus
