#include "tests/stages/sandbox/sandboxes_fixture.h"

#include <unistd.h>

#include "plugins/api/choice.h"
#include "stages/sandbox/layers.h"
#include "store/file.h"
#include "store/privilege.h"
#include "tests/plugins/patience.h"

namespace gradus {

namespace fs = std::filesystem;

Identity projectOwner() { return isMachineRoot() ? Identity{41234, 41234} : Identity{::geteuid(), ::getegid()}; }

std::optional<bool> SandboxesTest::onDiskIfAsked() {
    return std::getenv("GRADUS_TEST_ON_DISK") != nullptr ? std::optional(true) : std::nullopt;
}

SandboxesTest::Side::Side(SandboxesTest& test, IsolationBackend* backend, std::optional<bool> onDisk)
    : sandboxes({.store = [this, &test]() -> Store& {
                     if (!store)
                         store.emplace(
                             Store::openForWriting(test.state_, {.clock = test.clock_, .random = test.random_}));
                     return *store;
                 },
                 .state = test.state_,
                 .backends = {backend != nullptr ? backend : &test.backend_},
                 .clock = test.clock_,
                 .environment = [](const std::string&) { return std::nullopt; },
                 .actor = {ActorKind::kPerson, "alice"},
                 .warn = [this](const std::string& text) { warnings.push_back(text); },
                 .onDisk = onDisk}) {}

SandboxesTest::SandboxesTest()
    : place_({::geteuid(), ::getegid()}),
      project_(projectOwner()),
      state_{place_.path() / "state"},
      backend_(NamespacesConfig{GRADUS_JAIL, "/sys/fs/cgroup", jailPatience()}, systemClock_) {
    // Proving takes a while, and nothing here is about that: the first test's proofs serve all.
    proofs_.emplace(state_.root, ::geteuid());
    makeDirectories(state_.root / "proofs");
    cachedProbe(backend_, state_.root / "proofs");
    before_ = countHost();
    side_.emplace(*this);
}

void SandboxesTest::TearDown() {
    side_.reset();
    expectNothingLeft(before_);
}

Store& SandboxesTest::store() {
    side_->sandboxes.find("nothing");
    return *side_->store;
}

SandboxRecords SandboxesTest::records() { return store().records().sandboxes(); }

CommandRequest SandboxesTest::shell(const std::string& script) const {
    CommandRequest request;
    request.arguments = {"/bin/sh", "-c", script};
    request.limits[LimitName::kWallTime] = Limit{patiently(60'000), true};
    return request;
}

TryRequest SandboxesTest::tryShell(const std::string& script, Afterwards afterwards) const {
    TryRequest request;
    request.project = project_.path();
    request.command = shell(script);
    request.afterwards = afterwards;
    return request;
}

SandboxRecord SandboxesTest::createKept(const std::string& name) {
    CreateRequest request;
    request.project = project_.path();
    if (!name.empty()) request.name = name;
    return sandboxes().create(request);
}

std::string SandboxesTest::exec(std::int64_t sandbox, const std::string& script) {
    const ExecutionReport report = sandboxes().exec(sandbox, shell(script));
    EXPECT_EQ(report.execution.verdict, Verdict::kOk) << describe(report);
    return report.out.text();
}

std::string SandboxesTest::seen(std::int64_t sandbox) {
    return exec(sandbox,
                "find . -mindepth 1 -printf '%p %y %m %l %T@ %s\\n' | sed 's/ d \\([0-9]*\\) .*/ d \\1/' | sort; "
                "find . -type f -print0 | sort -z | xargs -0 sha256sum; stat -c '%a %u' .");
}

std::vector<std::string> SandboxesTest::changedPaths(const Harvest& harvest) const {
    std::vector<std::string> paths;
    for (const PathChange& change : harvest.changes.changes())
        paths.push_back((!change.after ? "-" : change.before ? "~" : "+") + change.path);
    return paths;
}

std::size_t SandboxesTest::layerDirectories() const {
    std::error_code error;
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(root() / "layers", error), fs::directory_iterator()));
}

void SandboxesTest::expectConsistent() {
    const std::set<std::int64_t> standing = records().reachableLayers();
    const Layers layers(root(), store().storeId());
    for (const std::int64_t id : layers.listed())
        EXPECT_TRUE(standing.contains(id)) << "layer " << id << " is nobody's";
    for (const std::int64_t id : standing)
        if (records().layer(id)->used && records().sandbox(records().layer(id)->sandbox)->kind == SandboxKind::kKept) {
            EXPECT_EQ(layers.flaw(id), "");
        }
    EXPECT_TRUE(!fs::exists(root() / "trash") || fs::is_empty(root() / "trash"));
    const AuditVerdict verdict = verifyAudit(store().sql(), store().anchor());
    EXPECT_EQ(verdict.kind, Tampering::kNone) << verdict.detail;
    store().rebuild();
    EXPECT_EQ(records().reachableLayers(), standing);
}

std::string SandboxesTest::describe(const ExecutionReport& report) {
    return fmt::format("verdict {} exit {} failure {}\nout: {}\nerr: {}",
                       verdictName(report.execution.verdict.value_or(Verdict::kSetupFailed)),
                       report.execution.exitCode.value_or(-1), report.failure ? report.failure->text() : "none",
                       report.out.text(), report.err.text());
}

}  // namespace gradus
