#include "stages/changes/text_merge.h"

#include "plugins/host/module.h"
#include "stages/changes/merge_module/text_merge.h"
#include "store/model/error.h"

namespace gradus {

namespace {

constexpr std::size_t kLookedAt = 8000;
constexpr const char* kModule = "gradus-merge.so";

void appendTo(void* context, const char* bytes, std::size_t size) {
    static_cast<std::string*>(context)->append(bytes, size);
}

GradusText textOf(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

}  // namespace

bool isBinary(std::string_view bytes) { return bytes.substr(0, kLookedAt).find('\0') != std::string_view::npos; }

std::optional<std::string> mergeText(std::string_view ancestor, std::string_view ours, std::string_view theirs) {
    static auto* const kMerge = moduleFunction<decltype(gradusMergeText)>(kModule, "gradusMergeText");
    std::string merged;
    const int answer = kMerge(textOf(ancestor), textOf(ours), textOf(theirs), &appendTo, &merged);
    if (answer < 0) throw Error(ErrorCode::kInfrastructure, "libgit2 could not merge three texts");
    return answer == 1 ? std::optional(std::move(merged)) : std::nullopt;
}

std::string diffText(std::string_view before, std::string_view after) {
    static auto* const kDiff = moduleFunction<decltype(gradusDiffText)>(kModule, "gradusDiffText");
    std::string hunks;
    if (kDiff(textOf(before), textOf(after), &appendTo, &hunks) != 0)
        throw Error(ErrorCode::kInfrastructure, "libgit2 could not compare two texts");
    return hunks;
}

}  // namespace gradus
