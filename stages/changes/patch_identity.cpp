#include "stages/changes/patch_identity.h"

#include "stages/changes/text_merge.h"
#include "store/model/canonical.h"

namespace gradus {

namespace {

bool isText(const std::optional<Entry>& entry, const Objects& objects) {
    return !entry || (entry->type == EntryType::kFile && entry->size <= kMostMerged && objects.contains(entry->digest));
}

std::string contentOf(const std::optional<Entry>& entry, const Objects& objects) {
    return entry ? objects.readAll(entry->digest, kMostMerged) : std::string();
}

// What was removed and what was added, in order, without the lines around it.
std::string editedLines(std::string_view hunks) {
    std::string lines;
    while (!hunks.empty()) {
        const std::string_view line = hunks.substr(0, hunks.find('\n'));
        if (line.starts_with('+') || line.starts_with('-') || line.starts_with('\\')) (lines += line) += '\n';
        hunks.remove_prefix(std::min(line.size() + 1, hunks.size()));
    }
    return lines;
}

std::string_view typeName(const std::optional<Entry>& entry) {
    return entry ? nameOf(kEntryTypes, entry->type) : "absent";
}

// Of a path whose lines cannot be compared, what it becomes.
void addChange(Canonical& out, const PathChange& change, const Objects& objects) {
    out.text(change.path).text(change.beforeKnown ? typeName(change.before) : "unknown").text(typeName(change.after));
    const bool canExecute = change.after && change.after->type == EntryType::kFile && (change.after->mode & 0100) != 0;
    out.number(canExecute ? 1 : 0);
    if (change.beforeKnown && isText(change.before, objects) && isText(change.after, objects)) {
        const std::string before = contentOf(change.before, objects);
        const std::string after = contentOf(change.after, objects);
        if (!isBinary(before) && !isBinary(after)) {
            out.text(editedLines(diffText(before, after)));
            return;
        }
    }
    out.optionalDigest(change.after ? std::optional(change.after->digest) : std::nullopt);
}

}  // namespace

Digest patchIdentity(const ChangeSet& changes, const Objects& objects) {
    Canonical out("gradus.patch-identity.1");
    std::size_t count = 0;
    // Directories come and go with what they hold.
    const auto isOfInterest = [](const PathChange& change) {
        const auto isFile = [](const std::optional<Entry>& side) {
            return side && side->type != EntryType::kDirectory;
        };
        return isFile(change.before) || isFile(change.after) || !change.beforeKnown;
    };
    for (const PathChange& change : changes.changes()) count += isOfInterest(change) ? 1 : 0;
    out.list(count);
    for (const PathChange& change : changes.changes())
        if (isOfInterest(change)) addChange(out, change, objects);
    return out.hash();
}

}  // namespace gradus
