#include "stages/drivers/command.h"

#include <fcntl.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "stages/changes/git_work_tree.h"
#include "stages/drivers/project_marker.h"
#include "store/change_sets.h"
#include "store/model/error.h"
#include "store/model/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostStatus = 4096;
/// A digest in full.
constexpr std::size_t kMostQuoted = 64;
constexpr const char* kCopies = "copies";
constexpr const char* kRequest = "request.json";

fs::path copiesOf(const DriverContext& context) {
    fs::path path = context.state / kCopies;
    makeDirectoriesDurably(path);
    return path;
}

std::string trimmed(const std::string& text) {
    const std::size_t start = text.find_first_not_of(" \t\r\n");
    if (start == std::string::npos) return "";
    return text.substr(start, text.find_last_not_of(" \t\r\n") - start + 1);
}

/// What `status` prints, for a message: its first line, and whether there is more.
std::string quoted(const std::string& said) {
    const std::string line = said.substr(0, said.find('\n'));
    const std::string text = "'" + printable(line.substr(0, kMostQuoted)) + (line.size() > kMostQuoted ? "…'" : "'");
    return said.find('\n') == std::string::npos ? text : text + " and more lines";
}

bool isShortened(const std::string& said) { return said.size() > kMostQuoted || said.find('\n') != std::string::npos; }

ReleaseStep copyOf(const CommandStep& step) { return ReleaseStep::decode(step.copies); }

}  // namespace

CommandDriver::CommandDriver(const DriverContext& context)
    : context_(context), layout_(copiesOf(context)), copies_(context, layout_), shelf_(context.state, context.files) {}

TargetIdentity CommandDriver::identity() const {
    const auto git = findWorkTree(context_.project);
    return TargetIdentity::at("command", context_.project, "/" + context_.stage.name,
                              projectMarker(context_.project, git, "command " + context_.stage.name), true);
}

HeldTree CommandDriver::adopt(Adopting how) {
    const auto said = status();
    if (!said)
        throw Error(ErrorCode::kNotAllowed,
                    "stage '{}': what its commands have brought elsewhere cannot be read back, and {}",
                    context_.stage.name,
                    context_.stage.settings.list("status").empty() ? "it has no `status`" : "`status` cannot tell")
            .hint(wordWanted());
    const auto tree = Digest::fromHex(*said);
    if (!tree || !copies_.keeps(*tree))
        throw Error(ErrorCode::kNotAllowed, "stage '{}': `status` prints {}, which is no tree that is kept of it",
                    context_.stage.name, quoted(*said))
            .hint(fmt::format("bring one of its trees there; or give up what is there, so that the next promotion "
                              "brings a whole tree: gradus adopt {} --holds nothing{}",
                              context_.stage.name, whereTheRestIs(*said)));
    return *copies_.takeKept(tree, how);
}

// Nobody keeps what it prints: whoever wants all of it asks it.
std::string CommandDriver::whereTheRestIs(const std::string& said) const {
    if (!isShortened(said)) return "";
    const HostCommand command = prepared("status", {});
    return fmt::format("; all that it prints: GRADUS_ACTION=status GRADUS_STAGE={} {}", context_.stage.name,
                       printable(fmt::format("{}", fmt::join(command.arguments, " "))));
}

std::string CommandDriver::wordWanted() const {
    return fmt::format(
        "look, then say what it holds: gradus adopt {0} --holds PROMOTION for the tree that one "
        "brought, or gradus adopt {0} --holds nothing, so that the next promotion brings a whole tree",
        context_.stage.name);
}

// A word against what can be read does not count.
std::optional<HeldTree> CommandDriver::vouchedFor(const std::optional<Digest>& tree, Adopting how) {
    const auto said = status();
    const auto shown = said ? Digest::fromHex(*said) : std::nullopt;
    const bool isAgainst = tree ? said && *said != tree->hex() : shown && copies_.keeps(*shown);
    if (isAgainst)
        throw Error(ErrorCode::kNotAllowed, "stage '{}': `status` prints {}, not {}", context_.stage.name,
                    quoted(*said), tree ? "'" + tree->hex() + "'" : "nothing of it")
            .hint((shown && copies_.keeps(*shown)
                       ? fmt::format("gradus adopt {} takes what it prints", context_.stage.name)
                       : fmt::format("that is none of its trees: let `status` print one, or nothing; or give up what "
                                     "is there: gradus adopt {} --holds nothing",
                                     context_.stage.name)) +
                  whereTheRestIs(*said));
    if (tree && !said && !wasBrought(*tree))
        throw Error(ErrorCode::kNotAllowed,
                    "stage '{}': `apply` never ran for the tree {}, so nothing of it can be there", context_.stage.name,
                    tree->brief())
            .hint(fmt::format("name a promotion that was brought there (`gradus audit timeline {0}`), or say that "
                              "nothing counts: gradus adopt {0} --holds nothing",
                              context_.stage.name));
    return copies_.takeKept(tree, how);
}

bool CommandDriver::wasBrought(const Digest& tree) const {
    const std::string last = shelf_.activation().id;
    for (const std::string& id : shelf_.begun()) {
        const auto head = shelf_.head(id);
        if (!head || head->manifest != tree) continue;
        if (shelf_.wasBrought(id) || shelf_.wasShown(id) || id == last) return true;
    }
    return false;
}

HostCommand CommandDriver::prepared(const std::string& action, const std::vector<std::string>& told) const {
    HostCommand command;
    command.arguments = context_.stage.settings.list(action);
    command.environment = context_.environment;
    std::erase_if(command.environment, [](const std::string& entry) { return entry.starts_with("GRADUS_"); });
    command.environment.push_back("GRADUS_ACTION=" + action);
    command.environment.insert(command.environment.end(), told.begin(), told.end());
    command.directory = context_.project;
    command.timeout = patienceOf(context_.stage);
    return command;
}

CommandDriver::Status CommandDriver::askStatus() const {
    HostCommand command = prepared("status", {"GRADUS_STAGE=" + context_.stage.name});
    if (command.arguments.empty()) return {};
    command.isLook = true;
    const HostOutcome said = context_.run(command);
    if (!said.succeeded()) return {.printed = std::nullopt, .fault = "it cannot tell: " + said.text()};
    return {.printed = trimmed(said.out.text()).substr(0, kMostStatus), .fault = {}};
}

TargetRequest CommandDriver::requestOf(const CommandStep& step, bool isBack) const {
    const ReleaseStep copy = copyOf(step);
    const TargetRequest::Side after{layout_.release(copy.id), copy.manifest.hex()};
    TargetRequest::Side before;
    if (step.previous) before = {layout_.release(copy.previous), step.previous->hex()};
    return {step, context_.stage.name, isBack ? before : after, isBack ? after : before, isBack};
}

std::string CommandDriver::perform(const std::string& action, const TargetRequest& request, std::string& log) {
    std::vector<std::string> told = request.environment();
    told.push_back("GRADUS_REQUEST=" + (context_.state / kRequest).native());
    HostCommand command = prepared(action, told);
    if (command.arguments.empty()) return "";
    const auto changes = readChanges(context_.objects, request.step.changes);
    const FileDescriptor state = openFile(context_.state, O_RDONLY | O_DIRECTORY);
    putFile(context_.files, state.get(), kRequest, request.json(action, changes), 0600);
    // Whoever wants to stop is served by going back, and that is never stopped half-way.
    if (!request.isBack) command.cancel = context_.cancel;
    HostOutcome said;
    const int error = context_.files.delegate(action, [&] {
        said = context_.run(command);
        return 0;
    });
    if (error != 0) throwFault("run", action, error);
    log += said.out.text() + said.err.text();
    return said.succeeded() ? "" : action + ": " + said.text();
}

/// The stage holds what it shall, as far as its own commands can tell.
std::string CommandDriver::bring(const TargetRequest& request, std::string& log) {
    std::string failure = perform(request.isBack ? "rollback" : "apply", request, log);
    if (!failure.empty()) return failure;
    // One that is there to be asked and cannot tell has not seen it arrive.
    const auto [said, fault] = askStatus();
    if (!fault.empty()) return "status: " + fault;
    const bool isNothing = request.now.tree.empty();
    if (said && (isNothing ? *said == request.before.digest : *said != request.now.digest))
        return fmt::format("status: it prints {}, not '{}'{}", quoted(*said), request.now.digest,
                           whereTheRestIs(*said));
    // Where there is nothing, nothing can be well.
    return isNothing ? "" : perform("health", request, log);
}

std::optional<Conflict> CommandDriver::foreignTree() const {
    const auto now = copies_.held();
    const auto said = now && !shelf_.activation().isOpen ? status() : std::nullopt;
    if (!said || *said == now->digest.hex()) return std::nullopt;
    return Conflict{ConflictKind::kOtherTree, context_.stage.name, now->digest.hex(), quoted(*said), std::nullopt};
}

std::vector<Conflict> CommandDriver::conflicts(const StageChange& change) const {
    std::vector<Conflict> found = copies_.conflicts(change);
    if (auto foreign = foreignTree()) found.push_back(std::move(*foreign));
    return found;
}

Checkpoint CommandDriver::checkpoint(const StageChange& change) {
    if (const auto foreign = foreignTree())
        throw Error(ErrorCode::kNotAllowed, "nothing was written: {}", describe(*foreign))
            .hint(fmt::format("bring back what it held; or take what is there for what it holds: gradus adopt {}",
                              context_.stage.name));
    const auto now = copies_.held();
    CommandStep step{change.promotion, change.handle,
                     change.title,     change.author,
                     change.trailers,  context_.objects.put(change.changes.encode()),
                     std::nullopt,     {}};
    if (now) step.previous = now->digest;
    step.copies = copies_.checkpoint(change);
    Checkpoint checkpoint{step.encode(), step.copies.objects};
    checkpoint.objects.push_back(step.changes);
    return checkpoint;
}

ApplyOutcome CommandDriver::apply(const Checkpoint& checkpoint) {
    const CommandStep step = CommandStep::decode(checkpoint);
    const ReleaseStep copy = copyOf(step);
    if (!shelf_.head(copy.id))
        throw Error(ErrorCode::kNotAllowed, "the tree of {} is not kept any more", step.handle)
            .hint("it was taken back or tidied away; promote the change again");
    ApplyOutcome outcome;
    if (copies_.observe(step.copies) == Observed::kBetween) {
        outcome.conflicts.push_back({ConflictKind::kEdited, context_.stage.name, copy.previous, "another tree", {}});
        return outcome;
    }
    outcome.failure = carryOut(checkpoint, outcome.log);
    outcome.applied = outcome.failure.empty();
    if (outcome.applied) return outcome;
    RollbackOutcome back = rollback(checkpoint);
    outcome.log += back.log;
    for (const std::string& problem : back.problems) outcome.notes.push_back(problem);
    for (const Kept& kept : back.kept) outcome.notes.push_back(fmt::format("'{}': {}", kept.path, kept.reason));
    return outcome;
}

// Open until all is well: from the first command on only the target itself can tell how far it came.
std::string CommandDriver::carryOut(const Checkpoint& checkpoint, std::string& log) {
    const CommandStep step = CommandStep::decode(checkpoint);
    const TargetRequest request = requestOf(step, false);
    const std::string id = copyOf(step).id;
    const bool isThere = observe(checkpoint) == Observed::kAfter;
    if (isThere && !shelf_.activation().isOpen) return perform("health", request, log);
    shelf_.bring(id);
    shelf_.setActivation({true, id});
    // Killed after the command and before its record: what the target says it has is not brought again.
    std::string failure = isThere ? perform("health", request, log) : bring(request, log);
    if (failure.empty() && !copies_.apply(step.copies).applied) failure = "the copy of what the stage holds was moved";
    if (failure.empty()) shelf_.setActivation({false, id});
    return failure;
}

StageDriver::Observed CommandDriver::observe(const Checkpoint& checkpoint) const {
    const CommandStep step = CommandStep::decode(checkpoint);
    const ReleaseStep copy = copyOf(step);
    const Observed copies = copies_.observe(step.copies);
    const ReleaseShelf::Activation last = shelf_.activation();
    if (!last.isOpen) {
        const bool isOurs = last.id == copy.id;
        return isOurs == (copies == Observed::kAfter) ? copies : Observed::kBetween;
    }
    const auto said = status();
    if (!said || copies == Observed::kBetween) return Observed::kBetween;
    if (*said == copy.manifest.hex()) return Observed::kAfter;
    return *said == (step.previous ? step.previous->hex() : "") ? Observed::kBefore : Observed::kBetween;
}

// Once a promotion has come to its end, what is neither of its trees is somebody else's.
bool CommandDriver::isForeign(const CommandStep& step, RollbackOutcome& outcome) const {
    if (shelf_.activation().isOpen) return false;
    const auto said = status();
    const std::string previous = step.previous ? step.previous->hex() : "";
    if (!said || *said == copyOf(step).manifest.hex() || *said == previous) return false;
    const std::string found = fmt::format("somebody else has brought {} there since", quoted(*said));
    outcome.kept.push_back({context_.stage.name, found});
    outcome.problems.push_back(fmt::format("{}: {}", context_.stage.name, found));
    return true;
}

std::optional<Obstruction> CommandDriver::obstruction(const Checkpoint& checkpoint) const {
    const CommandStep step = CommandStep::decode(checkpoint);
    RollbackOutcome outcome;
    if (shelf_.activation().id == copyOf(step).id && isForeign(step, outcome))
        return Obstruction{
            ErrorCode::kNotAllowed, outcome.problems.front(),
            fmt::format("bring back what it held; or take what is there for what it holds: gradus adopt {}",
                        context_.stage.name)};
    return copies_.obstruction(step.copies);
}

bool CommandDriver::bringBack(const CommandStep& step, RollbackOutcome& outcome) {
    if (isForeign(step, outcome)) return false;
    // Never with a tree that is not there, or not what it was.
    outcome.problems = copies_.lost(step.copies);
    if (!outcome.problems.empty()) return false;
    const ReleaseStep copy = copyOf(step);
    shelf_.setActivation({true, copy.id});
    const std::string failure = bring(requestOf(step, true), outcome.log);
    if (failure.empty())
        shelf_.setActivation({false, copy.previous});
    else
        outcome.problems.push_back("going back: " + failure);
    return failure.empty();
}

RollbackOutcome CommandDriver::rollback(const Checkpoint& checkpoint) {
    const CommandStep step = CommandStep::decode(checkpoint);
    RollbackOutcome outcome;
    const ReleaseShelf::Activation last = shelf_.activation();
    if ((last.isOpen || last.id == copyOf(step).id) && !bringBack(step, outcome)) return outcome;
    RollbackOutcome copies = copies_.rollback(step.copies);
    outcome.kept = std::move(copies.kept);
    outcome.problems = std::move(copies.problems);
    outcome.log += copies.log;
    outcome.complete = copies.complete;
    return outcome;
}

std::optional<Digest> CommandDriver::treeAfter(const Checkpoint& checkpoint) const {
    return copies_.treeAfter(CommandStep::decode(checkpoint).copies);
}

void CommandDriver::tidy(const std::vector<Checkpoint>& needed) {
    std::vector<Checkpoint> copies;
    for (const Checkpoint& checkpoint : needed) copies.push_back(CommandStep::decode(checkpoint).copies);
    copies_.tidy(copies);
}

}  // namespace gradus
