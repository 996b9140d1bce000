#include "store/signing.h"

#include <openssl/evp.h>

#include <memory>

#include "store/file.h"
#include "store/model/canonical.h"
#include "store/model/error.h"
#include "store/model/hex.h"

namespace gradus {

namespace {

constexpr std::string_view kHeader = "gradus-audit-key 2 ";
constexpr std::string_view kOldHeader = "gradus-audit-key 1 ";  // the private key alone
constexpr std::size_t kKeySize = 32;
constexpr std::size_t kSignatureSize = 64;

const unsigned char* raw(std::string_view bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }
unsigned char* raw(std::string& bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }

std::string message(std::string_view storeId, const AnchorPoint& point) {
    return Canonical("gradus.signed-checkpoint.1").text(storeId).number(point.seq).digest(point.hash).bytes();
}

[[noreturn]] void opensslFailed(std::string_view what) {
    throw Error(ErrorCode::kInfrastructure, "OpenSSL cannot {} with Ed25519", what);
}

struct FreeKey {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using KeyPointer = std::unique_ptr<EVP_PKEY, FreeKey>;

struct FreeContext {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using ContextPointer = std::unique_ptr<EVP_MD_CTX, FreeContext>;

KeyPointer keyFrom(const std::string& secret) {
    KeyPointer key(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, raw(secret), secret.size()));
    if (!key) opensslFailed("load a key");
    return key;
}

std::string publicKeyOf(const EVP_PKEY* key) {
    std::string publicKey(kKeySize, '\0');
    std::size_t size = kKeySize;
    if (EVP_PKEY_get_raw_public_key(key, raw(publicKey), &size) != 1) opensslFailed("read a key");
    return publicKey;
}

// The check is against accidents: whoever can write this file can sign anyway.
std::string lineOf(std::string_view secret, std::string_view publicKey) {
    const std::string keys = std::string(kHeader) + toHex(secret) + " " + toHex(publicKey);
    return keys + " " + sha256(keys).hex() + "\n";
}

/// Bytes from a line's hexadecimal digits; nothing where there are others.
std::optional<std::string> keyAt(std::string_view line, std::size_t at) {
    return line.size() < at + 2 * kKeySize ? std::nullopt : fromHex(line.substr(at, 2 * kKeySize));
}

}  // namespace

SigningKey::SigningKey(std::string secret, std::string publicKey)
    : secret_(std::move(secret)), publicKey_(std::move(publicKey)) {}

SigningKey SigningKey::create(const std::filesystem::path& path) {
    const KeyPointer key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
    std::string secret(kKeySize, '\0');
    std::size_t size = kKeySize;
    if (!key || EVP_PKEY_get_raw_private_key(key.get(), raw(secret), &size) != 1) opensslFailed("make a key");
    std::string publicKey = publicKeyOf(key.get());
    writeFileDurably(path, lineOf(secret, publicKey), 0600);
    return {std::move(secret), std::move(publicKey)};
}

std::optional<SigningKey> SigningKey::load(const std::filesystem::path& path) {
    std::error_code ignored;
    if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) return std::nullopt;
    const std::string text = readSmallFile(path, 4096, "the audit key");
    const auto oldSecret = text.starts_with(kOldHeader) ? keyAt(text, kOldHeader.size()) : std::nullopt;
    if (oldSecret && text.substr(kOldHeader.size() + 2 * kKeySize) == "\n")
        return SigningKey(*oldSecret, publicKeyOf(keyFrom(*oldSecret).get()));
    const auto secret = keyAt(text, kHeader.size());
    const auto publicKey = keyAt(text, kHeader.size() + 2 * kKeySize + 1);
    if (!secret || !publicKey || text != lineOf(*secret, *publicKey))
        throw Error(ErrorCode::kDamaged, "{}:1: this is not an audit key of gradus", path.native())
            .hint(
                "put the key's last good copy back; or move the file away and run `gradus audit reanchor`, which makes "
                "a new key on the record");
    return SigningKey(*secret, *publicKey);
}

SignedPoint SigningKey::sign(std::string_view storeId, const AnchorPoint& point) const {
    const KeyPointer key = keyFrom(secret_);
    if (publicKeyOf(key.get()) != publicKey_)
        throw Error(ErrorCode::kDamaged, "the audit key names a public key that is not its own")
            .hint("put the key's last good copy back");
    SignedPoint out{point, publicKey_, std::string(kSignatureSize, '\0')};
    const std::string text = message(storeId, point);
    const ContextPointer context(EVP_MD_CTX_new());
    std::size_t size = kSignatureSize;
    if (EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) != 1 ||
        EVP_DigestSign(context.get(), raw(out.signature), &size, raw(text), text.size()) != 1)
        opensslFailed("sign");
    return out;
}

bool isSignatureValid(std::string_view storeId, const SignedPoint& point) {
    const KeyPointer key(
        EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, raw(point.publicKey), point.publicKey.size()));
    const ContextPointer context(EVP_MD_CTX_new());
    const std::string text = message(storeId, point.point);
    return key && EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
           EVP_DigestVerify(context.get(), raw(point.signature), point.signature.size(), raw(text), text.size()) == 1;
}

}  // namespace gradus
