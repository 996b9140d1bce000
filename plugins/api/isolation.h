#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "store/model/clock.h"
#include "store/model/digest.h"
#include "store/model/error.h"
#include "store/model/guarantee.h"
#include "store/model/limits.h"
#include "store/model/verdict.h"

namespace gradus {

/// A directory shown at its own path with copy-on-write: reads come from the layers, writes go to the upper.
struct Overlay {
    std::filesystem::path target;
    /// Topmost first; usually the target itself is the last.
    std::vector<std::filesystem::path> lowers;
    /// Where changes go. Absent: in the sandbox's scratch space, which is memory, counts against the disk limit and
    /// goes with the sandbox. Given: two existing directories on one file system, made by the caller.
    std::optional<std::filesystem::path> upper;
    std::optional<std::filesystem::path> work;
    /// Changes need not survive a power cut. A layer mounted so must not be mounted again with the same work directory.
    bool disposable = true;
};

/// A file or directory of the host, read-only at `target`.
struct ReadOnlyBind {
    std::filesystem::path source;
    std::filesystem::path target;
    bool optional = false;  ///< a missing source is no fault
};

/// An empty directory of the sandbox's own, in its scratch space, owned by the command's user.
struct PrivateDirectory {
    std::filesystem::path target;
    mode_t mode = 0700;
};

/// A small file of the sandbox's own, owned by the command's user, for what must not be shown as the host has it.
/// Below a private directory it is a file like any other; elsewhere it covers what is there, can be written but neither
/// removed nor replaced, and is never one of an overlay's changes.
struct PrivateFile {
    std::filesystem::path target;
    std::string content;
    mode_t mode = 0644;
};

/// What a command sees. Everything not named here is the host's, read-only; the narrower path always wins over the
/// broader. /tmp and /run are private, /dev and /proc fresh, whether named or not.
struct Workspace {
    std::vector<Overlay> overlays;
    std::vector<ReadOnlyBind> binds;
    std::vector<PrivateDirectory> directories;
    std::vector<PrivateFile> files;
    /// Shown as empty: directories and files. One that does not exist is skipped.
    std::vector<std::filesystem::path> hidden;
    std::string hostname = "sandbox";
    /// System calls, by number, that are refused besides those that always are. Nothing can be allowed that way.
    std::vector<std::uint32_t> deniedCalls;
    /// The given uppers lie on a file system that bounds them by itself (an image, a quota).
    bool boundedUppers = false;
    /// A descriptor that stays open while anything of the sandbox is left, also when its owner is killed: the lock of
    /// the layers. Borrowed until open() returns.
    int held = -1;
};

enum class Network {
    kNone,  ///< a private loopback and nothing else
    kHost,  ///< the host's own: lowers the guarantee no-network
};

/// Who the command is. As root: the project's owner. An ordinary user can only be itself.
struct Identity {
    uid_t uid = 0;
    gid_t gid = 0;
};

/// How much of a stream is kept: the first and the last bytes; what lies between is counted and dropped.
struct CaptureBudget {
    std::size_t head = std::size_t{256} * 1024;
    std::size_t tail = std::size_t{256} * 1024;
};

enum class Stream { kOut, kErr };

/// A person's terminal, borrowed for the time of a command. The command gets a terminal of its own, made inside; what
/// is typed here is typed there, what it shows is shown here, and a change of size is passed on.
struct TerminalLink {
    int in = 0;
    int out = 1;
    bool raw = false;  ///< everything is shown, also what drives more than the screen
};

struct Command {
    std::vector<std::string> arguments;
    /// The program, if it is not arguments[0]. A name without a slash is looked for in PATH, inside.
    std::optional<std::string> program;
    /// NAME=value, the whole of it: nothing is inherited.
    std::vector<std::string> environment;
    std::filesystem::path directory = "/";
    /// Absent: this process's own.
    std::optional<mode_t> umask;
    std::string input;
    /// Instead of `input`: what can be read there goes into the command's stdin as it comes, until either has ended.
    /// Borrowed, and never given to the command itself; more may be read than the command takes.
    std::optional<int> inputFrom;
    /// Instead of all input and of pipes. Stdout and stderr are then one stream, kept as stdout.
    std::optional<TerminalLink> terminal;
    CaptureBudget keepOut;
    CaptureBudget keepErr;
    /// Called with every piece of output as it arrives, on the thread that runs the command.
    std::function<void(Stream, std::string_view)> live;
    /// Called once it runs, with pid 1 of the sandbox as the host sees it, on the thread that runs the command.
    std::function<void(pid_t)> started;
    /// Between SIGTERM and the end, at the wall-time limit or when cancelled.
    Milliseconds grace{0};
    /// How long output is still awaited once everything inside has ended: only a descriptor passed outside can delay
    /// it.
    Milliseconds drain{200};
    std::stop_token cancel;
};

struct CapturedStream {
    std::string head;
    std::string tail;         ///< empty unless something was dropped in between, or the head is full
    std::uint64_t bytes = 0;  ///< that were written, kept or not
    bool truncated = false;

    /// Head, a marker line naming the number of bytes left out, tail.
    std::string text() const;
};

/// Why a sandbox or a command could not be started.
struct SetupFailure {
    std::string step;
    int error = 0;  ///< errno
    std::string detail;

    std::string text() const;
};

struct Outcome {
    Verdict verdict = Verdict::kSetupFailed;
    std::optional<int> exitCode;  ///< only if the command ran and exited
    std::optional<int> signal;
    CapturedStream out;
    CapturedStream err;
    Time startedAt{};
    std::uint64_t wallMillis = 0;
    std::uint64_t cpuMillis = 0;
    std::optional<std::uint64_t> peakMemoryBytes;
    std::vector<LimitReport> limits;
    std::uint32_t leftBehind = 0;  ///< processes that outlived the command, and were ended
    std::optional<SetupFailure> failure;
    /// pid 1 of the sandbox as the host saw it, and its namespaces by name, once the command had started.
    std::optional<pid_t> init;
    std::vector<std::pair<std::string, std::uint64_t>> namespaces;
    /// Version of the kernel's Landlock that stood behind the mounts as a second line; 0: none.
    std::uint32_t landlock = 0;
    /// Why a limit is not held by a control group, where one is not.
    std::string shortfall;
};

/// The sandbox could not be built as asked. The message names step and reason, the hint the cure where one is known.
class SetupError : public Error {
  public:
    explicit SetupError(SetupFailure failure);
    const SetupFailure& failure() const { return failure_; }

  private:
    SetupFailure failure_;
};

/// A confined place to run commands. Removing it (the destructor) never throws, and ends whatever runs inside.
/// One thread at a time; commands of one sandbox share its workspace.
class Sandbox {
  public:
    virtual ~Sandbox() = default;
    /// Runs to the end or to a limit. A command that fails, or cannot be started, is an Outcome; throws Error only if
    /// the sandbox itself is lost.
    virtual Outcome run(const Command& command) = 0;
    /// Does now what the next run() needs and no command decides, so that it starts sooner. Only a hint.
    virtual void prepare() {}
    /// The upper directory of the overlay at `index`, for reading what changed while no command runs. Borrowed: valid
    /// until close().
    virtual int upper(std::size_t index) const = 0;
    /// Begins what close() does without waiting for it. Nothing but close() and the destructor may be called after it.
    virtual void beginClose() {}
    /// Lets go of everything; nothing of it is in use afterwards, layers given by the caller included. Later calls do
    /// nothing; run() is then a fault.
    virtual void close() = 0;
};

/// Whether one guarantee holds here, seen by trying it.
struct Proof {
    Guarantee guarantee = Guarantee::kNoNetwork;
    bool holds = false;
    std::string evidence;  ///< what was tried and seen; or why it does not hold
    std::string cure;      ///< the command or setting that would make it hold, where one is known
};

struct ProbeResult {
    std::string backend;
    std::string version;
    std::vector<Proof> proofs;

    bool proves(Guarantee guarantee) const;
    const Proof* find(Guarantee guarantee) const;
};

/// What a probe's result depends on: with the same key it need not be asked again.
struct ProbeKey {
    std::string bootId;
    std::string kernel;
    Digest program;
    uid_t uid = 0;

    Digest digest() const;
    bool operator==(const ProbeKey&) const = default;
};

/// One line per fact, for a cache; parseProbe refuses anything it did not write itself.
std::string formatProbe(const ProbeKey& key, const ProbeResult& result);
std::optional<ProbeResult> parseProbe(const ProbeKey& key, std::string_view text);

class IsolationBackend {
  public:
    virtual ~IsolationBackend() = default;
    virtual std::string_view name() const = 0;
    /// Proves every guarantee by running inside. Takes about half a second; cachedProbe keeps the result.
    virtual ProbeResult probe() = 0;
    virtual ProbeKey probeKey() const = 0;
    /// Whether it can show more than the host as it is: overlays, binds, private and hidden places.
    virtual bool clones() const { return true; }
    /// A sandbox without the host's network will probably be asked for: begin with what its plan does not decide. Only
    /// a hint.
    virtual void expect() {}
    /// Throws SetupError if it cannot be built exactly as asked; it is never built weaker.
    virtual std::unique_ptr<Sandbox> open(const Workspace& workspace, const Limits& limits, Network network,
                                          const Identity& identity) = 0;
};

}  // namespace gradus
