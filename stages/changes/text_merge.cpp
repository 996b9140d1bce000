#include "stages/changes/text_merge.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>

#include "stages/changes/merge_module/text_merge.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kLookedAt = 8000;

using MergeFunction = decltype(&gradus_merge_text_1);

// Where gradus-jail is, too.
fs::path findModule() {
    const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
    for (const fs::path& candidate : {here / "gradus-merge.so", here / "../libexec/gradus/gradus-merge.so"})
        if (::access(candidate.c_str(), R_OK) == 0) return fs::canonical(candidate);
    throw Error(ErrorCode::kInfrastructure, "gradus-merge.so is neither beside {} nor in ../libexec/gradus",
                here.native())
        .hint("install it with the program: cmake --install");
}

MergeFunction loadModule() {
    const fs::path path = findModule();
    // Never closed: it is needed until the process ends, or not at all.
    void* const module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* const found = module == nullptr ? nullptr : ::dlsym(module, "gradus_merge_text_1");
    if (found == nullptr) {
        const char* const reason = ::dlerror();
        throw Error(ErrorCode::kInfrastructure, "{} cannot be loaded: {}", path.native(),
                    reason != nullptr ? reason : "unknown")
            .hint("it needs libgit2; install both again");
    }
    return reinterpret_cast<MergeFunction>(found);
}

void appendTo(void* context, const char* bytes, std::size_t size) {
    static_cast<std::string*>(context)->append(bytes, size);
}

GradusText textOf(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

}  // namespace

bool isBinary(std::string_view bytes) { return bytes.substr(0, kLookedAt).find('\0') != std::string_view::npos; }

std::optional<std::string> mergeText(std::string_view ancestor, std::string_view ours, std::string_view theirs) {
    static const MergeFunction kMerge = loadModule();
    std::string merged;
    const int answer = kMerge(textOf(ancestor), textOf(ours), textOf(theirs), &appendTo, &merged);
    if (answer < 0) throw Error(ErrorCode::kInfrastructure, "libgit2 could not merge three texts");
    return answer == 1 ? std::optional(std::move(merged)) : std::nullopt;
}

}  // namespace gradus
