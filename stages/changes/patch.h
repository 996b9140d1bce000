#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stages/changes/tree_reader.h"
#include "store/model/change_set.h"
#include "store/model/error.h"
#include "store/objects.h"

namespace gradus {

/// Why a patch cannot be read or does not fit.
struct PatchFault {
    std::string path;      ///< empty where no file was named yet
    std::size_t hunk = 0;  ///< counted from 1 within the file; 0: not about a hunk
    std::size_t line = 0;  ///< of the patch, counted from 1
    std::string reason;

    bool operator==(const PatchFault&) const = default;
    /// "patch line 12: src/a.c, hunk 2: …"; safe to show.
    std::string text() const;
};

/// One hunk of a text. Its lines are views into the patch.
struct PatchHunk {
    struct Line {
        char kind = ' ';  ///< ' ', '-' or '+'
        std::string_view text;
        bool endsInNewline = true;
        std::size_t line = 0;  ///< of the patch
    };
    std::size_t oldStart = 0;
    std::size_t oldCount = 0;
    std::size_t newStart = 0;
    std::size_t newCount = 0;
    std::size_t line = 0;  ///< of the patch
    std::vector<Line> lines;
};

/// One half of git's binary patches, unpacked.
struct PatchBinary {
    bool isDelta = false;
    std::string bytes;  ///< the content, or what makes it of the old one
};

/// What a patch says of one file.
struct PatchFile {
    std::string oldPath;                   ///< empty: there was none
    std::string newPath;                   ///< empty: it goes
    std::optional<std::uint32_t> oldMode;  ///< as git writes them: 100644, 100755, 120000
    std::optional<std::uint32_t> newMode;
    bool isNew = false;
    bool isDeleted = false;
    bool isRename = false;
    bool isCopy = false;
    std::vector<PatchHunk> hunks;
    std::optional<PatchBinary> binary;
    std::string oldId;  ///< git's names for both contents, as far as the patch has them
    std::string newId;
    std::size_t series = 0;  ///< of several patches in one file, the one it is in; each builds on the one before
    std::size_t line = 0;

    const std::string& path() const { return newPath.empty() ? oldPath : newPath; }
};

/// A patch as text: what `git diff` and `git format-patch` write, and plain unified diffs. Words before, between and
/// after the files are passed over.
struct Patch {
    std::vector<PatchFile> files;
    std::vector<PatchFault> faults;  ///< what could not be read
    /// Names without a first part to leave out, as git writes them with `diff.noprefix`.
    bool hasBareNames = false;
    std::string title;  ///< the "Subject:" of a mail, without "[PATCH …]"; else empty
};

/// Views into `text` are kept.
Patch parsePatch(std::string_view text);

struct PatchedChange {
    ChangeSet changes;               ///< nothing while there are faults
    std::vector<PatchFault> faults;  ///< all of them, in the order of the patch
    std::vector<std::string> notes;  ///< what was taken otherwise than it is written; safe to show
};

/// Applies a patch in memory: every line of context as the hunk has it, no fuzz. A hunk whose lines are elsewhere than
/// it says goes there if that is the only place, and a note says so. Every path and type is checked. The contents of
/// both sides go to `objects`. Nothing is half-made: one fault, and there is no change.
PatchedChange applyPatch(const Patch& patch, const TreeReader& tree, Objects& objects);

/// For callers that go on only with a patch that fits: it was looked at, and it does not.
class PatchMisfit final : public Error {
  public:
    using Error::Error;
};

/// The most that is read.
inline constexpr std::size_t kLongestPatch = std::size_t{256} * 1024 * 1024;

}  // namespace gradus
