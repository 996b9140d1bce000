#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "stages/changes/tree_reader.h"
#include "store/model/change_set.h"
#include "store/objects.h"
#include "tests/support/scratch.h"

namespace gradus::test {

inline void writeText(const std::filesystem::path& path, const std::string& text, mode_t mode = 0644) {
    std::filesystem::create_directories(path.parent_path());
    std::filesystem::remove(path);
    std::ofstream(path, std::ios::binary) << text;
    ::chmod(path.c_str(), mode);
}

inline std::string readText(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// A tree and a store of objects.
struct ChangeRig {
    ScratchDirectory scratch;
    FakeClock clock;
    std::filesystem::path tree = scratch / "tree";
    Objects objects{scratch / "objects", clock};

    ChangeRig() { std::filesystem::create_directories(tree); }

    Entry file(const std::string& text, std::uint32_t mode = 0644) {
        return {EntryType::kFile, mode, objects.put(text), text.size()};
    }
    Entry link(const std::string& text) { return {EntryType::kSymlink, 0777, objects.put(text), text.size()}; }
    static Entry directory(std::uint32_t mode = 0755) { return {EntryType::kDirectory, mode, {}, 0}; }
    std::string text(const std::optional<Entry>& entry) const { return objects.readAll(entry->digest, 1U << 30); }
    void put(const std::string& path, const std::string& bytes, mode_t mode = 0644) {
        writeText(tree / path, bytes, mode);
    }
    DirectoryReader reader() const { return DirectoryReader(tree); }
};

}  // namespace gradus::test
