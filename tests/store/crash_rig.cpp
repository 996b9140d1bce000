#include "tests/store/crash_rig.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <sstream>

#include "store/audit_verify.h"
#include "store/model/error.h"
#include "store/objects.h"
#include "store/store.h"
#include "tests/support/sample_store.h"

namespace gradus::test {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

// A writer that says nothing for this long hangs.
constexpr auto kPatience = 30s;
constexpr int kWriters = 3;
// Another store now and then, so that verifying stays quick. Every second one is left to the writers to create: its
// first moments are the most fragile.
constexpr int kRoundsPerStore = 10;

[[noreturn]] void becomeWriter(const fs::path& program, const StateDirectory& state, int pipe,
                               const std::string& name) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::fcntl(pipe, F_SETFD, 0);
    ::execl(program.c_str(), program.c_str(), state.root.c_str(), std::to_string(pipe).c_str(), name.c_str(), nullptr);
    ::_exit(127);
}

std::optional<Acknowledged> parseAcknowledgement(const std::string& line) {
    std::istringstream in(line);
    Acknowledged out;
    std::string object;
    in >> out.seq >> out.change >> object >> out.title;
    out.object = Digest::fromHex(object);
    return in && out.object ? std::optional(out) : std::nullopt;
}

std::optional<std::string> lostCommit(Store& store, const std::vector<Acknowledged>& acknowledged) {
    std::set<std::int64_t> changes;
    for (const Acknowledged& commit : acknowledged) {
        const auto change = store.records().change(commit.change);
        if (!change || change->title != commit.title)
            return fmt::format("acknowledged change c{} '{}' is lost", commit.change, commit.title);
        if (!store.sql().number("select 1 from event where seq = ?", commit.seq))
            return fmt::format("acknowledged event {} is lost", commit.seq);
        if (!changes.insert(commit.change).second) return fmt::format("change c{} was given out twice", commit.change);
    }
    return std::nullopt;
}

std::optional<std::string> lostObject(Store& store, const std::vector<Acknowledged>& acknowledged) {
    if (acknowledged.empty() || !acknowledged.front().object) return std::nullopt;
    const SystemClock clock;
    const Objects objects(store.state().objects(), clock);
    for (const Acknowledged& commit : acknowledged) {
        if (store.records().change(commit.change)->changeSet != *commit.object)
            return fmt::format("change c{} refers to another object", commit.change);
        if (!objects.contains(*commit.object)) return fmt::format("the object of change c{} is lost", commit.change);
    }
    const ObjectsCheck check = objects.check();
    if (check.flaws.empty()) return std::nullopt;
    return fmt::format("{}: {}", check.flaws.front().file.native(), check.flaws.front().reason);
}

std::optional<std::string> badVerdict(Sql& sql, const AnchorSink& anchor, After after, std::string_view when) {
    const AuditVerdict verdict = verifyAudit(sql, anchor);
    if (verdict.kind == Tampering::kNone) return std::nullopt;
    // The anchor is not synced: a power cut may take its newest lines, never lines of events that are lost.
    if (after == After::kPowerCut && verdict.kind == Tampering::kUnanchoredSince) return std::nullopt;
    return fmt::format("{}: {} at event {}: {}", when, nameOf(kTamperings, verdict.kind), verdict.seq, verdict.detail);
}

std::optional<std::string> anchorGoesBack(const AnchorSink& anchor) {
    const auto content = anchor.read();
    if (!content) return "the anchor is gone";
    for (std::size_t i = 1; i < content->points.size(); ++i)
        if (content->points[i].seq <= content->points[i - 1].seq)
            return fmt::format("the anchor goes back at event {}", content->points[i].seq);
    return std::nullopt;
}

std::optional<std::string> brokenAsReaderSees(const StateDirectory& state, const Store::Surroundings& around,
                                              const std::vector<Acknowledged>& acknowledged, After after) {
    auto reader = Store::openForReading(state, around);
    if (!reader) return acknowledged.empty() ? std::nullopt : std::optional<std::string>("the database is gone");
    if (auto lost = lostCommit(*reader, acknowledged)) return lost;
    if (reader->records().counts().events == 0) return std::nullopt;  // cut off before its first commit
    return badVerdict(reader->sql(), reader->anchor(), after, "before recovery");
}

std::optional<std::string> brokenAsWriterSees(const StateDirectory& state, const Store::Surroundings& around,
                                              const std::vector<Acknowledged>& acknowledged) {
    Store store = Store::openForWriting(state, around);
    if (auto lost = lostCommit(store, acknowledged)) return lost;
    if (auto lost = lostObject(store, acknowledged)) return lost;
    if (auto bad = badVerdict(store.sql(), store.anchor(), After::kKill, "after recovery")) return bad;
    const Climb climb = Climb::begin(store);
    store.write([&](Writer& w) { climb.whole(w, "written after the crash"); });
    if (auto bad = badVerdict(store.sql(), store.anchor(), After::kKill, "after another commit")) return bad;
    return anchorGoesBack(store.anchor());
}

}  // namespace

WriterProcess::WriterProcess(const fs::path& program, const StateDirectory& state, const std::string& name) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
    pipe_ = FileDescriptor(ends[0]);
    const FileDescriptor writing(ends[1]);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("fork failed");
    if (pid_ == 0) becomeWriter(program, state, writing.get(), name);
}

WriterProcess::WriterProcess(WriterProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pipe_(std::move(other.pipe_)),
      partial_(std::move(other.partial_)),
      ended_(other.ended_) {}

WriterProcess::~WriterProcess() { kill(); }

void WriterProcess::kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
}

void WriterProcess::takeAcknowledgements(std::vector<Acknowledged>& into, std::vector<std::string>& complaints) {
    char buffer[4096];
    ssize_t got = 0;
    while ((got = ::read(pipe_.get(), buffer, sizeof buffer)) > 0)
        partial_.append(buffer, static_cast<std::size_t>(got));
    const bool endedNow = got == 0 && !std::exchange(ended_, true);
    for (std::size_t end = 0; (end = partial_.find('\n')) != std::string::npos; partial_.erase(0, end + 1)) {
        const std::string line = partial_.substr(0, end);
        if (const auto commit = parseAcknowledgement(line)) {
            into.push_back(*commit);
        } else {
            complaints.push_back(line);
        }
    }
    if (endedNow && isRunning() && complaints.empty()) complaints.emplace_back("a writer ended by itself");
}

Writers::Writers(const fs::path& program, const StateDirectory& state, int count, const std::string& name) {
    for (int i = 0; i < count; ++i) processes_.emplace_back(program, state, fmt::format("{}-{}", name, i));
}

bool Writers::takeWhatArrives(std::chrono::microseconds patience) {
    std::vector<pollfd> waiting;
    for (const WriterProcess& process : processes_)
        if (process.isRunning()) waiting.push_back({process.acknowledgements(), POLLIN, 0});
    const timespec limit{patience.count() / 1'000'000, patience.count() % 1'000'000 * 1000};
    const int ready = ::ppoll(waiting.data(), waiting.size(), &limit, nullptr);
    for (WriterProcess& process : processes_) process.takeAcknowledgements(acknowledged_, complaints_);
    return ready > 0 && complaints_.empty();
}

bool Writers::await(std::size_t count) {
    const std::size_t wanted = acknowledged_.size() + count;
    while (acknowledged_.size() < wanted)
        if (!takeWhatArrives(kPatience)) {
            if (complaints_.empty()) complaints_.emplace_back("the writers hang");
            return false;
        }
    return true;
}

void Writers::listen(std::chrono::microseconds time) {
    const auto until = std::chrono::steady_clock::now() + time;
    for (auto now = std::chrono::steady_clock::now(); now < until; now = std::chrono::steady_clock::now())
        if (!takeWhatArrives(std::chrono::duration_cast<std::chrono::microseconds>(until - now))) return;
}

void Writers::kill(std::size_t index) {
    processes_[index].kill();
    processes_[index].takeAcknowledgements(acknowledged_, complaints_);
}

void Writers::killAll() {
    for (std::size_t i = 0; i < processes_.size(); ++i) kill(i);
}

void prepareStore(const StateDirectory& state) {
    const SystemClock clock;
    SystemRandom random;
    Store store = Store::openForWriting(state, {.clock = clock, .random = random});
    Climb::begin(store);
}

std::optional<std::string> brokenPromise(const StateDirectory& state, const std::vector<Acknowledged>& acknowledged,
                                         After after) {
    const SystemClock clock;
    SystemRandom random;
    const Store::Surroundings around{.clock = clock, .random = random};
    try {
        if (auto broken = brokenAsReaderSees(state, around, acknowledged, after)) return broken;
        return brokenAsWriterSees(state, around, acknowledged);
    } catch (const Error& e) {
        return fmt::format("error: {}", e.what());
    }
}

namespace {

/// One store that is written and cut off again and again.
class KilledStore {
  public:
    KilledStore(const fs::path& program, bool isFresh) : program_(program) {
        if (!isFresh) prepareStore(state_);
    }

    std::optional<std::string> round(std::mt19937& chance, const std::string& name) {
        Writers writers(program_, state_, kWriters, name);
        const auto upTo = [&](int most) { return std::uniform_int_distribution<int>(0, most)(chance); };
        bool well = writers.await(static_cast<std::size_t>(upTo(30)));
        if (well) writers.listen(std::chrono::microseconds(upTo(4000)));
        if (well) writers.kill(static_cast<std::size_t>(upTo(kWriters - 1)));
        // The others must get over the death of one in the middle of a write.
        well = well && writers.await(static_cast<std::size_t>(upTo(4)));
        if (well) writers.listen(std::chrono::microseconds(upTo(2000)));
        writers.killAll();
        acknowledged_.insert(acknowledged_.end(), writers.acknowledged().begin(), writers.acknowledged().end());
        if (!writers.complaints().empty()) return "a writer said: " + writers.complaints().front();
        return brokenPromise(state_, acknowledged_, After::kKill);
    }

    std::size_t commits() const { return acknowledged_.size(); }

  private:
    fs::path program_;
    ScratchDirectory directory_;
    StateDirectory state_{directory_ / "state"};
    std::vector<Acknowledged> acknowledged_;
};

}  // namespace

RigReport runKillRig(const fs::path& program, int rounds, unsigned seed) {
    std::mt19937 chance(seed);
    RigReport report;
    while (report.rounds < rounds && !report.failure) {
        KilledStore store(program, report.rounds / kRoundsPerStore % 2 == 1);
        for (int i = 0; i < kRoundsPerStore && report.rounds < rounds && !report.failure; ++i)
            report.failure = store.round(chance, std::to_string(report.rounds++));
        report.commits += store.commits();
    }
    return report;
}

fs::path writerProgram(const std::string& mutant) {
    const fs::path tests = fs::path(GRADUS_BINARY_DIR) / "tests";
    return mutant.empty() ? tests / "store/store_writer" : tests / "mutants" / ("store_writer_" + mutant);
}

int roundsOf(int usual, int extended) { return std::getenv("GRADUS_LONG") != nullptr ? extended : usual; }

}  // namespace gradus::test
