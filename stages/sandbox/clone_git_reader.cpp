#include "stages/sandbox/clone_git_reader.h"

#include "store/model/error.h"

namespace gradus {

namespace {

constexpr std::uint64_t kLongestLink = 4096;
constexpr std::size_t kPiece = std::size_t{64} * 1024;

void writeBlob(const GitTreeItem& item, std::uint64_t size, ByteSource& content, TreeFiles& files) {
    if (item.isLink()) {
        if (size > kLongestLink)
            throw Error(ErrorCode::kDamaged, "the link '{}' of the commit is longer than a link can be", item.path);
        return files.link(item.path, readWhole(content));
    }
    files.beginFile(item.path, item.isExecutable());
    std::vector<char> space(kPiece);
    while (const std::size_t got = content.read(space)) files.write({space.data(), got});
    files.endFile();
}

}  // namespace

void writeTree(const GitObjects& objects, const std::string& commit, const std::filesystem::path& prefix,
               TreeFiles& files) {
    const auto items = objects.tree(commit, prefix);
    if (!items)
        throw Error(ErrorCode::kNotFound, "the commit {} has no directory '{}'", commit, prefix.native())
            .hint("the project was elsewhere then, or the repository is damaged: git fsck");
    std::vector<const GitTreeItem*> blobs;
    std::vector<std::string> ids;
    std::vector<std::string> paths;
    for (const GitTreeItem& item : *items) {
        if (item.isDirectory()) files.directory(item.path);
        if (item.isSubmodule()) files.submodule(item.path);
        if (!item.isBlob()) continue;
        blobs.push_back(&item);
        ids.push_back(item.id);
        paths.push_back(item.path);
    }
    const auto write = [&](std::size_t number, std::uint64_t size, ByteSource& content) {
        writeBlob(*blobs[number], size, content, files);
    };
    objects.blobs(ids, write, paths);
}

}  // namespace gradus
