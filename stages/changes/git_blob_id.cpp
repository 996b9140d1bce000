#include "stages/changes/git_blob_id.h"

#include <openssl/evp.h>

#include <array>

#include "store/model/error.h"
#include "store/model/hex.h"

namespace gradus {

struct BlobHasher::Context {
    EVP_MD_CTX* evp = nullptr;
};

namespace {

void require(int ok) {
    if (ok != 1) throw Error(ErrorCode::kInfrastructure, "the hash that this repository uses is not available");
}

}  // namespace

BlobNaming namingOf(std::string_view id) { return id.size() == 64 ? BlobNaming::kSha256 : BlobNaming::kSha1; }

BlobHasher::BlobHasher(BlobNaming naming, std::uint64_t size) : context_(std::make_unique<Context>()) {
    if (naming == BlobNaming::kNone) return;
    context_->evp = ::EVP_MD_CTX_new();
    require(::EVP_DigestInit_ex(context_->evp, naming == BlobNaming::kSha1 ? ::EVP_sha1() : ::EVP_sha256(), nullptr));
    const std::string head = "blob " + std::to_string(size);
    update({head.c_str(), head.size() + 1});
}

BlobHasher::~BlobHasher() { ::EVP_MD_CTX_free(context_->evp); }

void BlobHasher::update(std::string_view bytes) {
    if (context_->evp != nullptr) require(::EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()));
}

std::string BlobHasher::finish() {
    if (context_->evp == nullptr) return {};
    std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
    unsigned size = 0;
    require(::EVP_DigestFinal_ex(context_->evp, raw.data(), &size));
    return toHex({reinterpret_cast<const char*>(raw.data()), size});
}

}  // namespace gradus
