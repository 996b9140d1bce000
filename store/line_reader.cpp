#include "store/line_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "store/model/error.h"

namespace gradus {

namespace {
constexpr std::size_t kPiece = std::size_t{1} << 18;
}

LineReader::LineReader(const std::filesystem::path& path, std::size_t longestLine)
    : path_(path), longest_(longestLine), file_(openFile(path, O_RDONLY | O_NONBLOCK | O_NOCTTY)) {
    struct stat info {};
    if (::fstat(file_.get(), &info) != 0 || !S_ISREG(info.st_mode))
        throw Error(ErrorCode::kUsage, "{} is {}, not a file", path.native(), fileTypeName(info.st_mode));
}

bool LineReader::fill() {
    buffer_.erase(0, at_);
    at_ = 0;
    const std::size_t had = buffer_.size();
    buffer_.resize(had + kPiece);
    ssize_t got = 0;
    do got = ::read(file_.get(), buffer_.data() + had, kPiece);
    while (got < 0 && errno == EINTR);
    if (got < 0) throw Error(ErrorCode::kInfrastructure, "cannot read {}: {}", path_.native(), errnoText(errno));
    buffer_.resize(had + static_cast<std::size_t>(got));
    return got > 0;
}

std::optional<std::string> LineReader::next() {
    std::size_t end = buffer_.find('\n', at_);
    while (end == std::string::npos && !atEnd_) {
        const std::size_t looked = buffer_.size() - at_;
        if (looked > longest_)
            throw Error(ErrorCode::kDamaged, "{}:{}: a line of more than {} bytes", path_.native(), number_ + 1,
                        longest_);
        atEnd_ = !fill();
        end = buffer_.find('\n', at_ + looked);
    }
    if (end == std::string::npos && at_ == buffer_.size()) return std::nullopt;
    wasCut_ = end == std::string::npos;
    std::string line = buffer_.substr(at_, wasCut_ ? std::string::npos : end - at_);
    at_ = wasCut_ ? buffer_.size() : end + 1;
    ++number_;
    return line;
}

}  // namespace gradus
