#include "pipeline/service/pinned_rules.h"

#include "store/model/canonical.h"
#include "store/model/canonical_reader.h"

namespace gradus {

namespace {
constexpr std::string_view kDomain = "gradus.pinned-rules.1";
}

std::string encodeRuleFiles(const RuleFiles& files) {
    Canonical out(kDomain);
    out.list(files.files.size());
    for (const RuleFile& file : files.files) out.text(file.path).text(file.bytes);
    return out.bytes();
}

RuleFiles decodeRuleFiles(std::string_view bytes) {
    CanonicalReader in(bytes, kDomain);
    RuleFiles files;
    for (std::uint64_t left = in.list(); left > 0; --left) {
        std::string path = in.text();
        files.files.push_back({std::move(path), in.text()});
    }
    in.end();
    return files;
}

}  // namespace gradus
