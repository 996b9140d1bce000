#include "plugins/isolation/call_names.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace gradus {

namespace {

struct CallName {
    std::uint32_t number;
    std::string_view name;
};

// clang-format off
constexpr std::array kNames{
    CallName{0, "read"}, CallName{1, "write"}, CallName{2, "open"}, CallName{3, "close"}, CallName{4, "stat"},
    CallName{5, "fstat"}, CallName{6, "lstat"}, CallName{7, "poll"}, CallName{8, "lseek"}, CallName{9, "mmap"},
    CallName{10, "mprotect"}, CallName{11, "munmap"}, CallName{12, "brk"}, CallName{13, "rt_sigaction"},
    CallName{14, "rt_sigprocmask"}, CallName{15, "rt_sigreturn"}, CallName{16, "ioctl"}, CallName{17, "pread64"},
    CallName{18, "pwrite64"}, CallName{19, "readv"}, CallName{20, "writev"}, CallName{21, "access"},
    CallName{22, "pipe"}, CallName{23, "select"}, CallName{24, "sched_yield"}, CallName{25, "mremap"},
    CallName{26, "msync"}, CallName{27, "mincore"}, CallName{28, "madvise"}, CallName{29, "shmget"},
    CallName{30, "shmat"}, CallName{31, "shmctl"}, CallName{32, "dup"}, CallName{33, "dup2"}, CallName{34, "pause"},
    CallName{35, "nanosleep"}, CallName{36, "getitimer"}, CallName{37, "alarm"}, CallName{38, "setitimer"},
    CallName{39, "getpid"}, CallName{40, "sendfile"}, CallName{41, "socket"}, CallName{42, "connect"},
    CallName{43, "accept"}, CallName{44, "sendto"}, CallName{45, "recvfrom"}, CallName{46, "sendmsg"},
    CallName{47, "recvmsg"}, CallName{48, "shutdown"}, CallName{49, "bind"}, CallName{50, "listen"},
    CallName{51, "getsockname"}, CallName{52, "getpeername"}, CallName{53, "socketpair"}, CallName{54, "setsockopt"},
    CallName{55, "getsockopt"}, CallName{56, "clone"}, CallName{57, "fork"}, CallName{58, "vfork"},
    CallName{59, "execve"}, CallName{60, "exit"}, CallName{61, "wait4"}, CallName{62, "kill"}, CallName{63, "uname"},
    CallName{64, "semget"}, CallName{65, "semop"}, CallName{66, "semctl"}, CallName{67, "shmdt"},
    CallName{68, "msgget"}, CallName{69, "msgsnd"}, CallName{70, "msgrcv"}, CallName{71, "msgctl"},
    CallName{72, "fcntl"}, CallName{73, "flock"}, CallName{74, "fsync"}, CallName{75, "fdatasync"},
    CallName{76, "truncate"}, CallName{77, "ftruncate"}, CallName{78, "getdents"}, CallName{79, "getcwd"},
    CallName{80, "chdir"}, CallName{81, "fchdir"}, CallName{82, "rename"}, CallName{83, "mkdir"},
    CallName{84, "rmdir"}, CallName{85, "creat"}, CallName{86, "link"}, CallName{87, "unlink"},
    CallName{88, "symlink"}, CallName{89, "readlink"}, CallName{90, "chmod"}, CallName{91, "fchmod"},
    CallName{92, "chown"}, CallName{93, "fchown"}, CallName{94, "lchown"}, CallName{95, "umask"},
    CallName{96, "gettimeofday"}, CallName{97, "getrlimit"}, CallName{98, "getrusage"}, CallName{99, "sysinfo"},
    CallName{100, "times"}, CallName{101, "ptrace"}, CallName{102, "getuid"}, CallName{103, "syslog"},
    CallName{104, "getgid"}, CallName{105, "setuid"}, CallName{106, "setgid"}, CallName{107, "geteuid"},
    CallName{108, "getegid"}, CallName{109, "setpgid"}, CallName{110, "getppid"}, CallName{111, "getpgrp"},
    CallName{112, "setsid"}, CallName{113, "setreuid"}, CallName{114, "setregid"}, CallName{115, "getgroups"},
    CallName{116, "setgroups"}, CallName{117, "setresuid"}, CallName{118, "getresuid"}, CallName{119, "setresgid"},
    CallName{120, "getresgid"}, CallName{121, "getpgid"}, CallName{122, "setfsuid"}, CallName{123, "setfsgid"},
    CallName{124, "getsid"}, CallName{125, "capget"}, CallName{126, "capset"}, CallName{127, "rt_sigpending"},
    CallName{128, "rt_sigtimedwait"}, CallName{129, "rt_sigqueueinfo"}, CallName{130, "rt_sigsuspend"},
    CallName{131, "sigaltstack"}, CallName{132, "utime"}, CallName{133, "mknod"}, CallName{134, "uselib"},
    CallName{135, "personality"}, CallName{136, "ustat"}, CallName{137, "statfs"}, CallName{138, "fstatfs"},
    CallName{139, "sysfs"}, CallName{140, "getpriority"}, CallName{141, "setpriority"},
    CallName{142, "sched_setparam"}, CallName{143, "sched_getparam"}, CallName{144, "sched_setscheduler"},
    CallName{145, "sched_getscheduler"}, CallName{146, "sched_get_priority_max"},
    CallName{147, "sched_get_priority_min"}, CallName{148, "sched_rr_get_interval"}, CallName{149, "mlock"},
    CallName{150, "munlock"}, CallName{151, "mlockall"}, CallName{152, "munlockall"}, CallName{153, "vhangup"},
    CallName{154, "modify_ldt"}, CallName{155, "pivot_root"}, CallName{156, "_sysctl"}, CallName{157, "prctl"},
    CallName{158, "arch_prctl"}, CallName{159, "adjtimex"}, CallName{160, "setrlimit"}, CallName{161, "chroot"},
    CallName{162, "sync"}, CallName{163, "acct"}, CallName{164, "settimeofday"}, CallName{165, "mount"},
    CallName{166, "umount2"}, CallName{167, "swapon"}, CallName{168, "swapoff"}, CallName{169, "reboot"},
    CallName{170, "sethostname"}, CallName{171, "setdomainname"}, CallName{172, "iopl"}, CallName{173, "ioperm"},
    CallName{174, "create_module"}, CallName{175, "init_module"}, CallName{176, "delete_module"},
    CallName{177, "get_kernel_syms"}, CallName{178, "query_module"}, CallName{179, "quotactl"},
    CallName{180, "nfsservctl"}, CallName{181, "getpmsg"}, CallName{182, "putpmsg"}, CallName{183, "afs_syscall"},
    CallName{184, "tuxcall"}, CallName{185, "security"}, CallName{186, "gettid"}, CallName{187, "readahead"},
    CallName{188, "setxattr"}, CallName{189, "lsetxattr"}, CallName{190, "fsetxattr"}, CallName{191, "getxattr"},
    CallName{192, "lgetxattr"}, CallName{193, "fgetxattr"}, CallName{194, "listxattr"}, CallName{195, "llistxattr"},
    CallName{196, "flistxattr"}, CallName{197, "removexattr"}, CallName{198, "lremovexattr"},
    CallName{199, "fremovexattr"}, CallName{200, "tkill"}, CallName{201, "time"}, CallName{202, "futex"},
    CallName{203, "sched_setaffinity"}, CallName{204, "sched_getaffinity"}, CallName{205, "set_thread_area"},
    CallName{206, "io_setup"}, CallName{207, "io_destroy"}, CallName{208, "io_getevents"}, CallName{209, "io_submit"},
    CallName{210, "io_cancel"}, CallName{211, "get_thread_area"}, CallName{212, "lookup_dcookie"},
    CallName{213, "epoll_create"}, CallName{214, "epoll_ctl_old"}, CallName{215, "epoll_wait_old"},
    CallName{216, "remap_file_pages"}, CallName{217, "getdents64"}, CallName{218, "set_tid_address"},
    CallName{219, "restart_syscall"}, CallName{220, "semtimedop"}, CallName{221, "fadvise64"},
    CallName{222, "timer_create"}, CallName{223, "timer_settime"}, CallName{224, "timer_gettime"},
    CallName{225, "timer_getoverrun"}, CallName{226, "timer_delete"}, CallName{227, "clock_settime"},
    CallName{228, "clock_gettime"}, CallName{229, "clock_getres"}, CallName{230, "clock_nanosleep"},
    CallName{231, "exit_group"}, CallName{232, "epoll_wait"}, CallName{233, "epoll_ctl"}, CallName{234, "tgkill"},
    CallName{235, "utimes"}, CallName{236, "vserver"}, CallName{237, "mbind"}, CallName{238, "set_mempolicy"},
    CallName{239, "get_mempolicy"}, CallName{240, "mq_open"}, CallName{241, "mq_unlink"},
    CallName{242, "mq_timedsend"}, CallName{243, "mq_timedreceive"}, CallName{244, "mq_notify"},
    CallName{245, "mq_getsetattr"}, CallName{246, "kexec_load"}, CallName{247, "waitid"}, CallName{248, "add_key"},
    CallName{249, "request_key"}, CallName{250, "keyctl"}, CallName{251, "ioprio_set"}, CallName{252, "ioprio_get"},
    CallName{253, "inotify_init"}, CallName{254, "inotify_add_watch"}, CallName{255, "inotify_rm_watch"},
    CallName{256, "migrate_pages"}, CallName{257, "openat"}, CallName{258, "mkdirat"}, CallName{259, "mknodat"},
    CallName{260, "fchownat"}, CallName{261, "futimesat"}, CallName{262, "newfstatat"}, CallName{263, "unlinkat"},
    CallName{264, "renameat"}, CallName{265, "linkat"}, CallName{266, "symlinkat"}, CallName{267, "readlinkat"},
    CallName{268, "fchmodat"}, CallName{269, "faccessat"}, CallName{270, "pselect6"}, CallName{271, "ppoll"},
    CallName{272, "unshare"}, CallName{273, "set_robust_list"}, CallName{274, "get_robust_list"},
    CallName{275, "splice"}, CallName{276, "tee"}, CallName{277, "sync_file_range"}, CallName{278, "vmsplice"},
    CallName{279, "move_pages"}, CallName{280, "utimensat"}, CallName{281, "epoll_pwait"}, CallName{282, "signalfd"},
    CallName{283, "timerfd_create"}, CallName{284, "eventfd"}, CallName{285, "fallocate"},
    CallName{286, "timerfd_settime"}, CallName{287, "timerfd_gettime"}, CallName{288, "accept4"},
    CallName{289, "signalfd4"}, CallName{290, "eventfd2"}, CallName{291, "epoll_create1"}, CallName{292, "dup3"},
    CallName{293, "pipe2"}, CallName{294, "inotify_init1"}, CallName{295, "preadv"}, CallName{296, "pwritev"},
    CallName{297, "rt_tgsigqueueinfo"}, CallName{298, "perf_event_open"}, CallName{299, "recvmmsg"},
    CallName{300, "fanotify_init"}, CallName{301, "fanotify_mark"}, CallName{302, "prlimit64"},
    CallName{303, "name_to_handle_at"}, CallName{304, "open_by_handle_at"}, CallName{305, "clock_adjtime"},
    CallName{306, "syncfs"}, CallName{307, "sendmmsg"}, CallName{308, "setns"}, CallName{309, "getcpu"},
    CallName{310, "process_vm_readv"}, CallName{311, "process_vm_writev"}, CallName{312, "kcmp"},
    CallName{313, "finit_module"}, CallName{314, "sched_setattr"}, CallName{315, "sched_getattr"},
    CallName{316, "renameat2"}, CallName{317, "seccomp"}, CallName{318, "getrandom"}, CallName{319, "memfd_create"},
    CallName{320, "kexec_file_load"}, CallName{321, "bpf"}, CallName{322, "execveat"}, CallName{323, "userfaultfd"},
    CallName{324, "membarrier"}, CallName{325, "mlock2"}, CallName{326, "copy_file_range"}, CallName{327, "preadv2"},
    CallName{328, "pwritev2"}, CallName{329, "pkey_mprotect"}, CallName{330, "pkey_alloc"},
    CallName{331, "pkey_free"}, CallName{332, "statx"}, CallName{333, "io_pgetevents"}, CallName{334, "rseq"},
    CallName{424, "pidfd_send_signal"}, CallName{425, "io_uring_setup"}, CallName{426, "io_uring_enter"},
    CallName{427, "io_uring_register"}, CallName{428, "open_tree"}, CallName{429, "move_mount"},
    CallName{430, "fsopen"}, CallName{431, "fsconfig"}, CallName{432, "fsmount"}, CallName{433, "fspick"},
    CallName{434, "pidfd_open"}, CallName{435, "clone3"}, CallName{436, "close_range"}, CallName{437, "openat2"},
    CallName{438, "pidfd_getfd"}, CallName{439, "faccessat2"}, CallName{440, "process_madvise"},
    CallName{441, "epoll_pwait2"}, CallName{442, "mount_setattr"}, CallName{443, "quotactl_fd"},
    CallName{444, "landlock_create_ruleset"}, CallName{445, "landlock_add_rule"},
    CallName{446, "landlock_restrict_self"}, CallName{447, "memfd_secret"}, CallName{448, "process_mrelease"},
    CallName{449, "futex_waitv"}, CallName{450, "set_mempolicy_home_node"}, CallName{451, "cachestat"},
    CallName{452, "fchmodat2"}, CallName{453, "map_shadow_stack"}, CallName{454, "futex_wake"},
    CallName{455, "futex_wait"}, CallName{456, "futex_requeue"}, CallName{457, "statmount"},
    CallName{458, "listmount"}, CallName{459, "lsm_get_self_attr"}, CallName{460, "lsm_set_self_attr"},
    CallName{461, "lsm_list_modules"}, CallName{462, "mseal"}, CallName{463, "setxattrat"},
    CallName{464, "getxattrat"}, CallName{465, "listxattrat"}, CallName{466, "removexattrat"},
    CallName{467, "open_tree_attr"},
};
// clang-format on

}  // namespace

std::string callName(std::uint32_t number) {
    const auto* found = std::lower_bound(kNames.begin(), kNames.end(), number,
                                         [](const CallName& row, std::uint32_t wanted) { return row.number < wanted; });
    if (found != kNames.end() && found->number == number) return std::string(found->name);
    return "call " + std::to_string(number);
}

}  // namespace gradus
