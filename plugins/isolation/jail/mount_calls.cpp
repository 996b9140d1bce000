#include "plugins/isolation/jail/mount_calls.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

namespace gradus {

namespace {

// What the kernel says about a refused option or mount: "e overlay: …" lines, read from the context itself.
std::string kernelMessage(int context) {
    std::string messages;
    char buffer[512];
    while (true) {
        const ssize_t got = ::read(context, buffer, sizeof buffer);
        if (got <= 0) return messages;
        if (!messages.empty()) messages += "; ";
        messages.append(buffer, static_cast<std::size_t>(got));
        while (!messages.empty() && messages.back() == '\n') messages.pop_back();
    }
}

Failure fileSystemFailure(int context, const std::string& type, const std::string& what) {
    const int error = errno;
    const std::string message = kernelMessage(context);
    return failure("mount " + type, message.empty() ? what : what + ": " + message, error);
}

int configure(int context, const MountOption& option) {
    if (option.value.empty()) return ::fsconfig(context, FSCONFIG_SET_FLAG, option.key.c_str(), nullptr, 0);
    return ::fsconfig(context, FSCONFIG_SET_STRING, option.key.c_str(), option.value.c_str(), 0);
}

char octal(const std::string& text, std::size_t at) {
    return static_cast<char>((text[at] - '0') * 64 + (text[at + 1] - '0') * 8 + (text[at + 2] - '0'));
}

// mountinfo writes blanks and backslashes as \040 and the like.
std::string unescape(const std::string& text) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\\' && i + 3 < text.size()) {
            plain += octal(text, i + 1);
            i += 3;
        } else {
            plain += text[i];
        }
    }
    return plain;
}

}  // namespace

Attempt makeFileSystem(const std::string& type, const std::vector<MountOption>& options, unsigned attributes,
                       Descriptor& mounted) {
    const Descriptor context(::fsopen(type.c_str(), FSOPEN_CLOEXEC));
    if (!context) return failure("mount " + type, "fsopen");
    for (const MountOption& option : options)
        if (configure(context.get(), option) != 0)
            return fileSystemFailure(context.get(), type, option.key + "=" + option.value);
    if (::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0)
        return fileSystemFailure(context.get(), type, "create");
    mounted = Descriptor(::fsmount(context.get(), FSMOUNT_CLOEXEC, attributes));
    if (!mounted) return fileSystemFailure(context.get(), type, "fsmount");
    return std::nullopt;
}

Attempt cloneTree(int directory, const std::string& path, bool withSubmounts, unsigned attributes,
                  Descriptor& mounted) {
    const unsigned recursive = withSubmounts ? AT_RECURSIVE : 0;
    const unsigned empty = path.empty() ? AT_EMPTY_PATH : 0;
    const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW | recursive | empty;
    mounted = Descriptor(::open_tree(directory, path.c_str(), flags));
    if (!mounted) return failure("bind", path);
    return setMountAttributes(mounted.get(), attributes, withSubmounts, path);
}

Attempt attachMount(int mounted, int target, const std::string& name) {
    if (::move_mount(mounted, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0)
        return std::nullopt;
    return failure("attach", name);
}

Attempt setMountAttributes(int mounted, unsigned attributes, bool withSubmounts, const std::string& name) {
    mount_attr change{};
    change.attr_set = attributes;
    const unsigned flags = AT_EMPTY_PATH | (withSubmounts ? AT_RECURSIVE : 0U);
    if (::mount_setattr(mounted, "", flags, &change, sizeof change) == 0) return std::nullopt;
    return failure("mount attributes", name);
}

std::vector<MountPoint> readMountPoints(std::string_view mountInfo) {
    std::vector<MountPoint> points;
    for (const std::string& line : splitWords(mountInfo, "\n")) {
        const std::vector<std::string> fields = splitWords(line, " ");
        if (fields.size() > 4) points.push_back({unescape(fields[4])});
    }
    return points;
}

bool liesBeneath(std::string_view path, std::string_view directory) {
    if (directory == "/") return path.size() > 1 && path.front() == '/';
    return path.size() > directory.size() && path.starts_with(directory) && path[directory.size()] == '/';
}

}  // namespace gradus
