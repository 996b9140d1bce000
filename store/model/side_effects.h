#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gradus {

/// A destination that a command was let through to, by the name in the rule.
struct AllowedConnection {
    std::string host;
    std::uint16_t port = 0;
    std::string address;  ///< what the name stood for, or was pinned to
    std::uint64_t connections = 0;
    std::uint64_t failed = 0;  ///< nobody answered there, or with a no

    bool operator==(const AllowedConnection&) const = default;
};

/// A destination that was refused.
struct RefusedConnection {
    std::string protocol;  ///< "tcp" or "udp"
    std::string host;      ///< a name where a rule names it, else an address
    std::uint16_t port = 0;
    std::string reason;   ///< "not-allowed", "private-address", "unknown-name"
    std::string address;  ///< of a name: what it stood for
    std::uint64_t attempts = 0;
    bool exact = true;  ///< false: at least so many

    bool operator==(const RefusedConnection&) const = default;
};

/// A system call that the filter refused.
struct RefusedCall {
    std::string name;
    std::uint64_t times = 0;
    bool exact = true;  ///< false: at least so many

    bool operator==(const RefusedCall&) const = default;
};

/// What a command did besides its work: what it wrote outside of the project, what it left running, whom it called and
/// what it was refused. Names are those of the command's own choosing; they are kept apart from the numbers, so that
/// they can be taken out of the log without changing it.
struct SideEffects {
    /// Refused calls and connections were seen. Without (another program listens to the filter, an old kernel) nothing
    /// is known about them. Connections are not looked at where the network is the host's.
    bool callsSeen = false;
    bool connectionsSeen = false;

    /// The outermost new places outside of the project: in private directories and copies on write, gone with the
    /// sandbox. What was refused (a read-only place) cannot be seen.
    std::vector<std::string> outsideWrites;
    std::uint64_t moreOutsideWrites = 0;  ///< beyond those listed
    std::vector<std::string> leftoverProcesses;
    std::uint64_t leftoverCount = 0;
    std::vector<AllowedConnection> networkAllowed;
    std::vector<RefusedConnection> networkDenied;
    std::uint64_t moreDenied = 0;  ///< attempts at destinations beyond those listed
    std::vector<RefusedCall> syscallsDenied;

    bool isNothing() const {
        return outsideWrites.empty() && moreOutsideWrites == 0 && leftoverCount == 0 && networkAllowed.empty() &&
               networkDenied.empty() && moreDenied == 0 && syscallsDenied.empty();
    }
    bool operator==(const SideEffects&) const = default;
};

/// As JSON: how it stands in a record's payload and in `--json`. What is not known is null.
std::string formatSideEffects(const SideEffects& effects);
/// Nothing known for a text that formatSideEffects does not give; one entry that cannot be read is left out.
SideEffects parseSideEffects(std::string_view text);

}  // namespace gradus
