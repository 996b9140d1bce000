#include "pipeline/cli/host.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "store/file.h"
#include "store/model/error.h"

namespace gradus {

namespace {

constexpr std::size_t kNarrowestTerminal = 20;

Terminal lookAtTerminal() {
    Terminal terminal;
    terminal.outIsTerminal = isatty(STDOUT_FILENO) == 1;
    terminal.errIsTerminal = isatty(STDERR_FILENO) == 1;
    winsize size{};
    if (terminal.outIsTerminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= kNarrowestTerminal)
        terminal.width = size.ws_col;
    return terminal;
}

// A closed descriptor would be given to the next file opened, and our output would land in that file: perhaps the
// database. The stand-in is opened the wrong way round, so using it still fails.
void occupy(int descriptor, int wrongWay) {
    if (fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) return;
    const int opened = open("/dev/null", wrongWay);
    if (opened != descriptor) _exit(6);  // The lower ones are taken already: only a broken system comes here.
}

void ignoreSignal(int /*signal*/) {}

}  // namespace

ProcessHost::ProcessHost()
    : terminal_(lookAtTerminal()),
      out_(STDOUT_FILENO, "standard output",
           terminal_.outIsTerminal ? DescriptorSink::Buffering::kNone : DescriptorSink::Buffering::kBlocks),
      err_(STDERR_FILENO, "standard error") {}

std::optional<int> ProcessHost::input() const {
    if (isatty(STDIN_FILENO) == 1) return std::nullopt;
    return STDIN_FILENO;
}

std::optional<TerminalLink> ProcessHost::person() const {
    if (isatty(STDIN_FILENO) != 1 || !terminal_.outIsTerminal) return std::nullopt;
    return TerminalLink{STDIN_FILENO, STDOUT_FILENO};
}

std::optional<std::string> ProcessHost::variable(const std::string& name) const {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
}

std::optional<std::string> ProcessHost::ask(const std::string& question, const std::stop_token& stop) {
    if (isatty(STDIN_FILENO) != 1 || !terminal_.errIsTerminal) return std::nullopt;
    err_.write(question);
    err_.flush();
    const FileDescriptor wake(::eventfd(0, EFD_CLOEXEC));
    const std::stop_callback onStop(stop, [&] { ::eventfd_write(wake.get(), 1); });
    std::string answer;
    while (true) {
        pollfd events[2] = {{STDIN_FILENO, POLLIN, 0}, {wake.get(), POLLIN, 0}};
        if (::poll(events, 2, -1) < 0 && errno == EINTR) continue;
        char c = '\0';
        if (events[1].revents != 0) {
            err_.write("\n");
            err_.flush();
            return std::nullopt;
        }
        if (::read(STDIN_FILENO, &c, 1) != 1 || c == '\n') return answer;
        answer += c;
    }
}

std::filesystem::path ProcessHost::directory() const {
    std::error_code error;
    std::filesystem::path here = std::filesystem::current_path(error);
    if (error)
        throw Error(ErrorCode::kInfrastructure, "the current directory cannot be read: {}", error.message())
            .hint("change into a directory that exists, or name one with -C");
    return here;
}

void ProcessHost::enterDirectory(const std::filesystem::path& directory) {
    std::error_code error;
    std::filesystem::current_path(directory, error);
    if (error) throw Error(ErrorCode::kUsage, "-C '{}': {}", directory.string(), error.message());
}

void prepareProcess() {
    occupy(STDIN_FILENO, O_WRONLY);
    occupy(STDOUT_FILENO, O_RDONLY);
    occupy(STDERR_FILENO, O_RDONLY);
    // A handler instead of SIG_IGN: exec resets a handler, while every command we run would inherit "ignored".
    struct sigaction action {};
    action.sa_handler = ignoreSignal;
    sigaction(SIGPIPE, &action, nullptr);
}

}  // namespace gradus
