#include "pipeline/service/engine_room.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <set>

#include "pipeline/engine/command_mark.h"
#include "plugins/host/host_command.h"
#include "policies/language/time_zone.h"
#include "stages/changes/work_tree.h"
#include "stages/sandbox/clone_commit.h"
#include "store/model/error.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMostBase = 4096;

/// What commands on the host start from: the caller's own, as it was given to this process.
std::vector<std::string> wholeEnvironment() {
    std::vector<std::string> all;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) all.emplace_back(*entry);
    return all;
}

HostOutcome runMarked(const HostCommand& command, const fs::path& file) {
    if (command.isLook) return runOnHost(command);
    try {
        const CommandMark mark(file);
        return runOnHost(mark.marked(command));
    } catch (const Error& e) {
        HostOutcome outcome;
        outcome.failure = e.what();
        return outcome;
    }
}

void sleepFor(Milliseconds time, const std::stop_token& cancel) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, cancel, time, [] { return false; });
}

bool hasBeneath(const std::set<std::string>& paths, const std::string& directory) {
    const auto next = paths.lower_bound(directory + "/");
    return next != paths.end() && next->starts_with(directory + "/");
}

/// What lies in the directory and is no part of its manifest, ignored files: a copy of it must not have them either.
std::vector<std::string> notAmong(const Manifest& manifest, const fs::path& directory) {
    std::set<std::string> known;
    for (const Manifest::Item& item : manifest.items()) known.insert(item.path);
    std::vector<std::string> others;
    for (fs::recursive_directory_iterator at(directory, fs::directory_options::skip_permission_denied), end; at != end;
         ++at) {
        const std::string path = at->path().lexically_relative(directory).native();
        const bool isDirectory = at->is_directory() && !at->is_symlink();
        const bool isRepository = at->path().filename() == ".git";
        const bool isPart = known.contains(path) || (isDirectory && hasBeneath(known, path));
        if (isDirectory && !isPart) at.disable_recursion_pending();
        // An empty directory says nothing about anybody.
        if (!isPart && !isRepository && !(isDirectory && fs::is_empty(at->path()))) others.push_back(path);
    }
    return others;
}

std::vector<std::string> groupsOf(const Actor& actor) {
    // Groups are those of whoever runs this: another name is only a claim, and claims add nothing.
    const passwd* person = ::getpwuid(::geteuid());
    if (actor.kind != ActorKind::kPerson || person == nullptr || actor.name != person->pw_name) return {};
    int count = 256;
    std::vector<gid_t> ids(static_cast<std::size_t>(count));
    if (::getgrouplist(person->pw_name, person->pw_gid, ids.data(), &count) < 0) return {};
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i)
        if (const group* entry = ::getgrgid(ids[static_cast<std::size_t>(i)])) names.emplace_back(entry->gr_name);
    return names;
}

}  // namespace

EngineRoom::EngineRoom(EngineProject project, const Surroundings& around)
    : project_(project),
      state_(around.state),
      clock_(around.clock),
      random_(around.random),
      store_(around.store),
      objects_(around.state.objects(), around.clock),
      hostEnvironment_(wholeEnvironment()),
      checks_({around.sandboxes, objects_, around.kinds, hostEnvironment_}),
      engine_(std::make_unique<Engine>(std::move(project), parts(around))) {}

EngineParts EngineRoom::parts(const Surroundings& around) {
    return {
        .store = around.store,
        .objects = objects_,
        .state = around.state,
        .clock = around.clock,
        .actor = around.actor,
        .uid = static_cast<std::int64_t>(::getuid()),
        .driver = [this](const Stage& stage, std::stop_token cancel) { return driver(stage, std::move(cancel)); },
        .files = files_,
        .before =
            [this](const Stage& stage, const TreeUnderTest& tree, const CheckProgress& progress,
                   std::stop_token cancel) {
                return checks_.before(project_.pipeline, stage, tree, progress, std::move(cancel));
            },
        .after =
            [this](const Stage& stage, const fs::path& directory, const Evidence& evidence,
                   const CheckProgress& progress, std::stop_token cancel) {
                return checks_.after(project_.pipeline, stage, directory, evidence, progress, std::move(cancel));
            },
        .seed = [this](const Change& change) { return seed(change); },
        .zones = [](const Pipeline& pipeline) { return readZones(pipeline); },
        .systemGroups = groupsOf,
        .sleep = sleepFor,
        .environment = hostEnvironment_,
        .freeze =
            [this, &sandboxes = around.sandboxes](std::function<Digest()> look) {
                return sandboxes.pin({project_.root, std::move(look), {}});
            },
    };
}

// By project and stage, not by target: another driver of the same stage finds what the one before kept.
fs::path EngineRoom::targetState(const Stage& stage) const {
    return state_.root / "targets" / sha256(project_.stateRoot().native() + "\n" + stage.name).hex().substr(0, 32);
}

std::unique_ptr<StageDriver> EngineRoom::driver(const Stage& stage, std::stop_token cancel) {
    return makeDriver({.stage = stage,
                       .project = project_.root,
                       .state = targetState(stage),
                       .objects = objects_,
                       .files = files_,
                       .random = random_,
                       .clock = clock_,
                       .run = [mark = commandMark(state_, project_.stateRoot(), stage.name)](
                                  const HostCommand& command) { return runMarked(command, mark); },
                       .cancel = std::move(cancel),
                       .environment = hostEnvironment_,
                       .treeCache = state_.treeCache(project_.root),
                       .store = store_.storeId(),
                       .reserve = state_.ballast()});
}

std::unique_ptr<StageDriver> EngineRoom::driverElsewhere(const Elsewhere& place) {
    return makeDriver({.stage = place.stage,
                       .project = place.project,
                       .state = place.state,
                       .objects = objects_,
                       .files = files_,
                       .random = random_,
                       .clock = clock_,
                       .run = place.run,
                       .cancel = {},
                       .environment = hostEnvironment_});
}

// The ground that the change was first made on; a merge onto a stage is newer, and knows no commit.
Seed EngineRoom::seed(const Change& change) {
    const auto first = store_.records().change(change.id, 1);
    const BaseFingerprint base = BaseFingerprint::decode(objects_.readAll(first->base, kMostBase));
    if (base.commit.empty()) {
        const WorkTree tree = readWorkTree({.project = project_.root, .cache = state_.treeCache(project_.root)});
        if (!tree.fingerprint.commit.empty())
            throw Error(ErrorCode::kNotAllowed,
                        "{} was made on files that are in no commit, so an empty stage cannot begin as that",
                        first->title.value_or("the change"))
                .hint("commit, then submit again");
        return {project_.root, notAmong(tree.manifest, project_.root), tree.fingerprint.digest(), tree.notes};
    }
    const MaterialisedCommit commit = materialise(project_.root, base.commit, state_.root / "commits");
    return {commit.tree, {}, sha256("commit " + commit.commit), commit.notes};
}

}  // namespace gradus
