#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/model/digest.h"

namespace gradus {

/// "After event `seq` the chain's head was `hash`."
struct AnchorPoint {
    std::int64_t seq = 0;
    Digest hash;
    bool operator==(const AnchorPoint&) const = default;
};

/// An anchor point with an Ed25519 signature over it.
struct SignedPoint {
    AnchorPoint point;
    std::string publicKey;  ///< 32 bytes
    std::string signature;  ///< 64 bytes
    bool operator==(const SignedPoint&) const = default;
};

/// Everything an anchor remembers, oldest first.
struct AnchorContent {
    std::string storeId;
    std::vector<AnchorPoint> points;
    std::vector<SignedPoint> signedPoints;
};

/// Somewhere outside the database that the log's head is told to after every commit. It may lag behind the log, never
/// lead it: a point is told only once its event is durable.
class AnchorSink {
  public:
    virtual ~AnchorSink() = default;
    /// False if it could not be kept; the caller tells a later point instead.
    virtual bool append(const AnchorPoint& point) noexcept = 0;
    virtual bool append(const SignedPoint& point) noexcept = 0;
    /// The newest point, or nothing if there is no anchor. Throws Error(kDamaged) naming the line that makes no sense.
    virtual std::optional<AnchorPoint> last() const = 0;
    virtual std::optional<AnchorContent> read() const = 0;
    /// Which log it belongs to; nothing if there is no anchor.
    virtual std::optional<std::string> storeId() const = 0;
    /// Begins anew for the given log, keeping what was there before under another name.
    virtual void start(std::string_view storeId, const AnchorPoint& head) = 0;
    /// For messages.
    virtual std::string name() const = 0;
};

/// The anchor file's text for this content, leaving out what is newer than event `upTo`.
std::string anchorText(const AnchorContent& content, std::int64_t upTo);

/// An anchor in a text file, a line per commit (docs/audit-format.md).
class FileAnchor final : public AnchorSink {
  public:
    explicit FileAnchor(std::filesystem::path path) : path_(std::move(path)) {}

    bool append(const AnchorPoint& point) noexcept override;
    bool append(const SignedPoint& point) noexcept override;
    std::optional<AnchorPoint> last() const override;
    std::optional<AnchorContent> read() const override;
    std::optional<std::string> storeId() const override;
    void start(std::string_view storeId, const AnchorPoint& head) override;
    std::string name() const override { return path_.string(); }

  private:
    bool appendLine(std::string line) noexcept;
    void thin(std::uintmax_t size) noexcept;
    std::filesystem::path path_;
};

}  // namespace gradus
