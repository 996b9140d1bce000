#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/isolation/jail/attempt.h"
#include "store/model/limits.h"

/// The words between the engine and gradus-jail, on a stream socket. A message is a frame: magic, version, kind and
/// length, then fields in a fixed order, numbers little-endian, texts with their length. Both sides come from one
/// build, so the version must match exactly; anything else is refused, never guessed at (docs/isolation.md).
namespace gradus {

inline constexpr std::uint32_t kJailMagic = 0x4c4a4447;  // "GDJL"
inline constexpr std::uint32_t kJailVersion = 7;
inline constexpr std::uint32_t kJailFrameCap = 8U << 20;
inline constexpr std::size_t kJailHeaderBytes = 16;
inline constexpr std::size_t kMostRoutes = 128;

/// Where the jail finds its control socket.
inline constexpr int kJailControlDescriptor = 3;
/// Whatever is open here stays so while anything of the sandbox is left, and is nobody's to use.
inline constexpr int kJailHeldDescriptor = 4;

enum class JailMessage : std::uint32_t {
    kSetup = 1,    ///< engine: build the sandbox; with a network by name, the broker's socket travels with it
    kRun = 2,      ///< engine: run a command; three descriptors (stdin, stdout, stderr) travel with it
    kStop = 3,     ///< engine: end the running command now
    kReset = 4,    ///< engine: forget the sandbox and be ready for another plan
    kPrepare = 5,  ///< engine: make ready for the next command what can be made ready before it is known
    kExpect = 6,   ///< engine: a plan follows; of this one only ids, network and alwaysHidden are looked at
    kReady = 16,   ///< jail: built; one descriptor per overlay (its upper directory) travels with it
    kFailed = 17,
    kStarted = 18,
    kEnded = 19,
    kIdle = 20,      ///< jail: the sandbox is forgotten
    kTerminal = 21,  ///< jail: the other end of the command's terminal travels with it
    // On the broker's socket (docs/network.md).
    kListeners = 32,  ///< jail: one listening socket per route, in their order, in one or more frames
    kDial = 33,       ///< jail: somebody wants to connect there
    kDialed = 34,     ///< engine: what came of it
    // Between the supervisor and pid 1 (init.h).
    kPlaces = 48,  ///< supervisor: the sandbox's places are there, and these may be written below
};

struct JailOverlay {
    std::string target;
    std::vector<std::string> lowers;  ///< topmost first
    std::string upper;                ///< empty: in the scratch space
    std::string work;
    bool disposable = true;  ///< never synced to disk

    bool operator==(const JailOverlay&) const = default;
};

struct JailBind {
    std::string source;
    std::string target;
    bool optional = false;

    bool operator==(const JailBind&) const = default;
};

struct JailPrivate {
    std::string target;
    std::uint32_t mode = 0755;

    bool operator==(const JailPrivate&) const = default;
};

struct JailFile {
    std::string target;
    std::string content;
    std::uint32_t mode = 0644;

    bool operator==(const JailFile&) const = default;
};

/// A file system in a file, mounted for this sandbox alone: no mount of it is seen outside.
struct JailImage {
    std::string file;
    std::string at;  ///< an existing directory; layers of overlays may lie below it
    bool readOnly = false;

    bool operator==(const JailImage&) const = default;
};

/// Ids of the host's that an ordinary user may give to others than itself: /etc/subuid, /etc/subgid.
struct JailRange {
    std::uint32_t first = 0;
    std::uint32_t count = 0;

    bool operator==(const JailRange&) const = default;
};

/// A place inside that leads outside: what is accepted there is passed on.
struct JailRoute {
    std::uint32_t address = 0;  ///< IPv4, as a number; of the range that no real network has
    std::uint32_t port = 0;

    bool operator==(const JailRoute&) const = default;
};

struct JailSetup {
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
    /// The whole of the host is copied: an overlay of "/" is in the plan, the command is root inside and keeps the
    /// capabilities that a package manager needs, over nothing but its own user namespace.
    bool system = false;
    std::string fuseProgram;  ///< fuse-overlayfs, which makes the overlay of "/" for an ordinary user
    std::vector<JailRange> subordinateUsers;
    std::vector<JailRange> subordinateGroups;
    /// The host as it is: no namespaces, nothing shown or hidden; limits, Landlock and the filter only.
    bool bare = false;
    bool hostNetwork = false;
    bool diskBacked = false;  ///< the caller's upper directories lie on a file system that bounds them
    std::string hostname;
    std::string cgroupRoot;
    std::string userManager;  ///< socket of who may hand out control groups; empty: nobody
    std::vector<JailOverlay> overlays;
    std::vector<JailBind> binds;
    std::vector<JailPrivate> privates;
    std::vector<JailFile> files;
    /// Files in a layer right above the host's own, below all others of the overlay of "/": what a command finds there
    /// instead of the host's, may replace, and what is none of its changes.
    std::vector<JailFile> seeds;
    std::vector<JailImage> images;
    std::vector<std::string> hidden;
    /// The part of `hidden` that every sandbox of this engine has: hidden once for all plans of one jail.
    std::vector<std::string> alwaysHidden;
    std::vector<std::uint32_t> deniedCalls;
    std::vector<std::string> projectPlaces;  ///< what is written there or below is no side effect
    std::vector<JailRoute> routes;           ///< a network by name
    Limits limits;

    bool operator==(const JailSetup&) const = default;
};

struct JailRun {
    std::string program;  ///< a path, or a name to look for in the PATH of `environment`
    std::vector<std::string> arguments;
    std::vector<std::string> environment;
    std::string directory;
    std::uint64_t graceMillis = 0;
    std::uint32_t umask = 022;
    bool terminal = false;  ///< no descriptors come with it; the jail makes a terminal and hands its other end back
    /// Of that terminal, before the command can look.
    std::uint32_t rows = 0;
    std::uint32_t columns = 0;

    bool operator==(const JailRun&) const = default;
};

struct JailReady {
    std::array<Enforcer, kLimitNames.size()> enforcers{};
    std::uint32_t landlockAbi = 0;
    std::string shortfall;  ///< why a limit has no control group, if one has none

    bool operator==(const JailReady&) const = default;
};

/// Inode numbers of the namespaces: mnt, pid, net, ipc, uts, cgroup, user.
inline constexpr std::array<std::string_view, 7> kNamespaceNames = {"mnt", "pid",    "net", "ipc",
                                                                    "uts", "cgroup", "user"};

struct JailStarted {
    std::uint32_t initPid = 0;  ///< pid 1 of the sandbox, as the host sees it
    std::array<std::uint64_t, kNamespaceNames.size()> namespaces{};

    bool operator==(const JailStarted&) const = default;
};

enum class JailEnd : std::uint32_t { kByItself, kWallTime, kCpuTime, kMemory, kStopped, kDisk, kLost };

/// A destination that was refused, and how often.
struct JailRefusal {
    bool datagram = false;
    std::string address;
    std::uint32_t port = 0;
    std::uint64_t count = 0;
    bool exact = true;

    bool operator==(const JailRefusal&) const = default;
};

struct JailDeniedCall {
    std::uint32_t number = 0;
    std::uint64_t count = 0;
    bool exact = true;

    bool operator==(const JailDeniedCall&) const = default;
};

/// What the jail saw of a command besides its work.
struct JailEffects {
    bool callsSeen = false;
    bool connectionsSeen = false;
    std::vector<JailRefusal> refusals;
    std::uint64_t otherRefusals = 0;
    std::vector<JailDeniedCall> deniedCalls;
    std::vector<std::string> leftovers;  ///< names of processes
    std::vector<std::string> writes;     ///< the outermost new places outside of overlays that the engine knows
    std::uint64_t moreWrites = 0;

    bool operator==(const JailEffects&) const = default;
};

struct JailEnded {
    JailEnd end = JailEnd::kByItself;
    bool exited = false;     ///< `status` is an exit status
    bool signalled = false;  ///< `status` is a signal number
    std::uint32_t status = 0;
    std::uint64_t wallNanos = 0;
    std::uint64_t cpuNanos = 0;
    std::uint64_t memoryPeak = 0;
    std::uint32_t leftBehind = 0;  ///< processes that were still there when the command had ended
    bool oom = false;
    std::array<std::optional<std::uint64_t>, kLimitNames.size()> peaks{};
    std::array<bool, kLimitNames.size()> tripped{};
    JailEffects effects;

    bool operator==(const JailEnded&) const = default;
};

struct JailDial {
    std::uint64_t id = 0;
    std::uint32_t route = 0;  ///< its place in JailSetup::routes

    bool operator==(const JailDial&) const = default;
};

struct JailDialed {
    std::uint64_t id = 0;
    std::uint32_t error = 0;  ///< errno; 0: it stands

    bool operator==(const JailDialed&) const = default;
};

std::string encode(const JailSetup& setup);
std::string encode(const JailRun& run);
std::string encode(const JailReady& ready);
std::string encode(const JailStarted& started);
std::string encode(const JailEnded& ended);
std::string encode(const Failure& failed);
std::string encode(const JailDial& dial);
std::string encode(const JailDialed& dialed);

/// Nothing if a byte is missing, left over, or outside what the field allows.
std::optional<JailSetup> decodeSetup(std::string_view body);
std::optional<JailRun> decodeRun(std::string_view body);
std::optional<JailReady> decodeReady(std::string_view body);
std::optional<JailStarted> decodeStarted(std::string_view body);
std::optional<JailEnded> decodeEnded(std::string_view body);
std::optional<Failure> decodeFailed(std::string_view body);
std::optional<JailDial> decodeDial(std::string_view body);
std::optional<JailDialed> decodeDialed(std::string_view body);

/// A frame's first bytes.
struct JailHeader {
    JailMessage kind = JailMessage::kFailed;
    std::uint32_t length = 0;
};
std::string encodeHeader(JailMessage kind, std::size_t length);
std::optional<JailHeader> decodeHeader(std::string_view bytes);

/// What makes a well-formed plan unacceptable, as a sentence: relative paths, "..", doubled targets, out of range
/// values.
std::optional<std::string> objection(const JailSetup& setup);
std::optional<std::string> objection(const JailRun& run);

}  // namespace gradus
