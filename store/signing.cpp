#include "store/signing.h"

#include <openssl/evp.h>

#include "store/file.h"
#include "store/model/canonical.h"
#include "store/model/error.h"
#include "store/model/hex.h"

namespace gradus {

namespace {

constexpr std::string_view kHeader = "gradus-audit-key 1 ";
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

}  // namespace

struct SigningKey::Key {
    KeyPointer pointer;
};

SigningKey::SigningKey(std::unique_ptr<Key> key) : key_(std::move(key)), publicKey_(kKeySize, '\0') {
    std::size_t size = kKeySize;
    if (EVP_PKEY_get_raw_public_key(key_->pointer.get(), raw(publicKey_), &size) != 1) opensslFailed("read a key");
}
SigningKey::~SigningKey() = default;
SigningKey::SigningKey(SigningKey&&) noexcept = default;
SigningKey& SigningKey::operator=(SigningKey&&) noexcept = default;

SigningKey SigningKey::create(const std::filesystem::path& path) {
    auto key = std::make_unique<Key>();
    key->pointer.reset(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
    std::string secret(kKeySize, '\0');
    std::size_t size = kKeySize;
    if (!key->pointer || EVP_PKEY_get_raw_private_key(key->pointer.get(), raw(secret), &size) != 1)
        opensslFailed("make a key");
    writeFileDurably(path, std::string(kHeader) + toHex(secret) + "\n", 0600);
    return SigningKey(std::move(key));
}

std::optional<SigningKey> SigningKey::load(const std::filesystem::path& path) {
    std::error_code ignored;
    if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) return std::nullopt;
    const std::string text = readSmallFile(path, 4096, "the audit key");
    const bool shaped =
        text.size() == kHeader.size() + 2 * kKeySize + 1 && text.starts_with(kHeader) && text.back() == '\n';
    const auto secret = shaped ? fromHex(std::string_view(text).substr(kHeader.size(), 2 * kKeySize)) : std::nullopt;
    if (!secret)
        throw Error(ErrorCode::kDamaged, "{}:1: this is not an audit key of gradus", path.native())
            .hint(
                "put the key's last good copy back; or move the file away and run `gradus audit reanchor`, which makes "
                "a new key on the record");
    auto key = std::make_unique<Key>();
    key->pointer.reset(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, raw(*secret), secret->size()));
    if (!key->pointer) opensslFailed("load a key");
    return SigningKey(std::move(key));
}

SignedPoint SigningKey::sign(std::string_view storeId, const AnchorPoint& point) const {
    SignedPoint out{point, publicKey_, std::string(kSignatureSize, '\0')};
    const std::string text = message(storeId, point);
    const ContextPointer context(EVP_MD_CTX_new());
    std::size_t size = kSignatureSize;
    if (EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_->pointer.get()) != 1 ||
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
