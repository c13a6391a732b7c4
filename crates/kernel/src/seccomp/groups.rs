// SPDX-License-Identifier: Apache-2.0
//! Groups of system calls, under the names that systemd uses (`SystemCallFilter=`).
//!
//! systemd.exec(5) says what each group is for. The members here are the calls of x86_64 and
//! aarch64, newer ones included. A call that an architecture hasn't got is left out of its
//! programs.

/// A group: its name, its calls, and groups that belong to it.
struct Group {
    name: &'static str,
    calls: &'static str,
    includes: &'static [&'static str],
}

const fn group(name: &'static str, calls: &'static str) -> Group {
    Group {
        name,
        calls,
        includes: &[],
    }
}

const GROUPS: &[Group] = &[
    group(
        "@default",
        "arch_prctl brk clock_getres clock_gettime clock_nanosleep execve exit exit_group futex \
         futex_requeue futex_wait futex_waitv futex_wake get_robust_list get_thread_area getegid \
         geteuid getgid getgroups getpgid getpgrp getpid getppid getrandom getresgid getresuid \
         getrlimit getsid gettid gettimeofday getuid map_shadow_stack membarrier mmap mprotect \
         mseal munmap nanosleep pause prlimit64 restart_syscall rseq rt_sigreturn \
         sched_getaffinity sched_yield set_robust_list set_thread_area set_tid_address time \
         uretprobe",
    ),
    group(
        "@aio",
        "io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit io_uring_enter \
         io_uring_register io_uring_setup",
    ),
    group(
        "@basic-io",
        "close close_range dup dup2 dup3 lseek pread64 preadv preadv2 pwrite64 pwritev pwritev2 \
         read readv write writev",
    ),
    group("@chown", "chown fchown fchownat lchown"),
    group(
        "@clock",
        "adjtimex clock_adjtime clock_settime settimeofday",
    ),
    group("@cpu-emulation", "modify_ldt"),
    group(
        "@debug",
        "lookup_dcookie perf_event_open pidfd_getfd ptrace",
    ),
    group(
        "@file-system",
        "access cachestat chdir chmod close creat faccessat faccessat2 fallocate fchdir fchmod \
         fchmodat fchmodat2 fcntl fgetxattr file_getattr file_setattr flistxattr fremovexattr \
         fsetxattr fstat fstatfs ftruncate futimesat getcwd getdents getdents64 getxattr \
         getxattrat inotify_add_watch inotify_init inotify_init1 inotify_rm_watch lgetxattr link \
         linkat listmount listxattr listxattrat llistxattr lremovexattr lsetxattr lstat mkdir \
         mkdirat mknod mknodat newfstatat open openat openat2 readlink readlinkat removexattr \
         removexattrat rename renameat renameat2 rmdir setxattr setxattrat stat statfs statmount \
         statx symlink symlinkat truncate unlink unlinkat utime utimensat utimes",
    ),
    group(
        "@io-event",
        "epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait \
         epoll_wait_old eventfd eventfd2 poll ppoll pselect6 select",
    ),
    group(
        "@ipc",
        "memfd_create mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink \
         msgctl msgget msgrcv msgsnd pipe pipe2 process_madvise process_vm_readv \
         process_vm_writev semctl semget semop semtimedop shmat shmctl shmdt shmget",
    ),
    group("@keyring", "add_key keyctl request_key"),
    group("@memlock", "mlock mlock2 mlockall munlock munlockall"),
    group("@module", "delete_module finit_module init_module"),
    group(
        "@mount",
        "chroot fsconfig fsmount fsopen fspick mount mount_setattr move_mount open_tree \
         open_tree_attr pivot_root umount2",
    ),
    group(
        "@network-io",
        "accept accept4 bind connect getpeername getsockname getsockopt listen recvfrom recvmmsg \
         recvmsg sendmmsg sendmsg sendto setsockopt shutdown socket socketpair",
    ),
    group(
        "@obsolete",
        "_sysctl afs_syscall create_module get_kernel_syms getpmsg putpmsg query_module security \
         sysfs tuxcall uselib ustat vserver",
    ),
    group("@pkey", "pkey_alloc pkey_free pkey_mprotect"),
    Group {
        name: "@privileged",
        calls: "_sysctl acct bpf capset chroot fanotify_init fanotify_mark nfsservctl \
            open_by_handle_at pivot_root quotactl quotactl_fd setdomainname setfsuid setgroups \
            sethostname setresuid setreuid setuid vhangup",
        includes: &["@chown", "@clock", "@module", "@raw-io", "@reboot", "@swap"],
    },
    group(
        "@process",
        "arch_prctl capget clone clone3 execveat fork getrusage kill pidfd_open \
         pidfd_send_signal prctl process_mrelease rt_sigqueueinfo rt_tgsigqueueinfo setns tgkill \
         times tkill unshare vfork wait4 waitid",
    ),
    group("@raw-io", "ioperm iopl"),
    group("@reboot", "kexec_file_load kexec_load reboot"),
    group(
        "@resources",
        "ioprio_set mbind migrate_pages move_pages sched_setaffinity sched_setattr \
         sched_setparam sched_setscheduler set_mempolicy set_mempolicy_home_node setpriority \
         setrlimit",
    ),
    group(
        "@sandbox",
        "landlock_add_rule landlock_create_ruleset landlock_restrict_self seccomp",
    ),
    group(
        "@setuid",
        "setgid setgroups setregid setresgid setresuid setreuid setuid",
    ),
    group(
        "@signal",
        "rt_sigaction rt_sigpending rt_sigprocmask rt_sigsuspend rt_sigtimedwait sigaltstack \
         signalfd signalfd4",
    ),
    group("@swap", "swapoff swapon"),
    group("@sync", "fdatasync fsync msync sync sync_file_range syncfs"),
    Group {
        name: "@system-service",
        calls: "capget capset copy_file_range fadvise64 flock get_mempolicy getcpu getpriority \
            ioctl ioprio_get kcmp madvise mremap name_to_handle_at personality readahead \
            remap_file_pages sched_get_priority_max sched_get_priority_min sched_getattr \
            sched_getparam sched_getscheduler sched_rr_get_interval sendfile setfsgid setfsuid \
            setpgid setsid splice sysinfo tee umask uname userfaultfd vmsplice",
        includes: &[
            "@aio",
            "@basic-io",
            "@chown",
            "@default",
            "@file-system",
            "@io-event",
            "@ipc",
            "@keyring",
            "@memlock",
            "@network-io",
            "@process",
            "@resources",
            "@setuid",
            "@signal",
            "@sync",
            "@timer",
        ],
    },
    group(
        "@timer",
        "alarm getitimer setitimer timer_create timer_delete timer_getoverrun timer_gettime \
         timer_settime timerfd_create timerfd_gettime timerfd_settime times",
    ),
];

/// The names of all groups, each with its `@`.
pub fn names() -> Vec<&'static str> {
    GROUPS.iter().map(|group| group.name).collect()
}

/// The calls of a group, those of the groups in it too; `None` where there is no such group.
pub fn calls(name: &str) -> Option<Vec<&'static str>> {
    let group = GROUPS.iter().find(|group| group.name == name)?;
    let mut out: Vec<_> = group.calls.split_whitespace().collect();
    for included in group.includes {
        out.extend(calls(included).unwrap_or_default());
    }
    out.sort_unstable();
    out.dedup();
    Some(out)
}
