#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "store/anchor.h"

namespace gradus {

/// The Ed25519 key that signs points of the audit log. Its file names the public key as well, so that a command that
/// signs nothing need not compute it: getting OpenSSL ready for that takes longer than most of what a command does.
class SigningKey {
  public:
    /// Makes a new key and keeps it in `path` (mode 0600).
    static SigningKey create(const std::filesystem::path& path);
    /// Nothing if there is no such file. Throws Error if there is one that is no private key of ours.
    static std::optional<SigningKey> load(const std::filesystem::path& path);
    /// 32 bytes.
    const std::string& publicKey() const { return publicKey_; }
    /// Throws Error if the private key is not the public one's.
    SignedPoint sign(std::string_view storeId, const AnchorPoint& point) const;

  private:
    SigningKey(std::string secret, std::string publicKey);
    std::string secret_;
    std::string publicKey_;
};

/// Whether the point was signed for this log by the holder of its public key.
bool isSignatureValid(std::string_view storeId, const SignedPoint& point);

}  // namespace gradus
