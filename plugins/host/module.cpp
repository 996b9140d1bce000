#include "plugins/host/module.h"

#include <dlfcn.h>
#include <unistd.h>

#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void cannotLoad(const fs::path& file) {
    const char* const reason = ::dlerror();
    throw Error(ErrorCode::kInfrastructure, "cannot load {}: {}", file.native(), reason != nullptr ? reason : "?")
        .hint("install the libraries it needs, or gradus itself anew");
}

}  // namespace

fs::path partOfProgram(const std::string& name) {
    const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
    for (const fs::path& candidate : {here / name, here / "../libexec/gradus" / name})
        if (::access(candidate.c_str(), R_OK) == 0) return fs::canonical(candidate);
    throw Error(ErrorCode::kInfrastructure, "{} is neither beside {} nor in ../libexec/gradus", name, here.native())
        .hint("install it with the program: cmake --install");
}

void* moduleSymbol(const std::string& module, const char* symbol) {
    const fs::path file = partOfProgram(module);
    // Loading what is loaded only counts; it is never let go of, so nothing of it can be called too late.
    void* const handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) cannotLoad(file);
    void* const found = ::dlsym(handle, symbol);
    if (found == nullptr) cannotLoad(file);
    return found;
}

}  // namespace gradus
