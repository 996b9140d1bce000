#include "store/anchor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "store/file.h"
#include "store/model/error.h"
#include "store/model/hex.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kMagic = "gradus-anchor 1 ";
constexpr std::uint64_t kMostRead = std::uint64_t{64} << 20;
// Past this size old points are thinned out: signed ones and the newest stay.
constexpr std::uintmax_t kThinAbove = std::uintmax_t{8} << 20;
constexpr std::size_t kNewestKept = 10'000;

std::string lineOf(const AnchorPoint& point) { return fmt::format("{} {}\n", point.seq, point.hash.hex()); }

std::string lineOf(const SignedPoint& signedPoint) {
    return fmt::format("signed {} {} {} {}\n", signedPoint.point.seq, signedPoint.point.hash.hex(),
                       toHex(signedPoint.publicKey), toHex(signedPoint.signature));
}

std::vector<std::string_view> words(std::string_view line) {
    std::vector<std::string_view> out;
    for (std::size_t begin = 0; begin <= line.size();) {
        const std::size_t end = std::min(line.find(' ', begin), line.size());
        out.push_back(line.substr(begin, end - begin));
        begin = end + 1;
    }
    return out;
}

std::optional<AnchorPoint> parsePoint(std::string_view seq, std::string_view hash) {
    AnchorPoint point;
    const auto [end, error] = std::from_chars(seq.data(), seq.data() + seq.size(), point.seq);
    const auto digest = Digest::fromHex(hash);
    if (error != std::errc() || end != seq.data() + seq.size() || point.seq < 0 || !digest) return std::nullopt;
    point.hash = *digest;
    return point;
}

std::optional<SignedPoint> parseSigned(const std::vector<std::string_view>& parts) {
    const auto point = parsePoint(parts[1], parts[2]);
    const auto key = fromHex(parts[3]);
    const auto signature = fromHex(parts[4]);
    if (!point || !key || key->size() != 32 || !signature || signature->size() != 64) return std::nullopt;
    return SignedPoint{*point, *key, *signature};
}

/// False if the line is neither kind of point, or goes back.
bool takeLine(AnchorContent& content, std::string_view line) {
    const auto parts = words(line);
    if (parts.size() == 5 && parts[0] == "signed") {
        const auto point = parseSigned(parts);
        if (point) content.signedPoints.push_back(*point);
        return point.has_value();
    }
    if (parts.size() != 2) return false;
    const auto point = parsePoint(parts[0], parts[1]);
    if (!point || (!content.points.empty() && point->seq <= content.points.back().seq)) return false;
    content.points.push_back(*point);
    return true;
}

AnchorContent parse(std::string_view bytes, const fs::path& path) {
    const auto fail = [&](std::size_t line, std::string_view why) {
        throw Error(ErrorCode::kDamaged, "{}:{}: {}", path.native(), line, why)
            .hint(
                "put its last good copy back; or move it away and run `gradus audit reanchor`, which starts a new one "
                "on the "
                "record");
    };
    AnchorContent content;
    std::size_t number = 0;
    while (!bytes.empty()) {
        ++number;
        const std::size_t end = bytes.find('\n');
        if (end == std::string_view::npos) break;  // torn by a crash: the anchor merely lags
        const std::string_view line = bytes.substr(0, end);
        bytes.remove_prefix(end + 1);
        if (number == 1) {
            if (line.substr(0, kMagic.size()) != kMagic) fail(number, "this is not an anchor file of gradus");
            content.storeId = line.substr(kMagic.size());
        } else if (!takeLine(content, line)) {
            fail(number, "the line is not an anchor point, or goes back");
        }
    }
    if (content.storeId.empty()) fail(1, "the anchor file has no header");
    return content;
}

/// Cuts the file back to its last whole line. What follows it may be long: after a power cut a file can have the size
/// of all that was appended and zeros where the bytes had not reached the disk.
bool cutTornLine(int fd, off_t size) noexcept {
    char piece[512];
    for (off_t end = size; end > 0;) {
        const off_t from = std::max<off_t>(0, end - static_cast<off_t>(sizeof piece));
        const ssize_t got = ::pread(fd, piece, static_cast<std::size_t>(end - from), from);
        if (got != end - from) return false;
        const std::size_t newline = std::string_view(piece, static_cast<std::size_t>(got)).rfind('\n');
        if (newline != std::string_view::npos) return ::ftruncate(fd, from + static_cast<off_t>(newline) + 1) == 0;
        end = from;
    }
    return false;
}

}  // namespace

std::string anchorText(const AnchorContent& content, std::int64_t upTo) {
    std::string out = std::string(kMagic) + content.storeId + "\n";
    for (const SignedPoint& point : content.signedPoints)
        if (point.point.seq <= upTo) out += lineOf(point);
    for (const AnchorPoint& point : content.points)
        if (point.seq <= upTo) out += lineOf(point);
    return out;
}

bool FileAnchor::appendLine(std::string line) noexcept {
    // Opened anew each time and never created here: a file that somebody removed must stay visibly missing.
    const FileDescriptor file(::open(path_.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
    struct stat info {};
    if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
    char lastByte = '\n';
    if (info.st_size > 0 && ::pread(file.get(), &lastByte, 1, info.st_size - 1) != 1) return false;
    // A line torn by a crash would swallow this one.
    if (lastByte != '\n' && !cutTornLine(file.get(), info.st_size)) return false;
    const bool written = ::write(file.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size());
    thin(static_cast<std::uintmax_t>(info.st_size));
    return written;
}

bool FileAnchor::append(const AnchorPoint& point) noexcept { return appendLine(lineOf(point)); }
bool FileAnchor::append(const SignedPoint& point) noexcept { return appendLine(lineOf(point)); }

std::optional<AnchorContent> FileAnchor::read() const {
    std::error_code error;
    if (!fs::exists(fs::symlink_status(path_, error))) return std::nullopt;
    return parse(readSmallFile(path_, kMostRead, "the anchor file"), path_);
}

std::optional<std::string> FileAnchor::storeId() const {
    std::error_code error;
    if (!fs::is_regular_file(path_, error)) return std::nullopt;
    const FileDescriptor file = openFile(path_, O_RDONLY | O_NONBLOCK);
    char head[256];
    const ssize_t got = ::pread(file.get(), head, sizeof head, 0);
    const std::string_view text(head, got > 0 ? static_cast<std::size_t>(got) : 0);
    return parse(text.substr(0, text.find('\n') + 1), path_).storeId;
}

std::optional<AnchorPoint> FileAnchor::last() const {
    std::error_code error;
    if (!fs::exists(fs::symlink_status(path_, error))) return std::nullopt;
    const FileDescriptor file = openFile(path_, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
    struct stat info {};
    ::fstat(file.get(), &info);
    if (!S_ISREG(info.st_mode)) throw Error(ErrorCode::kDamaged, "the anchor {} is not a file", path_.native());
    // The newest point is within the last few lines; reading them all at every start would grow with the log.
    char tail[4096];
    const off_t from = std::max<off_t>(0, info.st_size - static_cast<off_t>(sizeof tail));
    const ssize_t got = ::pread(file.get(), tail, sizeof tail, from);
    std::string_view text(tail, got > 0 ? static_cast<std::size_t>(got) : 0);
    text = text.substr(0, text.rfind('\n') + 1);
    while (!text.empty()) {
        text.remove_suffix(1);
        const std::size_t begin = text.rfind('\n') + 1;
        const auto parts = words(text.substr(begin));
        if (parts.size() == 2)
            if (const auto point = parsePoint(parts[0], parts[1])) return point;
        // A whole line that is no point was never written by us; reading it all says which.
        if (parts.size() != 5) break;
        text = text.substr(0, begin);
    }
    const auto content = read();
    if (!content || content->points.empty()) return AnchorPoint{};
    return content->points.back();
}

void FileAnchor::start(std::string_view storeId, const AnchorPoint& head) {
    if (head.seq > 0 && fs::exists(path_)) {
        fs::path aside = path_;
        aside += ".before-" + std::to_string(head.seq);
        fs::rename(path_, aside);
    }
    writeFileDurably(path_, std::string(kMagic) + std::string(storeId) + "\n" + (head.seq > 0 ? lineOf(head) : ""));
}

void FileAnchor::thin(std::uintmax_t size) noexcept {
    if (size < kThinAbove) return;
    try {
        auto content = read();
        if (!content || content->points.size() <= kNewestKept) return;
        const std::int64_t newest = content->points.back().seq;
        content->points.erase(content->points.begin(), content->points.end() - kNewestKept);
        writeFileDurably(path_, anchorText(*content, newest));
    } catch (const std::exception&) {
        return;  // A long anchor is no fault; the next commit tries again.
    }
}

}  // namespace gradus
