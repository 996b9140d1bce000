// gradus-services: runs inside a sandbox, as the command's own user and under all that confines it. Starts services one
// after the other, waits until each can be used, runs the command, stops the services, and ends as the command did. It
// has no rights that the command does not have; what it reports is believed only as far as that.
//
//   gradus-services DIRECTORY { NAME START-MS STOP-MS PORT LOG-TEXT N ENV… N READY… N RUN… }… -- COMMAND…
//
// Everything that services print goes to DIRECTORY/NAME.log; DIRECTORY/status has a line for every step: name, word,
// number.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int kSetupFailed = 125;
constexpr int kShellsSignalBase = 128;
constexpr int kLookAgain = 20;  // milliseconds between two looks at a service that is starting

using Words = std::vector<std::string>;

struct Service {
    std::string name;
    long startMillis = 0;
    long stopMillis = 0;
    unsigned port = 0;
    std::string logText;
    Words environment;
    Words ready;
    Words run;
    pid_t pid = 0;  // 0: it does not run
    int status = 0;
};

std::vector<char*> pointers(const Words& words) {
    std::vector<char*> all;
    for (const std::string& word : words) all.push_back(const_cast<char*>(word.c_str()));
    all.push_back(nullptr);
    return all;
}

long millis() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

int codeOf(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : kShellsSignalBase + WTERMSIG(status); }

/// The words of the plan, in their order.
class Plan {
  public:
    Plan(int count, char** words) : count_(count), words_(words) {}
    bool isAtCommand() const { return at_ >= count_ || std::strcmp(words_[at_], "--") == 0; }
    std::string text() { return at_ < count_ ? words_[at_++] : ""; }
    long number() { return std::strtol(text().c_str(), nullptr, 10); }
    Words list() {
        Words all;
        for (long left = number(); left > 0 && at_ < count_; --left) all.push_back(text());
        return all;
    }
    Service service() {
        Service service;
        service.name = text();
        service.startMillis = number();
        service.stopMillis = number();
        service.port = static_cast<unsigned>(number());
        service.logText = text();
        service.environment = list();
        service.ready = list();
        service.run = list();
        return service;
    }
    Words command() {
        Words all;
        for (++at_; at_ < count_;) all.push_back(text());
        return all;
    }

  private:
    int count_;
    char** words_;
    int at_ = 0;
};

class Keeper {
  public:
    Keeper(std::string directory, std::vector<Service> services, Words command)
        : directory_(std::move(directory)), services_(std::move(services)), command_(std::move(command)) {}

    int run() {
        // Others of the same user do not look into us.
        ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        watchSignals();
        status_ = ::open((directory_ + "/status").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        for (Service& service : services_) {
            if (start(service) && becomesReady(service)) continue;
            stopAll();
            return kSetupFailed;
        }
        const int status = runCommand();
        stopAll();
        return endAs(status);
    }

  private:
    void watchSignals() {
        sigset_t watched;
        ::sigemptyset(&watched);
        for (const int number : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGTTOU}) ::sigaddset(&watched, number);
        ::sigprocmask(SIG_BLOCK, &watched, &before_);
        ::sigdelset(&watched, SIGTTOU);
        signals_ = ::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    }

    void say(const std::string& name, const char* word, long number) const {
        const std::string line = name + "\t" + word + "\t" + std::to_string(number) + "\n";
        [[maybe_unused]] const ssize_t written = ::write(status_, line.data(), line.size());
    }

    std::string logOf(const Service& service) const { return directory_ + "/" + service.name + ".log"; }

    // In the child: a session of its own, no terminal, nothing to read.
    [[noreturn]] void becomeService(const Service& service, const Words& words) const {
        ::setsid();
        const int nothing = ::open("/dev/null", O_RDONLY);
        const int log = ::open(logOf(service).c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
        ::dup2(nothing, 0);
        ::dup2(log, 1);
        ::dup2(log, 2);
        for (const std::string& variable : service.environment) ::putenv(const_cast<char*>(variable.c_str()));
        ::sigprocmask(SIG_SETMASK, &before_, nullptr);
        ::execvp(words[0].c_str(), pointers(words).data());
        const std::string line = words[0] + ": " + std::strerror(errno) + "\n";
        [[maybe_unused]] const ssize_t written = ::write(2, line.data(), line.size());
        ::_exit(127);
    }

    bool start(Service& service) const {
        service.pid = ::fork();
        if (service.pid == 0) becomeService(service, service.run);
        if (service.pid < 0) say(service.name, "not-started", errno);
        if (service.pid < 0) service.pid = 0;
        return service.pid != 0;
    }

    bool becomesReady(Service& service) {
        const long began = millis();
        while (true) {
            if (!wait(0)) return false;
            if (service.pid == 0) {
                say(service.name, "died", codeOf(service.status));
                return false;
            }
            if (isReady(service, began + service.startMillis)) break;
            if (millis() - began >= service.startMillis) {
                say(service.name, "late", millis() - began);
                return false;
            }
            if (!wait(kLookAgain)) return false;
        }
        say(service.name, "ready", millis() - began);
        return true;
    }

    bool isReady(Service& service, long deadline) {
        if (service.port != 0 && !listens(service.port)) return false;
        if (!service.logText.empty() && !logHolds(service)) return false;
        return service.ready.empty() || agrees(service, deadline);
    }

    static bool connects(const sockaddr* address, socklen_t size) {
        const int probe = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const bool done = probe >= 0 && ::connect(probe, address, size) == 0;
        if (probe >= 0) ::close(probe);
        return done;
    }

    static bool listens(unsigned port) {
        sockaddr_in four{};
        four.sin_family = AF_INET;
        four.sin_port = htons(static_cast<std::uint16_t>(port));
        four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        sockaddr_in6 six{};
        six.sin6_family = AF_INET6;
        six.sin6_port = four.sin_port;
        six.sin6_addr = in6addr_loopback;
        return connects(reinterpret_cast<sockaddr*>(&four), sizeof four) ||
               connects(reinterpret_cast<sockaddr*>(&six), sizeof six);
    }

    // The first megabyte: whoever says that it is ready says so early.
    bool logHolds(const Service& service) const {
        constexpr std::size_t kLooked = std::size_t{1} << 20;
        std::string text(kLooked, '\0');
        const int log = ::open(logOf(service).c_str(), O_RDONLY | O_CLOEXEC);
        const ssize_t got = log >= 0 ? ::read(log, text.data(), text.size()) : -1;
        if (log >= 0) ::close(log);
        if (got <= 0) return false;
        text.resize(static_cast<std::size_t>(got));
        return text.find(service.logText) != std::string::npos;
    }

    // Asked again and again, one at a time.
    bool agrees(Service& service, long deadline) {
        const pid_t asked = ::fork();
        if (asked == 0) becomeService(service, service.ready);
        if (asked < 0) return false;
        asked_ = asked;
        while (asked_ != 0) {
            if (service.pid == 0 || millis() >= deadline || !wait(kLookAgain)) {
                ::kill(-asked, SIGKILL);
                ::kill(asked, SIGKILL);
                asked_ = 0;
                return false;
            }
        }
        return askedStatus_ == 0;
    }

    int runCommand() {
        // Nothing runs before it has the terminal.
        int gate[2] = {-1, -1};
        if (::pipe2(gate, O_CLOEXEC) != 0) return kSetupFailed << 8;
        running_ = ::fork();
        if (running_ == 0) {
            ::setpgid(0, 0);
            char ignored = 0;
            ::close(gate[1]);
            [[maybe_unused]] const ssize_t got = ::read(gate[0], &ignored, 1);
            ::sigprocmask(SIG_SETMASK, &before_, nullptr);
            ::execvp(command_[0].c_str(), pointers(command_).data());
            say("-", "not-executed", errno);
            ::_exit(errno == ENOENT ? 127 : 126);
        }
        if (running_ < 0) {
            say("-", "not-executed", errno);
            return kSetupFailed << 8;
        }
        ::setpgid(running_, running_);
        if (::isatty(0) == 1) ::tcsetpgrp(0, running_);
        ::close(gate[0]);
        ::close(gate[1]);
        while (running_ != 0) wait(-1);
        if (::isatty(0) == 1) ::tcsetpgrp(0, ::getpgrp());
        return commandStatus_;
    }

    /// Takes what happened; false: we are to end and no command runs.
    bool wait(int patience) {
        pollfd event{signals_, POLLIN, 0};
        if (::poll(&event, 1, patience) > 0) {
            signalfd_siginfo seen{};
            while (::read(signals_, &seen, sizeof seen) > 0)
                if (seen.ssi_signo != SIGCHLD) passOn(static_cast<int>(seen.ssi_signo));
        }
        reap();
        return !toldToEnd_ || running_ != 0;
    }

    void passOn(int number) {
        toldToEnd_ = true;
        if (running_ > 0) ::kill(running_, number);
    }

    void reap() {
        int status = 0;
        for (pid_t child = 0; (child = ::waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;) {
            if (WIFSTOPPED(status)) {
                // Nobody is here to continue it later.
                if (child == running_) ::kill(-running_, SIGCONT);
                continue;
            }
            if (child == running_) {
                running_ = 0;
                commandStatus_ = status;
            }
            if (child == asked_) {
                asked_ = 0;
                askedStatus_ = status;
            }
            for (Service& service : services_)
                if (child == service.pid) ended(service, status);
        }
    }

    void ended(Service& service, int status) {
        service.pid = 0;
        service.status = status;
        if (running_ > 0) say(service.name, "ended", codeOf(status));
        if (stopping_) say(service.name, "stopped", codeOf(status));
    }

    // In the reverse order, first asked, then forced.
    void stopAll() {
        stopping_ = true;
        for (auto service = services_.rbegin(); service != services_.rend(); ++service) {
            if (service->pid == 0) continue;
            const pid_t group = service->pid;
            ::kill(service->pid, SIGTERM);
            const long deadline = millis() + service->stopMillis;
            while (service->pid != 0 && millis() < deadline) wait(kLookAgain);
            if (service->pid == 0) continue;
            say(service->name, "forced", service->stopMillis);
            ::kill(-group, SIGKILL);
            while (service->pid != 0) wait(kLookAgain);
        }
    }

    static int endAs(int status) {
        if (WIFEXITED(status)) return WEXITSTATUS(status);
        const int number = WTERMSIG(status);
        ::signal(number, SIG_DFL);
        sigset_t one;
        ::sigemptyset(&one);
        ::sigaddset(&one, number);
        ::raise(number);
        ::sigprocmask(SIG_UNBLOCK, &one, nullptr);
        return kShellsSignalBase + number;
    }

    std::string directory_;
    std::vector<Service> services_;
    Words command_;
    sigset_t before_{};
    int signals_ = -1;
    int status_ = -1;
    pid_t running_ = 0;
    pid_t asked_ = 0;
    int askedStatus_ = 0;
    int commandStatus_ = 0;
    bool toldToEnd_ = false;
    bool stopping_ = false;
};

}  // namespace

int main(int count, char** words) {
    if (count < 4) return kSetupFailed;
    Plan plan(count - 2, words + 2);
    std::vector<Service> services;
    while (!plan.isAtCommand()) services.push_back(plan.service());
    Words command = plan.command();
    if (command.empty()) return kSetupFailed;
    return Keeper(words[1], std::move(services), std::move(command)).run();
}
