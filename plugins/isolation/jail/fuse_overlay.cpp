#include "plugins/isolation/jail/fuse_overlay.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <vector>

namespace gradus {

namespace {

constexpr long kFuseMagic = 0x65735546;
constexpr int kPatience = 10'000;  // looks, a millisecond apart

void keepOpen(const Descriptor& descriptor) { ::fcntl(descriptor.get(), F_SETFD, 0); }

// Layers by the numbers of descriptors that the program inherits: no path of theirs needs escaping.
std::string optionsFor(const OverlayLayers& layers) {
    std::string options = "squash_to_root,noacl,lowerdir=";
    for (std::size_t i = 0; i < layers.lowers.size(); ++i)
        options += (i == 0 ? "" : ":") + descriptorPath(layers.lowers[i].get());
    return options + ",upperdir=" + descriptorPath(layers.upper.get()) +
           ",workdir=" + descriptorPath(layers.work.get());
}

[[noreturn]] void becomeProgram(const std::string& program, const OverlayLayers& layers, const std::string& place,
                                pid_t jail, const Descriptor& words) {
    // Whoever ends the jail ends this.
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || ::getppid() != jail) ::_exit(126);
    const std::string options = optionsFor(layers);
    for (const Descriptor& lower : layers.lowers) keepOpen(lower);
    keepOpen(layers.upper);
    keepOpen(layers.work);
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    ::dup2(nothing, 0);
    ::dup2(nothing, 1);
    ::dup2(words.get(), 2);
    const char* const arguments[] = {"fuse-overlayfs", "-f", "-o", options.c_str(), place.c_str(), nullptr};
    const char* const environment[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", nullptr};
    ::execve(program.c_str(), const_cast<char**>(arguments), const_cast<char**>(environment));
    ::_exit(127);
}

bool isShown(const std::string& place) {
    struct statfs info {};
    return ::statfs(place.c_str(), &info) == 0 && info.f_type == kFuseMagic;
}

}  // namespace

Attempt FuseOverlay::start(const std::string& program, const OverlayLayers& layers, const std::string& place) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return failure("fuse-overlayfs", "pipe");
    words_ = Descriptor(ends[0]);
    const Descriptor write(ends[1]);
    const pid_t jail = ::getpid();
    process_ = ::fork();
    if (process_ < 0) return failure("fuse-overlayfs", "fork");
    if (process_ == 0) becomeProgram(program, layers, place, jail, write);
    return waitFor(place);
}

// It has no way of telling that it is ready other than being there.
Attempt FuseOverlay::waitFor(const std::string& place) {
    const timespec pause{0, 1'000'000};
    for (int look = 0; look < kPatience; ++look) {
        if (isShown(place)) return std::nullopt;
        int status = 0;
        if (::waitpid(process_, &status, WNOHANG) == process_) {
            process_ = -1;
            return failure("fuse-overlayfs", "it ended at once: " + said(), EIO);
        }
        ::nanosleep(&pause, nullptr);
    }
    end();
    return failure("fuse-overlayfs", "it shows nothing: " + said(), ETIMEDOUT);
}

std::string FuseOverlay::said() const {
    char text[1024];
    const ssize_t length = ::read(words_.get(), text, sizeof text);
    if (length <= 0) return "without a word";
    std::string words(text, static_cast<std::size_t>(length));
    while (!words.empty() && words.back() == '\n') words.pop_back();
    for (char& letter : words)
        if (letter == '\n') letter = ';';
    return words;
}

void FuseOverlay::end() {
    if (process_ < 0) return;
    ::kill(process_, SIGKILL);
    while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) continue;
    process_ = -1;
    words_.reset();
}

}  // namespace gradus
