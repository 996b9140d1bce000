#pragma once

#include <sys/syscall.h>

#include <cstdint>
#include <utility>

/// The table behind the filter, in the manner of the default profile of container runtimes. What is known and not
/// listed is denied.
namespace gradus {

/// open_tree_attr, Linux 6.15. Later calls are unknown to this table, and unknown means ENOSYS.
inline constexpr std::uint32_t kHighestKnownCall = 467;

/// Numbers that were never given to a call on x86-64.
inline constexpr std::pair<std::uint32_t, std::uint32_t> kNumberGaps[] = {{335, 423}};

/// Denied as if the kernel were older, because programs then fall back: clone3 hides its flags behind a pointer that
/// no filter can follow, io_uring performs calls that no filter sees.
inline constexpr std::uint32_t kAbsentCalls[] = {SYS_clone3, SYS_io_uring_setup, SYS_io_uring_enter,
                                                 SYS_io_uring_register};

/// Allowed in a copy of the system only: package managers run a package's scripts below another root.
inline constexpr std::uint32_t kSystemCalls[] = {SYS_chroot};

inline constexpr std::uint32_t kCachestat = 451;
inline constexpr std::uint32_t kFchmodat2 = 452;
inline constexpr std::uint32_t kMapShadowStack = 453;
inline constexpr std::uint32_t kFutexWake = 454;
inline constexpr std::uint32_t kFutexWait = 455;
inline constexpr std::uint32_t kFutexRequeue = 456;
inline constexpr std::uint32_t kMseal = 462;
inline constexpr std::uint32_t kSetxattrat = 463;
inline constexpr std::uint32_t kGetxattrat = 464;
inline constexpr std::uint32_t kListxattrat = 465;
inline constexpr std::uint32_t kRemovexattrat = 466;

// clang-format off
inline constexpr std::uint32_t kAllowedCalls[] = {
    // Files and directories.
    SYS_read, SYS_write, SYS_open, SYS_close, SYS_stat, SYS_fstat, SYS_lstat, SYS_lseek, SYS_pread64, SYS_pwrite64,
    SYS_readv, SYS_writev, SYS_preadv, SYS_pwritev, SYS_preadv2, SYS_pwritev2, SYS_access, SYS_faccessat, SYS_faccessat2,
    SYS_dup, SYS_dup2, SYS_dup3, SYS_fcntl, SYS_flock, SYS_fsync, SYS_fdatasync, SYS_sync, SYS_syncfs,
    SYS_sync_file_range, SYS_truncate, SYS_ftruncate, SYS_fallocate, SYS_fadvise64, SYS_readahead, SYS_getdents,
    SYS_getdents64, SYS_getcwd, SYS_chdir, SYS_fchdir, SYS_rename, SYS_renameat, SYS_mkdir, SYS_mkdirat, SYS_rmdir,
    SYS_creat, SYS_link, SYS_linkat, SYS_unlink, SYS_unlinkat, SYS_symlink, SYS_symlinkat, SYS_readlink,
    SYS_readlinkat, SYS_chmod, SYS_fchmod, SYS_fchmodat, kFchmodat2, SYS_chown, SYS_fchown, SYS_lchown, SYS_fchownat,
    SYS_umask, SYS_utime, SYS_utimes, SYS_futimesat, SYS_utimensat, SYS_statfs, SYS_fstatfs, SYS_openat, SYS_openat2,
    SYS_newfstatat, SYS_statx, SYS_close_range, SYS_copy_file_range, SYS_sendfile, SYS_splice, SYS_tee, SYS_vmsplice,
    SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr, SYS_getxattr, SYS_lgetxattr, SYS_fgetxattr, SYS_listxattr,
    SYS_llistxattr, SYS_flistxattr, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr, kSetxattrat, kGetxattrat,
    kListxattrat, kRemovexattrat, SYS_name_to_handle_at, SYS_inotify_init, SYS_inotify_init1, SYS_inotify_add_watch,
    SYS_inotify_rm_watch, kCachestat,
    // Waiting for descriptors, asynchronous I/O.
    SYS_poll, SYS_ppoll, SYS_select, SYS_pselect6, SYS_epoll_create, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_wait,
    SYS_epoll_pwait, SYS_epoll_pwait2, SYS_eventfd, SYS_eventfd2, SYS_signalfd, SYS_signalfd4, SYS_pipe, SYS_pipe2,
    SYS_io_setup, SYS_io_destroy, SYS_io_getevents, SYS_io_pgetevents, SYS_io_submit, SYS_io_cancel,
    // Memory.
    SYS_mmap, SYS_mprotect, SYS_munmap, SYS_brk, SYS_mremap, SYS_msync, SYS_mincore, SYS_madvise, SYS_mlock, SYS_mlock2,
    SYS_munlock, SYS_mlockall, SYS_munlockall, SYS_remap_file_pages, SYS_memfd_create, SYS_memfd_secret,
    SYS_pkey_mprotect, SYS_pkey_alloc, SYS_pkey_free, SYS_membarrier, kMapShadowStack, kMseal, SYS_shmget, SYS_shmat,
    SYS_shmctl, SYS_shmdt,
    // Processes, threads and their synchronisation. clone is examined; ptrace and its kin are not here.
    SYS_fork, SYS_vfork, SYS_execve, SYS_execveat, SYS_exit, SYS_exit_group, SYS_wait4, SYS_waitid, SYS_kill, SYS_tkill,
    SYS_tgkill, SYS_pidfd_open, SYS_pidfd_send_signal, SYS_process_mrelease, SYS_getpid, SYS_getppid, SYS_gettid,
    SYS_getpgid, SYS_getpgrp, SYS_setpgid, SYS_getsid, SYS_setsid, SYS_set_tid_address, SYS_set_robust_list,
    SYS_get_robust_list, SYS_futex, SYS_futex_waitv, kFutexWake, kFutexWait, kFutexRequeue, SYS_rseq, SYS_arch_prctl,
    SYS_prctl, SYS_set_thread_area, SYS_get_thread_area, SYS_getcpu, SYS_semget, SYS_semop, SYS_semctl,
    SYS_semtimedop, SYS_msgget, SYS_msgsnd, SYS_msgrcv, SYS_msgctl, SYS_mq_open, SYS_mq_unlink, SYS_mq_timedsend,
    SYS_mq_timedreceive, SYS_mq_notify, SYS_mq_getsetattr,
    // Scheduling and limits: without capabilities they can only be lowered.
    SYS_sched_yield, SYS_sched_setparam, SYS_sched_getparam, SYS_sched_setscheduler, SYS_sched_getscheduler,
    SYS_sched_get_priority_max, SYS_sched_get_priority_min, SYS_sched_rr_get_interval, SYS_sched_setaffinity,
    SYS_sched_getaffinity, SYS_sched_setattr, SYS_sched_getattr, SYS_getpriority, SYS_setpriority, SYS_ioprio_get,
    SYS_ioprio_set, SYS_getrlimit, SYS_setrlimit, SYS_prlimit64, SYS_getrusage, SYS_times, SYS_sysinfo, SYS_uname,
    // Signals.
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigpending, SYS_rt_sigtimedwait, SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo, SYS_rt_sigsuspend, SYS_sigaltstack, SYS_restart_syscall, SYS_pause,
    // Time.
    SYS_nanosleep, SYS_clock_nanosleep, SYS_getitimer, SYS_setitimer, SYS_alarm, SYS_gettimeofday, SYS_time,
    SYS_clock_gettime, SYS_clock_getres, SYS_timer_create, SYS_timer_settime, SYS_timer_gettime, SYS_timer_getoverrun,
    SYS_timer_delete, SYS_timerfd_create, SYS_timerfd_settime, SYS_timerfd_gettime,
    // Sockets. socket and socketpair are examined.
    SYS_connect, SYS_accept, SYS_accept4, SYS_sendto, SYS_recvfrom, SYS_sendmsg, SYS_recvmsg, SYS_sendmmsg,
    SYS_recvmmsg, SYS_shutdown, SYS_bind, SYS_listen, SYS_getsockname, SYS_getpeername, SYS_setsockopt, SYS_getsockopt,
    // Identity: there is one, and no capability to take another.
    SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getgroups, SYS_getresuid, SYS_getresgid, SYS_setuid, SYS_setgid,
    SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setfsuid, SYS_setfsgid, SYS_setgroups, SYS_capget,
    SYS_capset,
    // Filters can only be tightened.
    SYS_seccomp, SYS_landlock_create_ruleset, SYS_landlock_add_rule, SYS_landlock_restrict_self,
    SYS_getrandom,
};
// clang-format on

}  // namespace gradus
