#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <map>
#include <utility>

#include "pipeline/service/project.h"
#include "pipeline/service/promoter.h"
#include "pipeline/service/service.h"
#include "pipeline/service/word_teller.h"
#include "stages/changes/text_merge.h"
#include "stages/changes/tree_reader.h"
#include "store/adoption_records.h"
#include "store/change_sets.h"
#include "store/model/error.h"
#include "store/model/handle.h"
#include "store/model/utf8.h"
#include "store/paths.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

std::string nameOf(const Records& records, ActorId id) {
    const auto actor = records.actor(id);
    return actor ? fmt::format("{}:{}", nameOf(kActorKinds, actor->kind), actor->name) : "somebody";
}

/// What a promotion brought: its change, and what its checks built.
std::vector<ChangeSet> broughtBy(const Records& records, const Objects& objects, const Promotion& promotion) {
    std::vector<ChangeSet> all{readChanges(objects, records.change(promotion.change, promotion.revision)->changeSet)};
    for (const CheckResult& check : records.checkResults(promotion.id))
        if (check.outputs && check.verdict == Cause::kPassed && objects.contains(*check.outputs))
            all.push_back(readChanges(objects, *check.outputs));
    return all;
}

/// Promotions that brought what a stage holds, newest first: from each to what the stage held before it. Where that was
/// taken for a promotion's tree on a person's word, through that word.
class Holders {
  public:
    Holders(Store& store, std::int64_t project, const std::string& stage)
        : records_(store.records()), adoptions_(adoptionsOf(store.sql(), project, stage)) {
        const StageState holds = records_.stageState(project, stage);
        holds.promotion ? take(*holds.promotion) : takeVouched(holds.tree, std::numeric_limits<std::int64_t>::max());
    }

    const std::optional<Promotion>& now() const { return now_; }
    /// The word that it was reached by.
    const std::optional<Adoption>& vouched() const { return vouched_; }
    void goBack() {
        const Promotion from = *std::exchange(now_, std::nullopt);
        from.previous ? take(*from.previous) : takeVouched(from.previousTree, from.id);
    }

  private:
    void take(std::int64_t id) { now_ = records_.promotion(id); }
    void takeVouched(const std::optional<Digest>& tree, std::int64_t before) {
        for (auto adoption = adoptions_.rbegin(); adoption != adoptions_.rend() && tree && !now_; ++adoption) {
            if (adoption->tree != tree || adoption->brought.value_or(before) >= before) continue;
            vouched_ = *adoption;
            take(*adoption->brought);
        }
    }

    const Records& records_;
    std::vector<Adoption> adoptions_;
    std::optional<Promotion> now_;
    std::optional<Adoption> vouched_;
};

/// The check that built the path, and the file as it built it.
struct BuiltFile {
    std::string check;
    PathChange file;
};

bool isDirectory(const PathChange& change) {
    const auto& entry = change.after ? change.after : change.before;
    return entry && entry->type == EntryType::kDirectory;
}

/// Who touched a path, or what is below it, last; fed with one promotion after the other, newest first.
class PathWalk {
  public:
    explicit PathWalk(std::string path) : path_(std::move(path)) {}

    /// False: nobody who came before can add anything.
    bool ask(const Promotion& promotion, const std::vector<ChangeSet>& brought) {
        for (const ChangeSet& changes : brought)
            for (const PathChange& change : changes.changes())
                if (isAtOrBelow(change.path, path_)) take(promotion, change);
        return !isFile_;
    }

    const std::optional<Promotion>& newest() const { return newest_; }
    std::vector<BlamedPath> below() const {
        std::vector<BlamedPath> all;
        for (const auto& [path, blamed] : below_) all.push_back(blamed);
        return all;
    }

  private:
    void take(const Promotion& promotion, const PathChange& change) {
        if (!newest_) newest_ = promotion;
        if (isDirectory(change)) return;
        // What is a file now has nothing below it, whatever was there before.
        if (change.path == path_)
            isFile_ = below_.empty();
        else if (!isFile_)
            below_.try_emplace(change.path, BlamedPath{change.path, promotion.id, promotion.change, promotion.revision,
                                                       !change.after.has_value()});
    }

    std::string path_;
    std::optional<Promotion> newest_;
    bool isFile_ = false;
    std::map<std::string, BlamedPath> below_;
};

/// A path of the project, as a person in `directory` writes it; nothing: it lies elsewhere.
std::optional<std::string> pathWithin(const fs::path& whole, const fs::path& root) {
    const fs::path relative = whole.lexically_relative(root);
    if (relative.empty() || *relative.begin() == "..") return std::nullopt;
    return relative == "." ? std::string() : relative.native();
}

const PathChange* changeAt(const ChangeSet& changes, const std::string& path) {
    const auto& all = changes.changes();
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const PathChange& change) { return change.path == path; });
    return found == all.end() ? nullptr : &*found;
}

/// Nothing: the promotion's checks built no such file.
std::optional<BuiltFile> builtIn(const Records& records, const Objects& objects, const Promotion& promotion,
                                 const std::string& path) {
    for (const CheckResult& check : records.checkResults(promotion.id)) {
        if (!check.outputs || check.verdict != Cause::kPassed || !objects.contains(*check.outputs)) continue;
        const ChangeSet outputs = readChanges(objects, *check.outputs);
        const PathChange* const built = changeAt(outputs, path);
        if (built != nullptr && !isDirectory(*built)) return BuiltFile{check.check, *built};
    }
    return std::nullopt;
}

/// "src/app.c:7", as far as it can be one.
std::optional<LineOfFile> lineIn(const std::string& words) {
    const std::size_t colon = words.rfind(':');
    if (colon == std::string::npos || colon == 0) return std::nullopt;
    LineOfFile line{words.substr(0, colon), 0, {}};
    const char* const end = words.data() + words.size();
    const auto read = std::from_chars(words.data() + colon + 1, end, line.number);
    return read.ec == std::errc() && read.ptr == end ? std::optional(line) : std::nullopt;
}

std::vector<std::string_view> linesOf(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size() - 1);
        lines.push_back(text.substr(0, end + 1));
        text.remove_prefix(end + 1);
    }
    return lines;
}

/// Which line of `before` is line `number` of `after`; nothing: it is new there.
std::optional<std::size_t> lineBefore(std::string_view before, std::string_view after, std::size_t number) {
    if (before == after) return number;
    const std::string hunks = diffText(before, after);
    std::size_t old = 0;
    std::size_t now = 0;
    for (const std::string_view line : linesOf(hunks)) {
        if (line.starts_with("@@ -")) {
            // "@@ -3,4 +5,6 @@": of no lines at all, the one that they come after.
            std::array<std::size_t, 4> at{0, 1, 0, 1};
            const std::size_t plus = line.find('+');
            const char* read = std::from_chars(line.data() + 4, line.data() + line.size(), at[0]).ptr;
            if (*read == ',') std::from_chars(read + 1, line.data() + line.size(), at[1]);
            read = std::from_chars(line.data() + plus + 1, line.data() + line.size(), at[2]).ptr;
            if (*read == ',') std::from_chars(read + 1, line.data() + line.size(), at[3]);
            const std::size_t oldStart = at[0] + (at[1] == 0 ? 1 : 0);
            const std::size_t nowStart = at[2] + (at[3] == 0 ? 1 : 0);
            if (number < nowStart) return number + oldStart - nowStart;
            old = oldStart;
            now = nowStart;
            continue;
        }
        if (line.front() == '+' && now == number) return std::nullopt;
        if (line.front() == ' ' && now == number) return old;
        if (line.front() == '+' || line.front() == ' ') ++now;
        if (line.front() == '-' || line.front() == ' ') ++old;
    }
    // Behind the last hunk everything is as far away as its end.
    return number + old - now;
}

/// Follows one line of a text back through what was there before.
class LineWalk {
  public:
    LineWalk(const Objects& objects, LineOfFile line, std::string text)
        : objects_(objects), line_(std::move(line)), text_(std::move(text)), number_(line_.number) {}

    enum class Came { kHere, kBefore, kElsewhere };
    /// Whether the change brought it. Elsewhere: between it and what came later somebody else wrote the line.
    Came askOf(const PathChange& change) {
        const auto after = textOf(change.after);
        if (!after) return Came::kElsewhere;
        const auto there = lineBefore(*after, text_, number_);
        if (!there) return Came::kElsewhere;
        const auto before = change.beforeKnown ? textOf(change.before) : std::nullopt;
        const auto earlier = before ? lineBefore(*before, *after, *there) : std::nullopt;
        if (!earlier) return Came::kHere;
        text_ = *before;
        number_ = *earlier;
        return Came::kBefore;
    }

    /// Whether the line is in this file, too, as it was earlier; if so, that is where it is followed from.
    bool isIn(const Entry& earlier) {
        const auto text = textOf(earlier);
        const auto there = text ? lineBefore(*text, text_, number_) : std::nullopt;
        if (!there) return false;
        text_ = *text;
        number_ = *there;
        return true;
    }

  private:
    std::optional<std::string> textOf(const std::optional<Entry>& entry) const {
        if (!entry || entry->type != EntryType::kFile || !objects_.contains(entry->digest)) return std::nullopt;
        std::string text = objects_.readAll(entry->digest, kMostMerged);
        return isBinary(text) ? std::nullopt : std::optional(std::move(text));
    }

    const Objects& objects_;
    LineOfFile line_;
    std::string text_;
    std::size_t number_;
};

// Before anything of it is read: it would be kept whole.
void requireReadable(const fs::path& file, const std::string& path) {
    std::error_code error;
    const auto size = fs::file_size(file, error);
    if (!error && size > kMostMerged)
        throw Error(ErrorCode::kUsage, "'{}' is too large to be read line by line", printable(path));
}

[[noreturn]] void throwHoldsNoChange(const Records& records, const std::optional<Adoption>& adopted,
                                     const std::string& stage) {
    if (!adopted)
        throw Error(ErrorCode::kNotFound, "'{}' is no stage that holds a change", printable(stage))
            .hint("`gradus status` shows what every stage holds");
    throw Error(ErrorCode::kNotFound, "{} holds nothing that a promotion brought: {}, {}", printable(stage),
                tellAdoption(records, *adopted).text, formatTime(adopted->at))
        .hint(fmt::format("`gradus audit timeline {}` shows what came and went", stage));
}

/// The file as the stage has it, and the line in it. Throws Error for one that cannot be asked about.
std::string textIn(const fs::path& directory, const std::string& stage, LineOfFile& line, Objects& objects) {
    const DirectoryReader reader(directory);
    requireReadable(directory / line.path, line.path);
    const auto entry = reader.keep(line.path, objects);
    if (!entry)
        throw Error(ErrorCode::kNotFound, "{} holds no '{}'", printable(stage), printable(line.path))
            .hint(fmt::format("`gradus blame {} PATH` names the change that took it away", stage));
    if (entry->type != EntryType::kFile)
        throw Error(ErrorCode::kUsage, "'{}' in {} is a {}, which has no lines", printable(line.path), printable(stage),
                    nameOf(kEntryTypes, entry->type));
    std::string text = objects.readAll(entry->digest, kMostMerged);
    if (isBinary(text))
        throw Error(ErrorCode::kUsage, "'{}' in {} is no text, so it has no lines", printable(line.path),
                    printable(stage))
            .hint(fmt::format("ask about all of it: gradus blame {} {}", stage, printable(line.path)));
    const auto lines = linesOf(text);
    if (line.number == 0 || line.number > lines.size())
        throw Error(ErrorCode::kUsage, "'{}' in {} has {} lines, and no line {}", printable(line.path),
                    printable(stage), lines.size(), line.number)
            .hint("lines are counted from 1");
    line.text = lines[line.number - 1];
    if (line.text.ends_with('\n')) line.text.pop_back();
    return text;
}

}  // namespace

Blame Service::blameOf(const Promotion& promotion, const std::optional<Adoption>& vouched) {
    Store& store = existing();
    const Records& records = store.records();
    Blame blame{.promotion = promotion, .change = *records.change(promotion.change, promotion.revision)};
    if (vouched) blame.vouched = tellAdoption(records, *vouched);
    blame.makers = tellMakers(records, promotion.change);
    if (const auto promoter = promoterOf(store.sql(), records, promotion))
        blame.promotedBy = fmt::format("{}:{}", nameOf(kActorKinds, promoter->kind), promoter->name);
    for (const CheckResult& check : records.checkResults(promotion.id))
        if (check.verdict == Cause::kPassed &&
            std::none_of(blame.proofs.begin(), blame.proofs.end(), [&](const auto& known) {
                return known.check == check.check && known.phase == check.phase && known.evidence == check.evidence;
            }))
            blame.proofs.push_back(check);
    for (const Approval& approval : records.words().approvals(promotion.change, promotion.stage))
        if (approval.usedBy == promotion.id) blame.approvals.emplace_back(nameOf(records, approval.by), approval);
    for (const GateOverride& word : records.words().overrides(promotion.id))
        blame.overrides.emplace_back(nameOf(records, word.by), word);
    return blame;
}

// From what the stage holds back through what it held before, until a change touched the path.
Blame Service::blame(const fs::path& directory, const std::string& stage, const std::optional<std::string>& words) {
    existing();
    // Before anything is read: what the stage holds is asked through a store that is opened anew.
    if (const auto other = strayedIn(directory, stage))
        throw Error(ErrorCode::kNotAllowed, "who brought what is there now is not on record: {}", describe(*other))
            .hint(fmt::format("bring back what {0} held; or take what is there for what it holds: gradus adopt {0}",
                              stage));
    const std::string path = words ? blamedPath(directory, stage, *words) : std::string();
    const Records& records = existing().records();
    const auto project = records.findProject(identify(projectRoot(directory)));
    if (!project) throwHoldsNoChange(records, std::nullopt, stage);
    Holders holders(existing(), *project, stage);
    if (!holders.now())
        throwHoldsNoChange(records, standingAdoption(existing().sql(), records, *project, stage), stage);
    if (!words) return blameOf(*holders.now(), holders.vouched());
    const Objects all = objects();
    PathWalk walk(path);
    std::optional<Adoption> vouched;
    for (; holders.now(); holders.goBack()) {
        const bool wasFound = walk.newest().has_value();
        const bool goesOn = walk.ask(*holders.now(), broughtBy(records, all, *holders.now()));
        if (!wasFound && walk.newest()) vouched = holders.vouched();
        if (!goesOn) break;
    }
    if (walk.newest()) {
        Blame blame = blameOf(*walk.newest(), vouched);
        blame.below = walk.below();
        if (const auto built = builtIn(records, all, *walk.newest(), path)) blame.builtBy = built->check;
        return blame;
    }
    if (const auto line = lineIn(path)) return blameLine(directory, stage, path, *line);
    throw Error(ErrorCode::kNotFound, "no change that was promoted into {} touched '{}'", printable(stage),
                printable(path.empty() ? "." : path))
        .hint("it is from before the first promotion, or not there");
}

// As git does: relative to where one is, and what stands for the same path is the same path.
std::string Service::blamedPath(const fs::path& directory, const std::string& stage, const std::string& words) {
    const fs::path root = projectRoot(directory);
    fs::path whole = (directory / words).lexically_normal();
    if (!whole.has_filename()) whole = whole.parent_path();
    if (const auto path = pathWithin(whole, root)) return *path;
    const fs::path real = fs::weakly_canonical(whole.parent_path()) / whole.filename();
    if (const auto path = pathWithin(real, fs::weakly_canonical(root))) return *path;
    const auto held = engine(directory).heldIn(stage);
    if (const auto path = held ? pathWithin(real, fs::weakly_canonical(held->directory)) : std::nullopt) return *path;
    throw Error(ErrorCode::kUsage, "'{}' lies neither in the project {} nor in what {} holds", printable(words),
                printable(root.native()), printable(stage))
        .hint("name a file, a directory or a line (FILE:7), from where you are or absolute");
}

Blame Service::blameLine(const fs::path& directory, const std::string& stage, const std::string& words,
                         LineOfFile line) {
    const auto held = engine(directory).heldIn(stage);
    if (!held) throw Error(ErrorCode::kNotFound, "{} holds nothing", printable(stage));
    Objects all = objects();
    if (!pathFault(words) && DirectoryReader(held->directory).at(words))
        throw Error(ErrorCode::kNotFound, "no change that was promoted into {} touched '{}'", printable(stage),
                    printable(words))
            .hint("it is from before the first promotion");
    if (const auto fault = pathFault(line.path))
        throw Error(ErrorCode::kUsage, "'{}' cannot be part of a change: {}", printable(line.path), *fault);
    const Records& records = existing().records();
    LineWalk walk(all, line, textIn(held->directory, stage, line, all));
    const auto fail = [&](std::string_view why) {
        return Error(ErrorCode::kNotFound, "line {} of '{}' in {} {}", line.number, printable(line.path),
                     printable(stage), why)
            .hint("git blame may know more");
    };
    Holders holders(existing(), engine(directory).project().id, stage);
    std::optional<Blame> built;
    for (; holders.now(); holders.goBack()) {
        const Promotion& promotion = *holders.now();
        const auto change = records.change(promotion.change, promotion.revision);
        const ChangeSet changes = readChanges(all, change->changeSet);
        const PathChange* const touched = changeAt(changes, line.path);
        if (touched == nullptr) {
            // A build makes all of a file: who brought the line is the first in whose build it is.
            const auto file = builtIn(records, all, promotion, line.path);
            if (file && !walk.isIn(*file->file.after)) break;
            if (file) built = blameOf(promotion, holders.vouched());
            if (file) built->builtBy = file->check;
            continue;
        }
        if (built) break;
        const LineWalk::Came came = walk.askOf(*touched);
        if (came == LineWalk::Came::kElsewhere)
            throw fail(
                fmt::format("was brought by no promotion: somebody wrote it after {}", promotionHandle(promotion.id)));
        if (came == LineWalk::Came::kBefore) continue;
        Blame blame = blameOf(promotion, holders.vouched());
        blame.line = line;
        return blame;
    }
    if (!built && holders.now()) throw fail("was brought by no promotion: somebody changed what was built");
    if (!built) throw fail("is older than every promotion into it");
    built->line = line;
    return *built;
}

}  // namespace gradus
