#include "stages/changes/tracked_names.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace gradus {

namespace {

constexpr std::size_t kHeader = 12;
constexpr std::size_t kStatBytes = 40;
constexpr unsigned kExtended = 0x4000;
constexpr unsigned kStages = 0x3000;   ///< which side of a merge; none: it is merged
constexpr unsigned kSkipped = 0x4000;  ///< among the extended ones
constexpr std::array<std::size_t, 2> kHashSizes{20, 32};

std::uint32_t big32(std::string_view bytes) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
}

std::string hexOf(std::string_view bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string hex;
    for (const char c : bytes) {
        hex += kDigits[static_cast<unsigned char>(c) >> 4];
        hex += kDigits[static_cast<unsigned char>(c) & 15];
    }
    return hex;
}

}  // namespace

class TrackedNames::Reader {
  public:
    Reader(std::string_view bytes, std::size_t hashSize) : bytes_(bytes), hashSize_(hashSize) {}

    std::optional<TrackedNames> read() {
        if (bytes_.size() < kHeader + hashSize_ || !bytes_.starts_with("DIRC")) return std::nullopt;
        version_ = big32(bytes_.substr(4));
        if (version_ < 2 || version_ > 4) return std::nullopt;
        end_ = bytes_.size() - hashSize_;
        at_ = kHeader;
        for (std::uint32_t left = big32(bytes_.substr(8)); left > 0; --left)
            if (!readEntry()) return std::nullopt;
        while (at_ < end_)
            if (!readExtension()) return std::nullopt;
        std::sort(result_.names_.begin(), result_.names_.end());
        std::sort(result_.skipped_.begin(), result_.skipped_.end());
        return std::move(result_);
    }

  private:
    /// The upper half of the two bytes at `at`.
    unsigned highByte(std::size_t at) const { return unsigned{static_cast<unsigned char>(bytes_[at])} << 8U; }

    bool readEntry() {
        const std::size_t begin = at_;
        at_ += kStatBytes + hashSize_ + 2;
        if (at_ >= end_) return false;
        const bool isUnmerged = (highByte(at_ - 2) & kStages) != 0;
        bool isSkipped = false;
        if (version_ >= 3 && (highByte(at_ - 2) & kExtended) != 0) {
            isSkipped = (highByte(at_) & kSkipped) != 0;
            at_ += 2;
        }
        std::size_t kept = 0;
        if (version_ == 4 && !readStripped(kept)) return false;
        const std::size_t nul = at_ < end_ ? bytes_.find('\0', at_) : std::string_view::npos;
        if (nul == std::string_view::npos || nul >= end_) return false;
        last_.resize(kept);
        last_ += bytes_.substr(at_, nul - at_);
        at_ = version_ == 4 ? nul + 1 : begin + ((nul - begin + 8) & ~std::size_t{7});
        // Entries that only replace one of a shared index have no name of their own.
        if (!last_.empty()) result_.names_.push_back(last_);
        if (isUnmerged && (result_.unmerged_.empty() || result_.unmerged_.back() != last_))
            result_.unmerged_.push_back(last_);
        if (isSkipped && !last_.empty()) result_.skipped_.push_back(last_);
        result_.sparse_ |= last_.ends_with('/');
        return at_ <= end_;
    }

    // Version 4 says how much of the name before is dropped, in a number of seven bits a byte.
    bool readStripped(std::size_t& kept) {
        std::size_t value = 0;
        for (int bytes = 0; bytes < 5 && at_ < end_; ++bytes) {
            const auto c = static_cast<unsigned char>(bytes_[at_++]);
            value = (bytes == 0 ? 0 : (value + 1) << 7) + (c & 127U);
            if ((c & 128U) != 0) continue;
            if (value > last_.size()) return false;
            kept = last_.size() - value;
            return true;
        }
        return false;
    }

    bool readExtension() {
        if (end_ - at_ < 8) return false;
        const std::string_view name = bytes_.substr(at_, 4);
        const std::size_t size = big32(bytes_.substr(at_ + 4));
        at_ += 8;
        if (size > end_ - at_) return false;
        if (name == "link" && size >= hashSize_) {
            const std::string_view hash = bytes_.substr(at_, hashSize_);
            if (hash.find_first_not_of('\0') != std::string_view::npos) result_.shared_ = hexOf(hash);
        }
        at_ += size;
        return true;
    }

    std::string_view bytes_;
    std::size_t hashSize_;
    std::size_t at_ = 0;
    std::size_t end_ = 0;
    std::uint32_t version_ = 0;
    std::string last_;
    TrackedNames result_;
};

std::optional<TrackedNames> TrackedNames::parse(std::string_view bytes) {
    for (const std::size_t hashSize : kHashSizes)
        if (auto names = Reader(bytes, hashSize).read()) return names;
    return std::nullopt;
}

bool TrackedNames::contains(std::string_view path) const {
    return std::binary_search(names_.begin(), names_.end(), path) || isInSparseDirectory(path);
}

bool TrackedNames::isSkipped(std::string_view path) const {
    return std::binary_search(skipped_.begin(), skipped_.end(), path) || isInSparseDirectory(path);
}

bool TrackedNames::isInSparseDirectory(std::string_view path) const {
    if (!sparse_) return false;
    for (std::size_t slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/', slash + 1))
        if (std::binary_search(names_.begin(), names_.end(), path.substr(0, slash + 1))) return true;
    return false;
}

bool TrackedNames::containsBeneath(std::string_view directory) const {
    const std::string prefix = std::string(directory) + '/';
    const auto first = std::lower_bound(names_.begin(), names_.end(), prefix);
    return (first != names_.end() && first->starts_with(prefix)) || contains(prefix);
}

}  // namespace gradus
