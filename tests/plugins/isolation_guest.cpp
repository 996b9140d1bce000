// Runs inside a sandbox for the tests: `guest WHAT ARGUMENTS…` tries one thing and prints what it saw. Everything in
// here is bounded in count or time, whether or not the sandbox stops it.

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace {

using Words = std::vector<std::string>;

long number(const std::string& text) { return static_cast<long>(std::strtoull(text.c_str(), nullptr, 0)); }

void pauseFor(long millis) {
    const timespec time{millis / 1000, millis % 1000 * 1'000'000};
    ::nanosleep(&time, nullptr);
}

double seconds() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

void touchMemory(long mebibytes, int flags, int fd) {
    const std::size_t bytes = static_cast<std::size_t>(mebibytes) << 20;
    auto* memory = static_cast<char*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0));
    if (memory == MAP_FAILED) {
        std::printf("mmap: %s\n", std::strerror(errno));
        std::exit(9);
    }
    for (std::size_t at = 0; at < bytes; at += 4096) memory[at] = 1;
}

// call NUMBER ARGUMENTS…: one system call; prints its errno, or "ok". In a child, which may not survive it.
int call(const Words& words) {
    long arguments[6]{};
    for (std::size_t i = 1; i < words.size() && i < 7; ++i) arguments[i - 1] = number(words[i]);
    errno = 0;
    const long result =
        ::syscall(number(words[0]), arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
    if (result == 0 && (number(words[0]) == SYS_fork || number(words[0]) == SYS_clone)) ::_exit(0);
    std::printf("%s\n", result >= 0 ? "ok" : std::strerror(errno));
    return 0;
}

// calls FIRST LAST SKIPPED…: prints "NUMBER ERRNO" for each, called with arguments that mean nothing.
int calls(const Words& words) {
    for (long nr = number(words[0]); nr <= number(words[1]); ++nr) {
        bool skipped = false;
        for (std::size_t i = 2; i < words.size(); ++i) skipped = skipped || number(words[i]) == nr;
        if (skipped) continue;
        errno = 0;
        const long result = ::syscall(nr, -1L, -1L, -1L, -1L, -1L, -1L);
        std::printf("%ld %d\n", nr, result < 0 ? errno : 0);
    }
    return 0;
}

// The i386 door: getpid is 20 there.
int foreign(const Words&) {
    long result = 20;
    asm volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
    std::printf("%ld\n", static_cast<long>(static_cast<int>(result)));
    return 0;
}

int forkMany(const Words& words) {
    long started = 0;
    int error = 0;
    for (; started < number(words[0]); ++started) {
        const pid_t child = ::fork();
        if (child == 0) {
            pauseFor(20'000);
            ::_exit(0);
        }
        if (child < 0) {
            error = errno;
            break;
        }
    }
    std::printf("%ld %s\n", started, std::strerror(error));
    return error == 0 ? 0 : 1;
}

// Every child forks on, to a depth that bounds the whole at 2^depth; the first goes on a little, to be refused itself.
int bomb(const Words& words) {
    const pid_t first = ::getpid();
    int failures = 0;
    for (long depth = number(words[0]); depth > 0; --depth)
        if (::fork() < 0) ++failures;
    for (int more = 0; ::getpid() == first && more < 200; ++more) {
        const pid_t child = ::fork();
        if (child < 0) ++failures;
        if (child == 0) break;
    }
    pauseFor(300);
    return failures > 0 ? 1 : 0;
}

int use(const Words& words) {
    touchMemory(number(words[0]), MAP_PRIVATE | MAP_ANONYMOUS, -1);
    std::puts("had it");
    return 0;
}

int useShared(const Words& words) {
    const int fd = ::memfd_create("shared", 0);
    if (::ftruncate(fd, number(words[0]) << 20) != 0) return 8;
    touchMemory(number(words[0]), MAP_SHARED, fd);
    pauseFor(2000);
    return 0;
}

// A child takes the memory; this process goes on and says it is fine.
int useInChild(const Words& words) {
    const pid_t child = ::fork();
    if (child == 0) {
        touchMemory(number(words[0]), MAP_PRIVATE | MAP_ANONYMOUS, -1);
        ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    pauseFor(3000);
    return 0;
}

int killChild(const Words&) {
    const pid_t child = ::fork();
    if (child == 0) pauseFor(20'000);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    return 0;
}

int spin(const Words& words) {
    for (long i = 1; i < number(words[0]); ++i)
        if (::fork() == 0) break;
    const double end = seconds() + static_cast<double>(number(words[1])) / 1000;
    while (seconds() < end) continue;
    while (::wait(nullptr) > 0) continue;
    return 0;
}

// Children that nobody waits for: their time must count all the same.
int spinUnwaited(const Words& words) {
    ::signal(SIGCHLD, SIG_IGN);
    const double end = seconds() + static_cast<double>(number(words[0])) / 1000;
    while (seconds() < end) {
        if (::fork() == 0) {
            const double until = seconds() + 0.02;
            while (seconds() < until) continue;
            ::_exit(0);
        }
        pauseFor(20);
    }
    return 0;
}

int output(const Words& words) {
    const std::string piece(65536, 'x');
    const int fd = words.size() > 1 ? static_cast<int>(number(words[1])) : 1;
    for (long left = number(words[0]); left > 0;) {
        const ssize_t put = ::write(fd, piece.data(), static_cast<std::size_t>(std::min<long>(left, 65536)));
        if (put <= 0) return 7;
        left -= put;
    }
    return 0;
}

// A grandchild in a session of its own that keeps stdout open.
int detach(const Words& words) {
    if (::fork() == 0) {
        ::setsid();
        if (::fork() == 0) pauseFor(number(words[0]));
        ::_exit(0);
    }
    ::wait(nullptr);
    std::puts("detached");
    return 0;
}

int stubborn(const Words&) {
    ::signal(SIGTERM, SIG_IGN);
    ::signal(SIGINT, SIG_IGN);
    std::puts("ready");
    std::fflush(stdout);
    if (::fork() == 0) {
        ::raise(SIGSTOP);
        ::_exit(0);
    }
    pauseFor(20'000);
    return 0;
}

int obedient(const Words&) {
    ::signal(SIGTERM, [](int) {
        static_cast<void>(!::write(1, "goodbye\n", 8));
        ::_exit(0);
    });
    std::puts("ready");
    std::fflush(stdout);
    pauseFor(20'000);
    return 0;
}

int listNumbers(const char* path) {
    DIR* directory = ::opendir(path);
    if (directory == nullptr) return 1;
    while (const dirent* entry = ::readdir(directory))
        if (entry->d_name[0] != '.' && std::atoi(entry->d_name) != ::dirfd(directory)) std::puts(entry->d_name);
    ::closedir(directory);
    return 0;
}

int descriptors(const Words&) { return listNumbers("/proc/self/fd"); }

// Orphans that end: pid 1 must have taken them all. Prints how many are left as zombies.
int orphans(const Words& words) {
    int ready[2];
    if (::pipe(ready) != 0) return 5;
    for (long i = 0; i < number(words[0]); ++i) {
        const pid_t child = ::fork();
        if (child == 0) {
            if (::fork() == 0) ::_exit(0);
            ::_exit(0);
        }
        ::waitpid(child, nullptr, 0);
    }
    // Ours are waited for; what remains in /proc beyond pid 1 and us is pid 1's to reap.
    for (int patience = 0; patience < 200; ++patience) {
        int others = 0;
        DIR* proc = ::opendir("/proc");
        while (const dirent* entry = ::readdir(proc))
            if (std::atoi(entry->d_name) > 1 && std::atoi(entry->d_name) != ::getpid()) ++others;
        ::closedir(proc);
        if (others == 0) {
            std::puts("none");
            return 0;
        }
        pauseFor(10);
    }
    std::puts("some");
    return 1;
}

int connectTo(const Words& words) {
    const int type = words[0] == "udp" ? SOCK_DGRAM : SOCK_STREAM;
    const int fd = ::socket(AF_INET, type, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(number(words[2])));
    ::inet_pton(AF_INET, words[1].c_str(), &address.sin_addr);
    long result = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    if (result == 0) result = ::send(fd, "hello", 5, MSG_NOSIGNAL);
    std::printf("%s\n", result < 0 ? std::strerror(errno) : "ok");
    return 0;
}

int abstractSocket(const Words& words) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, words[0].data(), words[0].size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + words[0].size());
    const int result = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), length);
    std::printf("%s\n", result < 0 ? std::strerror(errno) : "ok");
    return 0;
}

// hoard KIND BYTES PATH: fills something that no process has mapped, and holds it until it is ended.
int hoard(const Words& words) {
    const auto bytes = static_cast<std::size_t>(number(words[1]));
    if (words[0] == "sysv") {
        const int id = ::shmget(IPC_PRIVATE, bytes, 0600);
        void* place = id < 0 ? nullptr : ::shmat(id, nullptr, 0);
        if (id < 0 || place == reinterpret_cast<void*>(-1)) {
            std::printf("%s\n", std::strerror(errno));
            return 1;
        }
        std::memset(place, 1, bytes);
        ::shmdt(place);
    } else {
        const bool named = words[0] != "memfd";
        const int fd = named ? ::open(words[2].c_str(), O_RDWR | O_CREAT, 0600) : ::memfd_create("hoard", 0);
        const std::string piece(1 << 20, 'x');
        for (std::size_t put = 0; put < bytes; put += piece.size())
            if (::write(fd, piece.data(), piece.size()) != static_cast<ssize_t>(piece.size())) {
                std::printf("%s\n", std::strerror(errno));
                return 1;
            }
        if (words[0] == "deleted") ::unlink(words[2].c_str());
    }
    std::puts("had it");
    std::fflush(stdout);
    pauseFor(10'000);
    return 0;
}

// reach PATH: connects to a socket in the file system.
int reach(const Words& words) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, words[0].c_str(), sizeof address.sun_path - 1);
    const int result = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    std::printf("%s\n", result < 0 ? std::strerror(errno) : "ok");
    return 0;
}

// A server and a client inside: the private loopback works.
// connects ADDRESS PORT COUNT: so many connections one after another, each closed at once; prints the median of
// microseconds.
int connects(const Words& words) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(number(words[1])));
    ::inet_pton(AF_INET, words[0].c_str(), &address.sin_addr);
    std::vector<double> times;
    for (long i = 0; i < number(words[2]); ++i) {
        const int client = ::socket(AF_INET, SOCK_STREAM, 0);
        const double begin = seconds();
        ::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address);
        times.push_back((seconds() - begin) * 1e6);
        ::close(client);
    }
    std::sort(times.begin(), times.end());
    std::printf("%.2f\n", times.empty() ? 0 : times[times.size() / 2]);
    return 0;
}

int loopback(const Words&) {
    const int server = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(8080);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || ::listen(server, 1) != 0)
        return 2;
    const int client = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return 3;
    std::puts(::accept(server, nullptr, nullptr) >= 0 ? "ok" : "no");
    return 0;
}

int resourceLimits(const Words&) {
    const std::map<std::string, int> kinds = {{"core", RLIMIT_CORE},   {"nofile", RLIMIT_NOFILE},
                                              {"fsize", RLIMIT_FSIZE}, {"nproc", RLIMIT_NPROC},
                                              {"data", RLIMIT_DATA},   {"rtprio", RLIMIT_RTPRIO}};
    for (const auto& [name, kind] : kinds) {
        rlimit limit{};
        ::getrlimit(static_cast<__rlimit_resource>(kind), &limit);
        std::printf("%s %llu\n", name.c_str(), static_cast<unsigned long long>(limit.rlim_max));
    }
    return 0;
}

int openMany(const Words& words) {
    long opened = 0;
    while (opened < number(words[0]) && ::open("/dev/null", O_RDONLY) >= 0) ++opened;
    std::printf("%ld %s\n", opened, std::strerror(errno));
    return 0;
}

int bigFile(const Words& words) {
    if (words.size() > 1) ::signal(SIGXFSZ, SIG_IGN);
    const int fd = ::open("big", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0) return 4;
    const std::string piece(65536, 'x');
    for (long left = number(words[0]); left > 0; left -= 65536)
        if (::write(fd, piece.data(), piece.size()) < 0) {
            std::printf("%s\n", std::strerror(errno));
            return 1;
        }
    return 0;
}

int manyFiles(const Words& words) {
    for (long i = 0; i < number(words[0]); ++i) {
        const int fd = ::open(("f" + std::to_string(i)).c_str(), O_WRONLY | O_CREAT, 0644);
        if (fd < 0) {
            std::printf("%ld %s\n", i, std::strerror(errno));
            return 1;
        }
        ::close(fd);
    }
    return 0;
}

int realTime(const Words&) {
    sched_param parameter{};
    parameter.sched_priority = 1;
    std::printf("%s\n", ::sched_setscheduler(0, SCHED_FIFO, &parameter) == 0 ? "ok" : std::strerror(errno));
    return 0;
}

// Files of /proc outside the process directories that could be opened for writing.
void writableBelow(const std::string& path, int depth) {
    DIR* directory = ::opendir(path.c_str());
    if (directory == nullptr) return;
    while (const dirent* entry = ::readdir(directory)) {
        const std::string name = entry->d_name;
        if (name[0] == '.' ||
            (path == "/proc" && (std::atoi(name.c_str()) > 0 || name == "self" || name == "thread-self")))
            continue;
        const std::string full = path + "/" + name;
        struct stat info {};
        if (::lstat(full.c_str(), &info) != 0) continue;
        if (S_ISDIR(info.st_mode) && depth > 0) writableBelow(full, depth - 1);
        if (!S_ISREG(info.st_mode)) continue;
        const int fd = ::open(full.c_str(), O_WRONLY);
        if (fd >= 0) std::puts(full.c_str());
        if (fd >= 0) ::close(fd);
    }
    ::closedir(directory);
}

int writableProc(const Words&) {
    writableBelow("/proc", 6);
    return 0;
}

int raiseSignal(const Words& words) {
    ::raise(static_cast<int>(number(words[0])));
    return 0;
}

int exitWith(const Words& words) { return static_cast<int>(number(words[0])); }

// What another process of the same user could do to pid 1 of the sandbox, through the file system.
int spyOnInit(const Words&) {
    for (const char* path : {"/proc/1/environ", "/proc/1/mem", "/proc/1/fd", "/proc/1/root", "/proc/1/cwd"}) {
        const int fd = ::open(path, O_RDONLY);
        std::printf("%s %s\n", path, fd >= 0 ? "ok" : std::strerror(errno));
    }
    return 0;
}

}  // namespace

int main(int count, char** words) {
    const std::map<std::string, std::function<int(const Words&)>> things = {{"call", call},
                                                                            {"calls", calls},
                                                                            {"foreign", foreign},
                                                                            {"fork", forkMany},
                                                                            {"bomb", bomb},
                                                                            {"use", use},
                                                                            {"use-shared", useShared},
                                                                            {"use-in-child", useInChild},
                                                                            {"spin", spin},
                                                                            {"output", output},
                                                                            {"detach", detach},
                                                                            {"stubborn", stubborn},
                                                                            {"obedient", obedient},
                                                                            {"orphans", orphans},
                                                                            {"connect", connectTo},
                                                                            {"descriptors", descriptors},
                                                                            {"abstract", abstractSocket},
                                                                            {"reach", reach},
                                                                            {"hoard", hoard},
                                                                            {"loopback", loopback},
                                                                            {"connects", connects},
                                                                            {"limits", resourceLimits},
                                                                            {"open", openMany},
                                                                            {"big", bigFile},
                                                                            {"files", manyFiles},
                                                                            {"real-time", realTime},
                                                                            {"writable-proc", writableProc},
                                                                            {"raise", raiseSignal},
                                                                            {"exit", exitWith},
                                                                            {"spy", spyOnInit},
                                                                            {"kill-child", killChild},
                                                                            {"spin-unwaited", spinUnwaited}};
    if (count < 2) return 99;
    const auto thing = things.find(words[1]);
    return thing == things.end() ? 99 : thing->second(Words(words + 2, words + count));
}
