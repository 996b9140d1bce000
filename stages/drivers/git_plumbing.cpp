#include "stages/drivers/git_plumbing.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <set>
#include <thread>

#include "plugins/host/child_process.h"
#include "stages/drivers/ref_note.h"
#include "store/file.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr Milliseconds kPatience{5 * 60 * 1000};
constexpr int kAttempts = 3;
constexpr std::chrono::milliseconds kRefNap{50};
constexpr std::uint64_t kLargestPackedRefs = std::uint64_t{1} << 30;

// A fixed list: a PATH that a project could change has no say.
fs::path findGit() {
    for (const char* directory :
         {"/usr/bin", "/usr/local/bin", "/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin"})
        if (::access((fs::path(directory) / "git").c_str(), X_OK) == 0) return fs::path(directory) / "git";
    throw Error(ErrorCode::kInfrastructure, "a commit is to be made, and there is no git program")
        .hint("install git, or give the stage a driver that makes no commits");
}

FileDescriptor inMemory(std::string_view bytes) {
    FileDescriptor file(::memfd_create("git", MFD_CLOEXEC));
    if (!file) throw Error(ErrorCode::kInfrastructure, "cannot make a file in memory: {}", errnoText(errno));
    writeAll(file.get(), bytes, "git");
    ::lseek(file.get(), 0, SEEK_SET);
    return file;
}

std::string contentOf(int file) {
    std::string text;
    std::string piece(64U << 10, '\0');
    while (true) {
        const ssize_t got = ::pread(file, piece.data(), piece.size(), static_cast<off_t>(text.size()));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return text;
        text.append(piece, 0, static_cast<std::size_t>(got));
    }
}

std::string firstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

/// The next piece up to `end`, which is taken away with it.
std::string take(std::string_view& rest, char end) {
    const std::size_t at = rest.find(end);
    std::string piece(rest.substr(0, at));
    rest.remove_prefix(at == rest.npos ? rest.size() : at + 1);
    return piece;
}

/// A path as git reads one in a line.
std::string quoted(const std::string& path) {
    std::string text = "\"";
    for (const char c : path) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < ' ' || c == '"' || c == '\\')
            text += fmt::format("\\{:03o}", byte);
        else
            text += c;
    }
    return text + "\"\n";
}

bool isSet(const std::string& value) { return value != "unspecified" && value != "unset"; }

std::string infoLine(const std::string& path, const std::optional<GitEntry>& entry, const std::string& zero) {
    return entry ? fmt::format("{} {}\t{}", entry->mode, entry->id, path) + '\0'
                 : fmt::format("0 {}\t{}", zero, path) + '\0';
}

}  // namespace

GitPlumbing::GitPlumbing(const GitWorkTree& git, FileOperations& files, std::string cure)
    : git_(git), program_(findGit()), files_(files), cure_(std::move(cure)) {}

GitPlumbing::Answer GitPlumbing::run(const Words& arguments, const std::string& input, const Words& environment,
                                     int held) const {
    const FileDescriptor in = inMemory(input);
    const FileDescriptor out = inMemory("");
    Answer answer = runWith(in.get(), out.get(), arguments, environment, held);
    answer.out = contentOf(out.get());
    return answer;
}

GitPlumbing::Answer GitPlumbing::runWith(int in, int out, const Words& arguments, const Words& environment,
                                         int held) const {
    Words words = {"git", "--literal-pathspecs"};
    for (const char* setting :
         {"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.attributesFile=/dev/null", "core.fsync=all",
          "core.fsyncMethod=fsync", "core.untrackedCache=false", "i18n.commitEncoding=UTF-8", "gc.auto=0",
          "maintenance.auto=false", "core.quotePath=false"})
        words.insert(words.end(), {"-c", setting});
    words.insert(words.end(), arguments.begin(), arguments.end());
    const FileDescriptor err = inMemory("");
    ChildPlan plan{program_, words, environmentOf(environment), {{in, 0}, {out, 1}, {err.get(), 2}}};
    if (held >= 0) plan.descriptors.emplace_back(held, 3);
    ChildProcess child(plan);
    const std::optional<int> status = child.wait(kPatience);
    if (!status) throw Error(ErrorCode::kInfrastructure, "git {} has not ended", arguments.front());
    if (WIFEXITED(*status)) return {WEXITSTATUS(*status), 0, "", contentOf(err.get())};
    return {-1, WTERMSIG(*status), "", contentOf(err.get())};
}

GitPlumbing::Answer GitPlumbing::question(const Words& arguments, const std::string& input,
                                          const Words& environment) const {
    for (int attempt = 1;; ++attempt) {
        Answer answer = run(arguments, input, environment);
        if (answer.killedBy == 0 || attempt == kAttempts) return answer;
    }
}

bool GitPlumbing::isYes(const Words& arguments, const Answer& answer) const {
    if (answer.code != 0 && answer.code != 1) fail(arguments, answer);
    return answer.code == 0;
}

GitPlumbing::Answer GitPlumbing::configured(const Words& arguments) const {
    Answer answer = question(arguments);
    if (!isYes(arguments, answer) && !answer.err.empty()) fail(arguments, answer);
    return answer;
}

GitPlumbing::Words GitPlumbing::environmentOf(const Words& more) const {
    Words all = {"PATH=/usr/local/bin:/usr/bin:/bin",
                 "HOME=/nonexistent",
                 "LC_ALL=C",
                 "GIT_CONFIG_NOSYSTEM=1",
                 "GIT_CONFIG_GLOBAL=/dev/null",
                 "GIT_ATTR_NOSYSTEM=1",
                 "GIT_NO_REPLACE_OBJECTS=1",
                 "GIT_NO_LAZY_FETCH=1",
                 "GIT_ALLOW_PROTOCOL=none",
                 "GIT_TERMINAL_PROMPT=0",
                 "GIT_DIR=" + git_.directory.native(),
                 "GIT_WORK_TREE=" + git_.root.native()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

const GitPlumbing::Words& GitPlumbing::withoutFilters() const {
    if (withoutFilters_) return *withoutFilters_;
    const Answer answer = configured({"config", "--null", "--name-only", "--get-regexp", "^filter\\."});
    std::set<std::string> names;
    for (std::string_view rest = answer.out; !rest.empty();) {
        const std::string key = take(rest, '\0');
        names.insert(key.substr(0, key.rfind('.')));
    }
    Words settings;
    std::size_t count = 0;
    for (const std::string& name : names)
        for (const auto& [key, value] :
             {std::pair{"clean", ""}, {"smudge", ""}, {"process", ""}, {"required", "false"}}) {
            settings.push_back(fmt::format("GIT_CONFIG_KEY_{}={}.{}", count, name, key));
            settings.push_back(fmt::format("GIT_CONFIG_VALUE_{}={}", count, value));
            ++count;
        }
    settings.push_back(fmt::format("GIT_CONFIG_COUNT={}", count));
    return withoutFilters_.emplace(std::move(settings));
}

void GitPlumbing::requireSuccess(const Words& arguments, const Answer& answer) const {
    if (answer.code != 0) fail(arguments, answer);
}

void GitPlumbing::fail(const Words& arguments, const Answer& answer) const {
    if (answer.killedBy != 0)
        throw Error(ErrorCode::kInfrastructure, "git {} in {} was killed by signal {}", arguments.front(),
                    git_.root.native(), answer.killedBy)
            .hint("try again");
    throw Error(ErrorCode::kInfrastructure, "git {} in {} said: {}", arguments.front(), git_.root.native(),
                answer.err.empty() ? fmt::format("exit {}", answer.code) : printable(firstLine(answer.err)))
        .hint(cure_);
}

std::string GitPlumbing::ask(const Words& arguments, const std::string& input, const Words& environment) const {
    Answer answer = question(arguments, input, environment);
    requireSuccess(arguments, answer);
    return answer.out;
}

GitPlumbing::Answer GitPlumbing::change(const Words& arguments, const std::function<Answer()>& act) {
    Answer answer;
    const int error = files_.delegate("git " + arguments.front(), [&] {
        answer = act();
        return 0;
    });
    if (error == 0) return answer;
    throw Error(ErrorCode::kInfrastructure, "git {}: {}", arguments.front(), errnoText(error));
}

std::string GitPlumbing::tell(const Words& arguments, const std::string& input, const Words& environment) {
    Answer answer = change(arguments, [&] { return run(arguments, input, environment); });
    requireSuccess(arguments, answer);
    return answer.out;
}

std::string GitPlumbing::headRef() const {
    const Words words = {"symbolic-ref", "--quiet", "HEAD"};
    const Answer answer = question(words);
    return isYes(words, answer) ? firstLine(answer.out) : "HEAD";
}

std::optional<std::string> GitPlumbing::commitAt(const std::string& ref) const {
    const Words words = {"rev-parse", "--verify", "--quiet", "--end-of-options", ref + "^{commit}"};
    Answer answer = question(words);
    if (isYes(words, answer)) return firstLine(answer.out);
    requireAbsent(ref);
    return std::nullopt;
}

// rev-parse has one exit code for a ref that does not exist and for one that it cannot read.
void GitPlumbing::requireAbsent(const std::string& ref) const {
    const std::string name = ref == "HEAD" ? headRef() : ref;
    const fs::path path = name == "HEAD" ? git_.directory / name : git_.common / name;
    struct stat info {};
    const int error = ::lstat(path.c_str(), &info) == 0 ? 0 : errno;
    const bool isAbsent = error == ENOENT || error == ENOTDIR || (error == 0 && S_ISDIR(info.st_mode));
    const fs::path packed = git_.common / "packed-refs";
    const bool hasPacked = ::lstat(packed.c_str(), &info) == 0 || errno != ENOENT;
    const auto all = hasPacked ? readPlainFile(AT_FDCWD, packed, kLargestPackedRefs) : std::optional<std::string>("");
    if (isAbsent && all && all->size() == (hasPacked ? static_cast<std::size_t>(info.st_size) : 0) &&
        all->find(" " + name + "\n") == std::string::npos)
        return;
    throw Error(ErrorCode::kInfrastructure, "git cannot tell where {} is in {}", printable(name), git_.root.native())
        .hint(fmt::format("git -C {} fsck   # says more about it; then try again", git_.root.native()));
}

bool GitPlumbing::isAncestor(const std::string& commit, const std::string& of) const {
    const Words words = {"merge-base", "--is-ancestor", commit, of};
    const Answer answer = question(words);
    if (answer.code == 0 || answer.code == 1) return answer.code == 0;
    // Nothing comes after a commit that the repository does not have.
    const auto has = [this](const std::string& id) {
        const Words look = {"cat-file", "-e", id};
        return isYes(look, question(look));
    };
    if (answer.killedBy != 0 || has(commit) || !has(of)) fail(words, answer);
    return false;
}

GitEntries GitPlumbing::entriesOf(const std::string& commit) const {
    const std::string list = ask({"ls-tree", "-r", "-z", "--full-tree", commit});
    GitEntries entries;
    for (std::string_view rest = list; !rest.empty();) {
        GitEntry entry;
        entry.mode = take(rest, ' ');
        take(rest, ' ');
        entry.id = take(rest, '\t');
        entries[take(rest, '\0')] = entry;
    }
    return entries;
}

std::optional<std::string> GitPlumbing::treeOf(const std::string& commit, std::string prefix) const {
    while (prefix.ends_with('/')) prefix.pop_back();
    if (prefix.empty()) return firstLine(ask({"rev-parse", "--verify", "--end-of-options", commit + "^{tree}"}));
    const std::string list = ask({"ls-tree", "-d", "-z", "--full-tree", commit, "--", prefix});
    std::string_view rest = list;
    take(rest, ' ');
    const bool isTree = take(rest, ' ') == "tree";
    return isTree ? std::optional(take(rest, '\t')) : std::nullopt;
}

std::vector<std::string> GitPlumbing::refsBelow(const std::string& prefix) const {
    std::vector<std::string> refs;
    const std::string all = ask({"for-each-ref", "--format=%(refname)", prefix});
    for (std::string_view rest = all; !rest.empty();) refs.push_back(take(rest, '\n'));
    return refs;
}

bool GitPlumbing::isBranchName(const std::string& name) const {
    const Words words = {"check-ref-format", "refs/heads/" + name};
    return isYes(words, question(words));
}

bool GitPlumbing::isSymbolic(const std::string& ref) const {
    const Words words = {"symbolic-ref", "--quiet", ref};
    return isYes(words, question(words));
}

bool GitPlumbing::isBare() const { return settings("core.bare") == Words{"true"}; }

std::vector<std::string> GitPlumbing::settings(const std::string& key) const {
    const Answer answer = configured({"config", "--null", "--get-all", key});
    Words values;
    for (std::string_view rest = answer.out; !rest.empty();) values.push_back(take(rest, '\0'));
    return values;
}

void GitPlumbing::loadIndex(const std::string& commit, const fs::path& index) const {
    ask({"read-tree", commit}, "", {"GIT_INDEX_FILE=" + index.native()});
}

FileDescriptor GitPlumbing::packOf(const std::string& commit, const std::optional<std::string>& known,
                                   const fs::path& directory) const {
    const Words words = {"pack-objects", "--quiet", "--revs", "--thin", "--stdout", "--delta-base-offset"};
    FileDescriptor pack(::open(directory.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
    if (!pack) pack = inMemory("");
    const FileDescriptor wanted = inMemory(commit + "\n" + (known ? "^" + *known + "\n" : ""));
    requireSuccess(words, runWith(wanted.get(), pack.get(), words, {}));
    return pack;
}

void GitPlumbing::takePack(int pack, const std::string& commit) {
    const Words words = {"index-pack", "--stdin", "--fix-thin"};
    ::lseek(pack, 0, SEEK_SET);
    const FileDescriptor said = inMemory("");
    requireSuccess(words, change(words, [&] { return runWith(pack, said.get(), words, {}); }));
    ask({"rev-list", "--objects", "--quiet", commit, "--not", "--all"});
}

GitEntries GitPlumbing::stagedEntries() const {
    const std::string list = ask({"ls-files", "--stage", "-z", "--full-name"});
    GitEntries entries;
    for (std::string_view rest = list; !rest.empty();) {
        GitEntry entry;
        entry.mode = take(rest, ' ');
        entry.id = take(rest, ' ');
        if (take(rest, '\t') != "0") entry.mode = "conflict";
        entries[take(rest, '\0')] = entry;
    }
    return entries;
}

void GitPlumbing::readBlobs(const std::vector<std::string>& ids,
                            const std::function<void(std::size_t, std::string_view)>& accept) const {
    if (ids.empty()) return;
    std::string input;
    for (const std::string& id : ids) input += id + "\n";
    const std::string all = ask({"cat-file", "--batch", "--buffer"}, input);
    std::string_view rest = all;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const std::string head = take(rest, '\n');
        std::size_t size = 0;
        const char* digits = head.data() + head.rfind(' ') + 1;
        const bool isBlob = head.starts_with(ids[i] + " blob ") &&
                            std::from_chars(digits, head.data() + head.size(), size).ec == std::errc();
        if (!isBlob || rest.size() < size + 1)
            throw Error(ErrorCode::kDamaged, "the repository {} does not hold {}", git_.root.native(), ids[i])
                .hint("'git fsck' says more about it");
        accept(i, rest.substr(0, size));
        rest.remove_prefix(size + 1);
    }
}

std::map<std::string, std::string> GitPlumbing::conversions(const std::vector<std::string>& paths,
                                                            const fs::path& index) const {
    if (paths.empty()) return {};
    std::string input;
    for (const std::string& path : paths) (input += path) += '\0';
    const std::string all =
        ask({"check-attr", "-z", "--stdin", "--cached", "filter", "text", "eol", "ident", "working-tree-encoding"},
            input, index.empty() ? Words() : Words{"GIT_INDEX_FILE=" + index.native()});
    std::map<std::string, std::string> found;
    for (std::string_view rest = all; !rest.empty();) {
        const std::string path = take(rest, '\0');
        const std::string name = take(rest, '\0');
        const std::string value = take(rest, '\0');
        if (isSet(value)) found[path] += (found[path].empty() ? "" : " ") + name + "=" + value;
    }
    return found;
}

std::vector<std::string> GitPlumbing::writeBlobs(const std::vector<fs::path>& contents) {
    std::string input;
    for (const fs::path& content : contents) input += quoted(content.native());
    const std::string all = tell({"hash-object", "-w", "--no-filters", "--stdin-paths"}, input);
    std::vector<std::string> ids;
    for (std::string_view rest = all; !rest.empty();) ids.push_back(take(rest, '\n'));
    if (ids.size() != contents.size())
        throw Error(ErrorCode::kInfrastructure, "git hash-object answered {} times for {} contents", ids.size(),
                    contents.size());
    return ids;
}

std::string GitPlumbing::zeroId() const {
    const std::string format = firstLine(ask({"rev-parse", "--show-object-format"}));
    return std::string(format == "sha256" ? 64 : 40, '0');
}

std::string GitPlumbing::writeCommit(const NewCommit& commit, const fs::path& index) {
    Words privately = {"GIT_INDEX_FILE=" + index.native()};
    privately.insert(privately.end(), withoutFilters().begin(), withoutFilters().end());
    const std::string zero = zeroId();
    if (commit.parent) tell({"read-tree", *commit.parent}, "", privately);
    std::string lines;
    // What goes first: a directory may take the name of a file, and the other way round.
    for (const std::string& path : commit.removed) lines += infoLine(path, std::nullopt, zero);
    for (const auto& [path, entry] : commit.set) lines += infoLine(path, entry, zero);
    tell({"update-index", "-z", "--index-info"}, lines, privately);
    const std::string tree = firstLine(tell({"write-tree"}, "", privately));
    Words words = {"commit-tree", tree};
    if (commit.parent) words.insert(words.end(), {"-p", *commit.parent});
    const std::size_t mail = commit.author.rfind(" <");
    const std::string name = commit.author.substr(0, mail);
    const std::string address =
        mail == std::string::npos ? "" : commit.author.substr(mail + 2, commit.author.find('>', mail) - mail - 2);
    const std::string date = fmt::format("@{} +0000", commit.time);
    return firstLine(
        tell(words, commit.message,
             {"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + address, "GIT_AUTHOR_DATE=" + date,
              "GIT_COMMITTER_NAME=Gradus", "GIT_COMMITTER_EMAIL=gradus@localhost", "GIT_COMMITTER_DATE=" + date}));
}

bool GitPlumbing::moveRef(const std::string& ref, const std::optional<std::string>& from,
                          const std::optional<std::string>& to, const std::string& reason) {
    const std::string zero = zeroId();
    const Words words = {"update-ref", "--no-deref", "-m", reason, ref, to.value_or(zero), from.value_or(zero)};
    const Words who = {"GIT_COMMITTER_NAME=Gradus", "GIT_COMMITTER_EMAIL=gradus@localhost"};
    for (int attempt = 1;; ++attempt) {
        RefNote note(git_, ref, to.value_or(""));
        const Answer answer = change(words, [&] { return run(words, "", who, note.descriptor()); });
        if (answer.killedBy != 0) note.clearAfterKill();
        note.finish();
        if (answer.code == 0) return true;
        // git says in one way that the ref is elsewhere and that it cannot write; a killed one may have moved it.
        const auto now = commitAt(ref);
        if (now == to) return true;
        if (now != from) return false;
        if (attempt == kAttempts) refuseMove(ref, words, answer);
        std::this_thread::sleep_for(kRefNap);
    }
}

void GitPlumbing::refuseMove(const std::string& ref, const Words& words, const Answer& answer) const {
    const std::vector<fs::path> locks = locksOf(git_, ref);
    if (answer.killedBy != 0 || locks.empty()) fail(words, answer);
    throw Error(ErrorCode::kInfrastructure, "git did not move {} in {}: {} is locked", ref, git_.root.native(),
                locks.front().native())
        .hint(fmt::format("if no git runs there, delete the lock file that a killed git left, then try again: rm '{}'",
                          locks.front().native()));
}

bool GitPlumbing::stage(const std::map<std::string, std::optional<GitEntry>>& entries) {
    if (entries.empty()) return true;
    const std::string zero = zeroId();
    std::string lines;
    for (const auto& [path, entry] : entries)
        if (!entry) lines += infoLine(path, entry, zero);
    for (const auto& [path, entry] : entries)
        if (entry) lines += infoLine(path, entry, zero);
    const Words words = {"update-index", "-z", "--index-info"};
    // Asked each time: what the configuration says may be another by now.
    withoutFilters_.reset();
    const Words& filters = withoutFilters();
    const Answer answer = change(words, [&] { return run(words, lines, filters); });
    if (answer.code == 0) return true;
    if (answer.err.find("index.lock") != std::string::npos) return false;
    fail(words, answer);
}

}  // namespace gradus
