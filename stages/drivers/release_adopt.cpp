// How a release directory's driver takes over what others have put there.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "stages/drivers/release_base.h"
#include "stages/drivers/release_directory.h"
#include "stages/drivers/release_link.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

void must(int error, std::string_view action, std::string_view path) {
    if (error != 0) throwFault(action, path, error);
}

/// A relative link that leads out of the tree would lead elsewhere once the tree lies one level deeper.
bool leadsOut(const std::string& path, const fs::path& text) {
    if (text.is_absolute()) return false;
    const fs::path end = (fs::path(path).parent_path() / text).lexically_normal();
    return !end.empty() && *end.begin() == "..";
}

void refuseLinksThatLeadOut(const fs::path& tree, const TreeRecord& record) {
    for (const RecordedPath& path : record.paths) {
        if (path.entry.type != EntryType::kSymlink) continue;
        const fs::path text = fs::read_symlink(tree / path.path);
        if (leadsOut(path.path, text))
            throw Error(ErrorCode::kNotAllowed, "{} cannot become a release: the link '{}' leads out of it, to '{}'",
                        tree.native(), printable(path.path), printable(text.native()))
                .hint("make it absolute, then try again");
    }
}

void refuseUnshared(const ReleaseLayout& layout, const fs::path& release) {
    for (const std::string& path : layout.shared()) {
        const fs::path here = release / path;
        const fs::path shared = layout.root() / ReleaseLayout::kShared / path;
        std::error_code ignored;
        // The link leads there once the directory lies among the releases.
        const bool isLink = fs::read_symlink(here, ignored) == ReleaseLayout::linkToShared(path);
        if (!fs::exists(fs::symlink_status(here, ignored)) || isLink || fs::equivalent(here, shared, ignored)) continue;
        throw Error(ErrorCode::kNotAllowed, "'{}' is to be shared, but lies in {} itself", path, release.native())
            .hint(fmt::format("mv {0} {1} && ln -s {2} {0}", here.native(), shared.native(),
                              ReleaseLayout::linkToShared(path)));
    }
}

TreeRecord recordOf(const ReleaseLayout& layout, const fs::path& tree) {
    RecordRequest request;
    request.isLeftOut = [&](const std::string& path) { return layout.isShared(path); };
    return recordTree(TreeRoot(tree), request);
}

}  // namespace

/// `current`, if it is anything that could be taken.
Sighting ReleaseDirectoryDriver::adoptable(const FileDescriptor& root) const {
    const Sighting seen = root ? sight(root.get(), ReleaseLink::kName) : Sighting();
    if (!seen.exists)
        throw Error(ErrorCode::kNotAllowed, "{} has no 'current' that could be taken", layout_.root().native())
            .hint(root ? fmt::format("move what is in use to {}/current, then adopt it", layout_.root().native())
                       : "promote into the stage: the first promotion makes it");
    if (!S_ISLNK(seen.mode) && !S_ISDIR(seen.mode))
        throw Error(ErrorCode::kNotAllowed, "{}/current is {}, and a release is a directory", layout_.root().native(),
                    fileTypeName(seen.mode));
    return seen;
}

HeldTree ReleaseDirectoryDriver::adopt() {
    const FileDescriptor root = layout_.open();
    const Sighting seen = adoptable(root);
    return S_ISLNK(seen.mode) ? adoptLinked(root.get()) : adoptDirectory(root.get(), seen);
}

void ReleaseDirectoryDriver::requireAdoptable() const {
    const FileDescriptor root = layout_.open();
    const Sighting seen = adoptable(root);
    if (S_ISLNK(seen.mode))
        linkedTree(root.get());
    else
        ownTree(seen);
}

std::pair<std::string, TreeRecord> ReleaseDirectoryDriver::linkedTree(int root) const {
    const std::string link = ReleaseLink(root, context_.files).text().value_or("");
    const auto id = layout_.idOf(link);
    if (!id || !fs::is_directory(fs::symlink_status(layout_.release(*id))))
        throw Error(ErrorCode::kNotAllowed, "{}/current leads to '{}', which is no directory in {}",
                    layout_.root().native(), printable(link), layout_.releases().native())
            .hint("move that directory to " + layout_.releases().native() + "/1 and let current lead to releases/1");
    refuseUnshared(layout_, layout_.release(*id));
    return {*id, recordOf(layout_, layout_.release(*id))};
}

HeldTree ReleaseDirectoryDriver::adoptLinked(int root) {
    const auto [id, record] = linkedTree(root);
    const ReleaseHead head = remember(id, record);
    return {layout_.release(id), head.manifest, shelf_.outputs(id)};
}

TreeRecord ReleaseDirectoryDriver::ownTree(const Sighting& seen) const {
    const fs::path tree = layout_.root() / ReleaseLink::kName;
    if (seen.isMountPoint)
        throw Error(ErrorCode::kNotAllowed, "something is mounted at {}", tree.native())
            .hint("mount it elsewhere and let current be a directory or a link into releases");
    refuseUnshared(layout_, tree);
    TreeRecord record = recordOf(layout_, tree);
    refuseLinksThatLeadOut(tree, record);
    return record;
}

// The link is made where the directory will be, and then they change places: at every instant `current` leads to the
// tree.
HeldTree ReleaseDirectoryDriver::adoptDirectory(int root, const Sighting& seen) {
    const std::string id = fmt::format("adopted-{}", seen.inode);
    const ReleaseHead head = remember(id, ownTree(seen));
    if (!sight(root, std::string(ReleaseLayout::kReleases)).exists) {
        must(context_.files.makeDirectory(root, std::string(ReleaseLayout::kReleases)), "create", "releases");
        const FileDescriptor made = openFile(layout_.releases(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        must(context_.files.setMode(made.get(), 0755), "set the mode of", "releases");
    }
    const FileDescriptor releases = openFile(layout_.releases(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    const int error = context_.files.makeLink(releases.get(), id, ReleaseLayout::linkTo(id));
    if (error != EEXIST) must(error, "prepare the link", id);
    must(context_.files.move(root, ReleaseLink::kName, releases.get(), id, Move::kExchange), "move into place", id);
    must(context_.files.sync(releases.get()), "sync", layout_.releases().native());
    must(context_.files.sync(root), "sync", layout_.root().native());
    return {layout_.release(id), head.manifest};
}

std::optional<ReleaseHead> ReleaseDirectoryDriver::kept(const Digest& tree) const {
    std::optional<ReleaseHead> newest;
    for (const std::string& id : shelf_.begun()) {
        const auto head = shelf_.head(id);
        if (!head || head->manifest != tree || (newest && newest->made > head->made)) continue;
        if (!fs::is_directory(fs::symlink_status(layout_.release(id)))) continue;
        if (departuresOf(layout_, shelf_.record(*head), layout_.release(id), Scrutiny::kTouched).changed.empty())
            newest = head;
    }
    return newest;
}

std::optional<HeldTree> ReleaseDirectoryDriver::takeKept(const std::optional<Digest>& tree) {
    const auto head = tree ? kept(*tree) : std::nullopt;
    if (tree && !head)
        throw Error(ErrorCode::kNotAllowed, "stage '{}': the tree {} is not kept any more, or not what it was",
                    context_.stage.name, tree->brief())
            .hint(fmt::format("gradus adopt {} --holds nothing: the next promotion brings a whole tree",
                              context_.stage.name));
    const FileDescriptor root = openFile(layout_.root(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    ReleaseLink link(root.get(), context_.files);
    const auto wanted = head ? std::optional(ReleaseLayout::linkTo(head->id)) : std::nullopt;
    if (!link.change(link.text(), wanted))
        throw Error(ErrorCode::kBusy, "somebody switches {} at this very moment", layout_.root().native());
    shelf_.setActivation({false, head ? head->id : ""});
    if (!head) return std::nullopt;
    return HeldTree{layout_.release(head->id), head->manifest, shelf_.outputs(head->id)};
}

ReleaseHead ReleaseDirectoryDriver::remember(const std::string& id, const TreeRecord& record) {
    const std::string bytes = record.encode();
    context_.objects.put(bytes);
    // What was built stays what was built, though somebody may have changed it.
    std::vector<std::string> outputs = shelf_.outputs(id);
    std::erase_if(outputs, [&](const std::string& path) { return record.find(path) == nullptr; });
    ReleaseHead head = shelf_.finish(id, bytes, record.manifest().digest(), toMillis(context_.clock.now()), outputs);
    shelf_.setActivation({false, id});
    // Last: what has begun and is not finished would be thrown away.
    shelf_.begin(id);
    shelf_.show(id);
    return head;
}

}  // namespace gradus
