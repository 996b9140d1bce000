// gradus-jail: builds one sandbox and runs commands in it, for the engine at the other end of descriptor 3.
//
// Rights: as root it uses CAP_SYS_ADMIN (mounts, namespaces), CAP_SETUID/SETGID (to become the project's owner),
// CAP_MKNOD, CAP_CHOWN and CAP_DAC_OVERRIDE (the new tree), CAP_NET_ADMIN in the sandbox's own network namespace. As an
// ordinary user it has these only inside a user namespace that it makes itself. The command has none of them.
//
// It is started by exec, never by fork of the threaded engine; it is single-threaded and throws nothing.

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

#include "plugins/isolation/jail/protocol.h"
#include "plugins/isolation/jail/prove.h"
#include "plugins/isolation/jail/supervisor.h"

int main(int count, char** words) {
    if (count >= 3 && std::strcmp(words[1], "--prove") == 0) return gradus::prove(words[2], count > 3 ? words[3] : "0");
    struct stat control {};
    if (::fstat(gradus::kJailControlDescriptor, &control) != 0 || !S_ISSOCK(control.st_mode)) {
        std::fputs("gradus-jail is started by gradus, not by hand\n", stderr);
        return 2;
    }
    // Whatever else the engine's process had open is not the sandbox's.
    ::close_range(gradus::kJailHeldDescriptor + 1, ~0U, 0);
    ::umask(022);
    // The engine may die while we write to it; that is seen as the end of the stream, not as a signal.
    ::signal(SIGPIPE, SIG_IGN);
    const bool holds = ::fcntl(gradus::kJailHeldDescriptor, F_GETFD) >= 0;
    return gradus::Supervisor(gradus::kJailControlDescriptor, holds ? gradus::kJailHeldDescriptor : -1).serve();
}
