// Any bytes as a patch: read, applied to a small tree, and what comes out is a change that obeys every rule.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "stages/changes/patch.h"
#include "stages/changes/patch_binary.h"
#include "store/model/clock.h"
#include "store/model/error.h"

namespace {

namespace fs = std::filesystem;

/// A tree and its objects, made once for all inputs.
struct Rig {
    fs::path place;
    gradus::SystemClock clock;
    gradus::Objects objects;
    gradus::DirectoryReader reader;

    static fs::path make() {
        std::string name = (fs::temp_directory_path() / "gradus-fuzz-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) std::abort();
        fs::create_directories(fs::path(name) / "tree/d");
        std::ofstream(fs::path(name) / "tree/a") << "1\n2\n3\n";
        std::ofstream(fs::path(name) / "tree/d/b") << "one\ntwo";
        fs::create_symlink("a", fs::path(name) / "tree/l");
        return name;
    }
    explicit Rig(const fs::path& made) : place(made), objects(made / "objects", clock), reader(made / "tree") {}
    ~Rig() {
        std::error_code ignored;
        fs::remove_all(place, ignored);
    }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static Rig rig(Rig::make());
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const gradus::Patch patch = gradus::parsePatch(text);
    for (const gradus::PatchFault& fault : patch.faults)
        if (fault.text().empty() || fault.line == 0) std::abort();
    try {
        const gradus::PatchedChange patched = gradus::applyPatch(patch, rig.reader, rig.objects);
        if (!patched.faults.empty() && !patched.changes.empty()) std::abort();
        for (const gradus::PathChange& change : patched.changes.changes())
            if (gradus::pathFault(change.path) || (change.after && (change.after->mode & ~0777U) != 0)) std::abort();
    } catch (const gradus::Error&) {
        // An answer as good as any; anything else that is thrown is not.
    }
    static_cast<void>(gradus::appliedDelta("0123456789", text));
    return 0;
}
