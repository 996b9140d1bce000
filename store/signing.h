#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "store/anchor.h"

namespace gradus {

/// The Ed25519 key that signs points of the audit log.
class SigningKey {
  public:
    /// Makes a new key and keeps it in `path` (mode 0600).
    static SigningKey create(const std::filesystem::path& path);
    /// Nothing if there is no such file. Throws Error if there is one that is no private key of ours.
    static std::optional<SigningKey> load(const std::filesystem::path& path);
    ~SigningKey();
    SigningKey(SigningKey&&) noexcept;
    SigningKey& operator=(SigningKey&&) noexcept;

    /// 32 bytes.
    const std::string& publicKey() const { return publicKey_; }
    SignedPoint sign(std::string_view storeId, const AnchorPoint& point) const;

  private:
    struct Key;
    explicit SigningKey(std::unique_ptr<Key> key);
    std::unique_ptr<Key> key_;
    std::string publicKey_;
};

/// Whether the point was signed for this log by the holder of its public key.
bool isSignatureValid(std::string_view storeId, const SignedPoint& point);

}  // namespace gradus
