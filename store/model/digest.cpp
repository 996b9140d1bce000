#include "store/model/digest.h"

// The plain functions, which OpenSSL 3 would rather not see used: the ones it recommends first load providers, their
// configuration and every algorithm's name, some 2 ms in a program that lives for ten.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include <cstring>

#include "store/model/hex.h"

namespace gradus {

std::string Digest::hex() const { return toHex(view()); }

std::optional<Digest> Digest::fromHex(std::string_view text) {
    const auto raw = gradus::fromHex(text);
    return raw ? fromBytes(*raw) : std::nullopt;
}

std::optional<Digest> Digest::fromBytes(std::string_view raw) {
    if (raw.size() != kSize) return std::nullopt;
    Digest digest;
    std::memcpy(digest.bytes.data(), raw.data(), kSize);
    return digest;
}

struct Hasher::Context {
    SHA256_CTX sha{};
    Context() { SHA256_Init(&sha); }
};

Hasher::Hasher() : context_(std::make_unique<Context>()) {}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

Hasher& Hasher::update(std::string_view bytes) {
    SHA256_Update(&context_->sha, bytes.data(), bytes.size());
    return *this;
}

Digest Hasher::finish() {
    Digest digest;
    SHA256_Final(digest.bytes.data(), &context_->sha);
    SHA256_Init(&context_->sha);
    return digest;
}

Digest sha256(std::string_view bytes) {
    thread_local Hasher hasher;
    return hasher.update(bytes).finish();
}

}  // namespace gradus
