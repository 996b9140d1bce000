#include "store/model/checkpoint.h"

#include "store/model/canonical.h"
#include "store/model/canonical_reader.h"

namespace gradus {

namespace {
constexpr std::string_view kDomain = "gradus.checkpoint.1";
}

std::string Checkpoint::encode() const {
    Canonical out(kDomain);
    out.text(data).list(objects.size());
    for (const Digest& object : objects) out.digest(object);
    return out.bytes();
}

Checkpoint Checkpoint::decode(std::string_view bytes) {
    CanonicalReader in(bytes, kDomain);
    Checkpoint checkpoint;
    checkpoint.data = in.text();
    for (std::uint64_t left = in.list(); left > 0; --left) checkpoint.objects.push_back(in.digest());
    in.end();
    return checkpoint;
}

}  // namespace gradus
