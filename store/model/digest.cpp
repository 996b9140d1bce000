#include "store/model/digest.h"

#include <openssl/evp.h>

#include <cstring>

#include "store/model/error.h"
#include "store/model/hex.h"

namespace gradus {

namespace {

// Fetched once: looking the algorithm up by name for every message costs more than hashing a short one.
const EVP_MD* sha256Algorithm() {
    static EVP_MD* const kAlgorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
    return kAlgorithm;
}

}  // namespace

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
    EVP_MD_CTX* evp = EVP_MD_CTX_new();
    bool started = false;

    Context() = default;
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    ~Context() { EVP_MD_CTX_free(evp); }

    void start() {
        if (started) return;
        if (EVP_DigestInit_ex2(evp, sha256Algorithm(), nullptr) != 1)
            throw Error(ErrorCode::kInfrastructure, "OpenSSL cannot compute SHA-256");
        started = true;
    }
};

Hasher::Hasher() : context_(std::make_unique<Context>()) {}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

Hasher& Hasher::update(std::string_view bytes) {
    context_->start();
    EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size());
    return *this;
}

Digest Hasher::finish() {
    context_->start();
    Digest digest;
    EVP_DigestFinal_ex(context_->evp, digest.bytes.data(), nullptr);
    context_->started = false;
    return digest;
}

Digest sha256(std::string_view bytes) {
    thread_local Hasher hasher;
    return hasher.update(bytes).finish();
}

}  // namespace gradus
