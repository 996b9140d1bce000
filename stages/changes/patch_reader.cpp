#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "stages/changes/patch.h"
#include "stages/changes/patch_binary.h"
#include "store/model/utf8.h"

namespace gradus {

namespace {

constexpr std::string_view kNothing = "/dev/null";
constexpr std::size_t kMostFiles = 1'000'000;
constexpr std::size_t kMostFaults = 1000;

// A name in quotes, with git's escapes. Nothing if it is not closed; `rest` is what follows it.
std::optional<std::string> unquoted(std::string_view text, std::string_view& rest) {
    std::string name;
    for (std::size_t i = 1; i < text.size(); ++i) {
        if (text[i] == '"') {
            rest = text.substr(i + 1);
            return name;
        }
        if (text[i] != '\\') {
            name += text[i];
            continue;
        }
        if (++i >= text.size()) return std::nullopt;
        constexpr std::string_view kLetters = "abtnvfr\"\\";
        constexpr std::string_view kMeanings = "\a\b\t\n\v\f\r\"\\";
        if (const std::size_t at = kLetters.find(text[i]); at != std::string_view::npos) {
            name += kMeanings[at];
            continue;
        }
        unsigned value = 0;
        const char* const begin = text.data() + i;
        const auto [end, error] = std::from_chars(begin, std::min(begin + 3, text.data() + text.size()), value, 8);
        if (error != std::errc() || end != begin + 3 || value > 255) return std::nullopt;
        name += static_cast<char>(value);
        i += 2;
    }
    return std::nullopt;
}

// "a/dir/name" without its first part, as `-p1`.
std::optional<std::string> stripped(const std::string& name) {
    const std::size_t slash = name.find('/');
    if (slash == std::string::npos || slash == 0) return std::nullopt;
    return name.substr(slash + 1);
}

std::string_view withoutReturn(std::string_view line) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
}

bool readNumber(std::string_view& text, std::size_t& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value > (std::size_t{1} << 40)) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
}

// "12,3" or "12", which is "12,1".
bool readRange(std::string_view& text, std::size_t& start, std::size_t& count) {
    count = 1;
    if (!readNumber(text, start)) return false;
    if (!text.starts_with(',')) return true;
    text.remove_prefix(1);
    return readNumber(text, count);
}

/// Line by line. One fault ends the file it is in; the next one is read again.
class Reader {
  public:
    explicit Reader(std::string_view text) : rest_(text) { next(); }

    Patch read() {
        while (!atEnd_) {
            const auto began = number_;
            if (line_.starts_with("diff --git ")) {
                readGit();
            } else if (line_.starts_with("--- ") && peek().starts_with("+++ ")) {
                readPlain();
            } else {
                readWords();
            }
            // A fault in the very first line of a file leaves it where it is: it is not looked at twice.
            if (number_ == began) next();
            if (patch_.files.size() > kMostFiles || patch_.faults.size() >= kMostFaults) {
                fault("nothing after this was read: too many files or faults");
                break;
            }
        }
        if (patch_.files.empty() && patch_.faults.empty()) fault("there is no diff in it");
        return std::move(patch_);
    }

  private:
    void next() {
        atEnd_ = rest_.empty();
        ++number_;
        const std::size_t end = rest_.find('\n');
        raw_ = rest_.substr(0, end);
        line_ = withoutReturn(raw_);
        rest_.remove_prefix(end != std::string_view::npos ? end + 1 : rest_.size());
    }
    std::string_view peek() const { return rest_.substr(0, rest_.find('\n')); }

    void fault(std::string reason, std::size_t hunk = 0) {
        patch_.faults.push_back({file_.path(), hunk, number_, std::move(reason)});
        isBad_ = true;
    }

    // "From <id> Mon Sep 17 00:00:00 2001": git's mark between patches.
    bool isMailStart() const {
        constexpr std::string_view kFrom = "From ";
        if (!line_.starts_with(kFrom)) return false;
        const std::string_view id = line_.substr(kFrom.size(), line_.find(' ', kFrom.size()) - kFrom.size());
        return id.size() >= 40 && id.find_first_not_of("0123456789abcdef") == std::string_view::npos;
    }

    void readWords() {
        if (isMailStart() && !patch_.files.empty()) ++series_;
        constexpr std::string_view kSubject = "Subject: ";
        if (patch_.files.empty() && patch_.title.empty() && line_.starts_with(kSubject)) {
            std::string_view title = line_.substr(kSubject.size());
            if (title.starts_with("[PATCH")) title.remove_prefix(std::min(title.find(']'), title.size() - 1) + 1);
            title.remove_prefix(std::min(title.find_first_not_of(' '), title.size()));
            patch_.title = title;
            next();
            // A long one goes on in lines that begin with a space.
            for (; !atEnd_ && line_.starts_with(' '); next()) patch_.title += line_;
            return;
        }
        next();
    }

    void begin() {
        file_ = PatchFile();
        file_.line = number_;
        file_.series = series_;
        isBad_ = false;
    }

    // Git writes two sides with two prefixes, so the same name twice has none. (In two words or in quotes.)
    static bool areTheSame(std::string_view names) {
        const std::size_t half = names.size() / 2;
        return names.size() % 2 == 1 && names[half] == ' ' && names.substr(0, half) == names.substr(half + 1);
    }

    // Of a plain diff: the same name on both sides, or the only name there is, and no prefix that tools write.
    bool isBarePlain() const {
        const auto nameIn = [](std::string_view line) {
            line = withoutReturn(line).substr(4);
            return line.substr(0, line.find('\t'));
        };
        const std::string_view from = nameIn(line_);
        const std::string_view to = nameIn(peek());
        const std::string_view name = to == kNothing ? from : to;
        if (from != to && from != kNothing && to != kNothing) return false;
        return !(name.size() > 2 && name[1] == '/') && !name.starts_with('"') && !name.starts_with('/');
    }

    /// The name without its first part, where it has one that is none of the path.
    std::optional<std::string> withoutPrefix(const std::string& name) {
        if (!isBare_) return stripped(name);
        patch_.hasBareNames = true;
        return name.empty() || name.front() == '/' ? std::nullopt : std::optional(name);
    }

    void finish() {
        if (!isBad_) patch_.files.push_back(std::move(file_));
        file_ = PatchFile();
    }

    void readGit() {
        begin();
        const std::string_view names = line_.substr(std::string_view("diff --git ").size());
        isBare_ = areTheSame(names);
        next();
        bool named = false;
        while (!atEnd_ && !isBad_ && readHeader(named)) next();
        // Without hunks only this line has the names; then both are the same.
        if (!isBad_ && !named && !readBothNames(names)) fault("the names in 'diff --git' cannot be told apart");
        if (file_.isNew) file_.oldPath.clear();
        if (file_.isDeleted) file_.newPath.clear();
        if (!isBad_) readBody();
        finish();
    }

    // False at the first line that is no header.
    bool readHeader(bool& named) {
        const auto mode = [&](std::string_view word, std::optional<std::uint32_t>& into) {
            if (!line_.starts_with(word)) return false;
            std::uint32_t value = 0;
            const std::string_view digits = line_.substr(word.size());
            const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
            if (error != std::errc() || end != digits.data() + digits.size()) fault("a mode that is no number");
            into = value;
            return true;
        };
        const auto name = [&](std::string_view word, std::string& into, bool& flag) {
            if (!line_.starts_with(word)) return false;
            std::string_view after;
            const std::string_view text = line_.substr(word.size());
            const auto plain = text.starts_with('"') ? unquoted(text, after) : std::string(text);
            if (!plain || !after.empty()) fault("a name that is not quoted right");
            into = plain.value_or("");
            flag = named = true;
            return true;
        };
        if (mode("old mode ", file_.oldMode) || mode("new mode ", file_.newMode)) return true;
        if (mode("new file mode ", file_.newMode)) return file_.isNew = true;
        if (mode("deleted file mode ", file_.oldMode)) return file_.isDeleted = true;
        if (name("rename from ", file_.oldPath, file_.isRename) || name("rename to ", file_.newPath, file_.isRename) ||
            name("copy from ", file_.oldPath, file_.isCopy) || name("copy to ", file_.newPath, file_.isCopy))
            return true;
        if (line_.starts_with("similarity index ") || line_.starts_with("dissimilarity index ")) return true;
        if (line_.starts_with("index ")) return readIndex();
        if (line_.starts_with("--- ")) return readNames(named);
        return false;
    }

    // "index 1234..5678 100644": the mode where it did not change.
    bool readIndex() {
        std::string_view ids = line_.substr(std::string_view("index ").size());
        ids = ids.substr(0, ids.find(' '));
        if (const std::size_t dots = ids.find(".."); dots != std::string_view::npos) {
            file_.oldId = ids.substr(0, dots);
            file_.newId = ids.substr(dots + 2);
        }
        const std::size_t space = line_.rfind(' ');
        const std::string_view word = line_.substr(space + 1);
        std::uint32_t value = 0;
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, 8);
        const bool isMode = word.size() == 6 && error == std::errc() && end == word.data() + word.size();
        if (isMode && space > 6 && !file_.oldMode && !file_.newMode) file_.oldMode = file_.newMode = value;
        return true;
    }

    // "--- a/x" and the "+++ b/x" after it.
    bool readNames(bool& named) {
        const bool wasNamed = named;
        std::string from;
        std::string to;
        if (!readSide("--- ", from)) return false;
        next();
        if (!line_.starts_with("+++ ")) {
            fault("'---' without '+++'");
            return false;
        }
        if (!readSide("+++ ", to)) return false;
        if (!wasNamed) {
            file_.oldPath = from;
            file_.newPath = to;
            if (from.empty()) file_.isNew = true;
            if (to.empty()) file_.isDeleted = true;
            if (from.empty() && to.empty()) fault("neither side has a name");
        }
        if (!from.empty() && !to.empty() && from != to && !file_.isRename && !file_.isCopy && isGit_)
            fault("two names without a rename");
        named = true;
        return true;
    }

    bool readSide(std::string_view word, std::string& into) {
        std::string_view text = line_.substr(word.size());
        std::string_view after;
        std::string name;
        if (text.starts_with('"')) {
            const auto plain = unquoted(text, after);
            if (!plain) {
                fault("a name that is not quoted right");
                return false;
            }
            name = *plain;
        } else {
            // A time may follow, after a tab.
            name = text.substr(0, text.find('\t'));
        }
        if (name == kNothing) return true;
        const auto path = withoutPrefix(name);
        if (!path)
            fault(
                fmt::format("the name '{}' has no part to leave out, as in 'a/{}'", printable(name), printable(name)));
        into = path.value_or("");
        return path.has_value();
    }

    bool readBothNames(std::string_view names) {
        std::optional<std::string> from;
        std::string_view after;
        if (names.starts_with('"')) {
            from = unquoted(names, after);
            if (!from || !after.starts_with(' ')) return false;
            after.remove_prefix(1);
            std::string_view end;
            const auto to = after.starts_with('"') ? unquoted(after, end) : std::string(after);
            return to && end.empty() && takeBoth(*from, *to);
        }
        // "a/x y b/x y": both sides but for the first part, and so of one length.
        for (std::size_t space = names.find(' '); space != std::string_view::npos; space = names.find(' ', space + 1)) {
            const std::string left(names.substr(0, space));
            const std::string_view right = names.substr(space + 1);
            const auto to = right.starts_with('"') ? unquoted(right, after) : std::string(right);
            if (to && withoutPrefix(left) && withoutPrefix(left) == withoutPrefix(*to)) return takeBoth(left, *to);
        }
        return false;
    }

    bool takeBoth(const std::string& from, const std::string& to) {
        const auto a = withoutPrefix(from);
        const auto b = withoutPrefix(to);
        if (!a || a != b) return false;
        file_.oldPath = *a;
        file_.newPath = *b;
        return true;
    }

    void readPlain() {
        begin();
        isGit_ = false;
        isBare_ = isBarePlain();
        bool named = false;
        if (readNames(named)) next();
        if (!isBad_ && file_.oldPath != file_.newPath && !file_.isNew && !file_.isDeleted) preferNew();
        if (!isBad_) readBody();
        if (!isBad_ && file_.hunks.empty()) fault("no hunk follows");
        finish();
        isGit_ = true;
    }

    // `diff -u a.orig a`: the name without the ending is meant.
    void preferNew() { file_.oldPath = file_.newPath; }

    void readBody() {
        if (line_.starts_with("GIT binary patch")) return readBinary();
        if (line_.starts_with("Binary files ")) {
            fault("a binary file without its bytes; make the patch with 'git diff --binary'");
            return next();
        }
        while (!atEnd_ && !isBad_ && line_.starts_with("@@ ")) readHunk();
    }

    void readHunk() {
        PatchHunk hunk{.line = number_};
        const std::size_t number = file_.hunks.size() + 1;
        std::string_view text = line_.substr(3);
        bool fits = text.starts_with('-');
        if (fits) text.remove_prefix(1);
        fits = fits && readRange(text, hunk.oldStart, hunk.oldCount) && text.starts_with(" +");
        if (fits) text.remove_prefix(2);
        fits = fits && readRange(text, hunk.newStart, hunk.newCount) && text.starts_with(" @@");
        if (!fits) return fault("the head of a hunk cannot be read", number);
        next();
        std::size_t oldLeft = hunk.oldCount;
        std::size_t newLeft = hunk.newCount;
        while (oldLeft > 0 || newLeft > 0) {
            if (atEnd_) return fault("the patch ends within a hunk", number);
            if (!readLine(hunk, oldLeft, newLeft)) return fault("a line that no hunk has, or too many of them", number);
            next();
            if (line_.starts_with("\\ ") && !atEnd_) {
                hunk.lines.back().endsInNewline = false;
                next();
            }
        }
        file_.hunks.push_back(std::move(hunk));
    }

    bool readLine(PatchHunk& hunk, std::size_t& oldLeft, std::size_t& newLeft) {
        // A mailer may have eaten the space of an empty line.
        const char kind = raw_.empty() || raw_ == "\r" ? ' ' : raw_.front();
        const bool isOld = kind == ' ' || kind == '-';
        const bool isNew = kind == ' ' || kind == '+';
        if ((!isOld && !isNew) || (isOld && oldLeft == 0) || (isNew && newLeft == 0)) return false;
        oldLeft -= isOld ? 1 : 0;
        newLeft -= isNew ? 1 : 0;
        const std::string_view text = raw_.empty() || raw_ == "\r" ? raw_ : raw_.substr(1);
        hunk.lines.push_back({kind, text, true, number_});
        return true;
    }

    void readBinary() {
        next();
        std::string reason;
        auto forward = readHalf(reason);
        if (!forward) return fault(reason);
        file_.binary = std::move(forward);
        // The way back; it is skipped, as what was there is known.
        if (line_.starts_with("literal ") || line_.starts_with("delta ")) {
            if (!readHalf(reason)) fault(reason);
        }
    }

    std::optional<PatchBinary> readHalf(std::string& reason) {
        PatchBinary half;
        half.isDelta = line_.starts_with("delta ");
        std::string_view size = line_.substr(std::min(line_.find(' ') + 1, line_.size()));
        std::size_t expected = 0;
        reason = "a binary patch that cannot be read";
        if ((!half.isDelta && !line_.starts_with("literal ")) || !readNumber(size, expected) || !size.empty())
            return std::nullopt;
        std::string packed;
        for (next(); !atEnd_ && !line_.empty(); next())
            if (!decodeBase85Line(line_, packed)) return std::nullopt;
        next();
        auto bytes = inflated(packed, expected);
        if (!bytes) return std::nullopt;
        half.bytes = std::move(*bytes);
        return half;
    }

    std::string_view rest_;
    std::string_view raw_;
    std::string_view line_;
    std::size_t number_ = 0;
    bool atEnd_ = false;
    bool isBad_ = false;
    bool isGit_ = true;
    bool isBare_ = false;
    std::size_t series_ = 0;
    PatchFile file_;
    Patch patch_;
};

}  // namespace

std::string PatchFault::text() const {
    std::string where = fmt::format("patch line {}", line);
    if (!path.empty()) where += fmt::format(": {}", printable(path));
    if (hunk > 0) where += fmt::format(", hunk {}", hunk);
    return fmt::format("{}: {}", where, printable(reason));
}

Patch parsePatch(std::string_view text) { return Reader(text).read(); }

}  // namespace gradus
