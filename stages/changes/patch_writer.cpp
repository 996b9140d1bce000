#include "stages/changes/patch_writer.h"

#include <fmt/format.h>

#include "stages/changes/patch.h"
#include "stages/changes/patch_binary.h"
#include "stages/changes/text_merge.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

using Side = std::optional<Entry>;

bool hasContent(const Side& side) { return side && side->type != EntryType::kDirectory; }

std::string_view gitMode(const Entry& entry) {
    if (entry.type == EntryType::kSymlink) return "120000";
    return (entry.mode & 0100) != 0 ? "100755" : "100644";
}

// The paths of a change have neither control characters nor backslashes.
std::string quoted(std::string_view side, const std::string& path) {
    if (path.find('"') == std::string::npos) return fmt::format("{}{}", side, path);
    std::string out = fmt::format("\"{}", side);
    for (const char c : path) out += c == '"' ? std::string("\\\"") : std::string(1, c);
    return out + '"';
}

// With a space in it, git marks the end of the name by a tab.
std::string endOf(const std::string& path) { return path.find(' ') != std::string::npos ? "\t" : ""; }

class PatchWriter {
  public:
    PatchWriter(const Objects& objects, BlobNaming naming) : objects_(objects), naming_(naming) {}

    WrittenPatch write(const ChangeSet& changes) {
        for (const PathChange& change : changes.changes()) write(change);
        return std::move(patch_);
    }

  private:
    void write(const PathChange& change) {
        if (!change.beforeKnown)
            throw Error(ErrorCode::kNotAllowed, "what '{}' was before is not known, so no patch can say it",
                        printable(change.path))
                .hint("`gradus rebase` makes a revision that knows");
        const bool was = hasContent(change.before);
        const bool is = hasContent(change.after);
        if (!was && !is) return noteDirectory(change);
        if (was && is && change.before->type != change.after->type) {
            writeOne(change.path, change.before, std::nullopt);
            return writeOne(change.path, std::nullopt, change.after);
        }
        if (was && is && gitMode(*change.before) == gitMode(*change.after) &&
            change.before->digest == change.after->digest)
            return note(change.path, "its permissions change in a way that git does not know");
        writeOne(change.path, was ? change.before : std::nullopt, is ? change.after : std::nullopt);
    }

    void note(const std::string& path, std::string_view reason) {
        patch_.notes.push_back(fmt::format("{}: {}", printable(path), reason));
    }

    // Git makes and removes directories with what they hold.
    void noteDirectory(const PathChange& change) {
        if (change.before && change.after) note(change.path, "the permissions of a directory are not part of a patch");
    }

    std::string contentOf(const std::string& path, const Side& side) const {
        if (!side) return {};
        if (!objects_.contains(side->digest))
            throw Error(ErrorCode::kNotAllowed, "the content of '{}' is not stored", printable(path));
        return objects_.readAll(side->digest, kLongestPatch);
    }

    std::string idOf(const Side& side, const std::string& text) const {
        if (!side) return std::string(naming_ == BlobNaming::kSha256 ? 64 : 40, '0');
        BlobHasher hasher(naming_, text.size());
        hasher.update(text);
        return hasher.finish();
    }

    void writeOne(const std::string& path, const Side& before, const Side& after) {
        const std::string old = contentOf(path, before);
        const std::string made = contentOf(path, after);
        std::string& out = patch_.text;
        out += fmt::format("diff --git {} {}\n", quoted("a/", path), quoted("b/", path));
        if (!before) out += fmt::format("new file mode {}\n", gitMode(*after));
        if (!after) out += fmt::format("deleted file mode {}\n", gitMode(*before));
        const bool sameMode = before && after && gitMode(*before) == gitMode(*after);
        if (before && after && !sameMode)
            out += fmt::format("old mode {}\nnew mode {}\n", gitMode(*before), gitMode(*after));
        if (before && after && old == made) return;
        out += fmt::format("index {}..{}{}\n", idOf(before, old), idOf(after, made),
                           sameMode ? fmt::format(" {}", gitMode(*before)) : "");
        if (old == made) return;
        if (isBinary(old) || isBinary(made)) {
            out += "GIT binary patch\n" + literal(made) + literal(old);
            return;
        }
        out += before ? fmt::format("--- {}{}\n", quoted("a/", path), endOf(path)) : "--- /dev/null\n";
        out += after ? fmt::format("+++ {}{}\n", quoted("b/", path), endOf(path)) : "+++ /dev/null\n";
        out += diffText(old, made);
    }

    static std::string literal(const std::string& bytes) {
        return fmt::format("literal {}\n{}\n", bytes.size(), encodeBase85(deflated(bytes)));
    }

    const Objects& objects_;
    BlobNaming naming_;
    WrittenPatch patch_;
};

}  // namespace

WrittenPatch writePatch(const ChangeSet& changes, const Objects& objects, BlobNaming naming) {
    return PatchWriter(objects, naming).write(changes);
}

}  // namespace gradus
