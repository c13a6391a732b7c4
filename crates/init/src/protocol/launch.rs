// SPDX-License-Identifier: Apache-2.0
//! The order to start an executable: what goes with [`super::CellRequest::Start`]. Plain data; the
//! cell-init's child carries it out.

use super::sandbox::{Label, Sandbox};
#[cfg(doc)]
use super::{CellRequest, IdMap, MAX_BEFORE, MAX_PASSED, MAX_PID_ENV, MAX_STRING};
use super::{Pids, Record, Stdio, Uid};

/// A user or group as asked for; resolved by the cell-init in the cell's own files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Principal {
    /// By number, in the cell's user namespace.
    Id(u32),
    /// By name, looked up in the cell's own /etc/passwd or /etc/group.
    Name(String),
}

/// A new executable. Descriptors that go with it, in this order:
/// 1. its leaf cgroup (directory). Its `cgroup.procs` must belong to the node's id of the cell's
///    root (`IdMap::outside`), or the kernel refuses to clone into it (`EACCES`),
/// 2. with [`Stdio::Pipes`]: stdin's read end (or /dev/null), stdout's and stderr's write ends,
///    then the read ends to keep; with [`Stdio::Terminal`]: none, the cell-init opens it,
/// 3. with `keep_stdin`: stdin's write end, to keep,
/// 4. as many as `passed` says: what the program gets from 3 on,
/// 5. with `listens`: the child's end of a socket pair of packets, for its filter's listener,
/// 6. that of a [`Record`] that is beside the packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    /// The executable's run.
    pub uid: Uid,
    /// The pid namespace that it runs in.
    pub pids: Pids,
    /// The program and its arguments, without NUL, each at most [`MAX_STRING`] bytes. A program
    /// without a slash is looked for in PATH of `env`.
    pub argv: Vec<Vec<u8>>,
    /// `NAME=value`; complete, nothing is added but HOME, USER, LOGNAME, SHELL where absent.
    pub env: Vec<Vec<u8>>,
    /// An absolute path; empty: the user's home, or / where that isn't there. Not through links of
    /// the kind that `/proc/PID/fd` has. In an image it is created where it isn't there.
    pub cwd: Vec<u8>,
    /// The user. `None`: the cell's root.
    pub user: Option<Principal>,
    /// The primary group. `None`: the user's own; in an image, 0 for a number without an entry.
    pub group: Option<Principal>,
    /// Supplementary groups: exactly these and, where not `member`, none of /etc/group.
    pub groups: Vec<Principal>,
    /// Whether the groups that /etc/group lists the user in are its supplementary groups, too.
    pub member: bool,
    /// The file mode creation mask.
    pub umask: u32,
    /// `RLIMIT_*` number, soft, hard (`u64::MAX`: unlimited).
    pub rlimits: Vec<(u8, u64, u64)>,
    /// The nice value, -20 (first) to 19 (last).
    pub nice: i8,
    /// -1000 to 1000; not given: 0.
    pub oom_score_adj: Option<i16>,
    /// One bit per CPU; empty: unchanged.
    pub affinity: Vec<u8>,
    /// Bit mask of capability numbers: the bounding set, and what a root user holds.
    /// `CAP_KILL` is left out in a cell that shares the pid namespace alone, to spare its init.
    pub bounding: u64,
    /// Kept across the exec for a user that isn't root.
    pub ambient: u64,
    /// Whether `PR_SET_NO_NEW_PRIVS` is set.
    pub no_new_privileges: bool,
    /// A compiled filter: `struct sock_filter[]` as bytes. Empty: none.
    pub seccomp: Vec<u8>,
    /// Whether the kernel logs refused calls (`SECCOMP_FILTER_FLAG_LOG`).
    pub seccomp_log: bool,
    /// A filter that comes before that one, whose listener goes through the descriptor of
    /// `listens`.
    pub listener: Option<Listening>,
    /// The kind of its standard streams.
    pub stdio: Stdio,
    /// The write end of standard input comes along, to be kept until `CloseStdin`.
    pub keep_stdin: bool,
    /// How many descriptors the program gets from 3 on, at most [`MAX_PASSED`].
    pub passed: u16,
    /// A descriptor for `listener` comes along.
    pub listens: bool,
    /// The executed process is only the first one: its exit with 0 is not the end of the workload.
    pub forks: bool,
    /// The signal of a stop, for a shutdown without a daemon.
    pub stop_signal: u8,
    /// The time from the stop signal to `SIGKILL`, in milliseconds.
    pub grace_ms: u32,
    /// The daemon's record of it, opaque here.
    pub record: Record,
    /// The file to execute. `None`: as the first of `argv` says.
    pub program: Option<Vec<u8>>,
    /// Where `cwd` can't be entered, the program begins in `/`.
    pub cwd_optional: bool,
    /// Standard streams that the child opens by itself, in place of those that came.
    pub opens: Vec<Open>,
    /// The names of what the program gets from 3 on, `passed` many. With some, the program has
    /// `LISTEN_FDS`, `LISTEN_PID` and `LISTEN_FDNAMES`.
    pub names: Vec<String>,
    /// What it gets from 3 on is made non-blocking.
    pub nonblocking: bool,
    /// Variables whose value is its own pid, as it sees it; at most [`MAX_PID_ENV`].
    pub pid_env: Vec<String>,
    /// Class (1 to 3) and level (0 to 7) for disks.
    pub io_priority: Option<(u8, u8)>,
    /// `SCHED_*` and its priority.
    pub policy: Option<(u8, u8)>,
    /// Children begin with the usual policy.
    pub reset_on_fork: bool,
    /// Nanoseconds; 0: unchanged.
    pub timer_slack_ns: u64,
    /// SIGPIPE is ignored.
    pub ignore_sigpipe: bool,
    /// Its session keyring.
    pub keyring: Keyring,
    /// uname(2) says that the machine has 32 bits.
    pub linux32: bool,
    /// The profile or label of a security module that the program gets.
    pub label: Option<Label>,
    /// What it is kept from; in a cell with the node's mounts and users.
    pub sandbox: Option<Sandbox>,
    /// Programs that run to their end before it, in its place and with all that it has and may do.
    pub before: Option<Before>,
}

impl Launch {
    /// One of that run without a program, and with nothing that a program could do without.
    pub fn plain(uid: Uid) -> Launch {
        Launch {
            uid,
            pids: Pids::Cell,
            argv: Vec::new(),
            env: Vec::new(),
            cwd: Vec::new(),
            user: None,
            group: None,
            groups: Vec::new(),
            member: false,
            umask: 0o022,
            rlimits: Vec::new(),
            nice: 0,
            oom_score_adj: None,
            affinity: Vec::new(),
            bounding: 0,
            ambient: 0,
            no_new_privileges: true,
            seccomp: Vec::new(),
            seccomp_log: false,
            listener: None,
            stdio: Stdio::Pipes,
            keep_stdin: false,
            passed: 0,
            listens: false,
            forks: false,
            stop_signal: 15,
            grace_ms: 0,
            record: Record::Here(Vec::new()),
            program: None,
            cwd_optional: false,
            opens: Vec::new(),
            names: Vec::new(),
            nonblocking: false,
            pid_env: Vec::new(),
            io_priority: None,
            policy: None,
            reset_on_fork: false,
            timer_slack_ns: 0,
            ignore_sigpipe: false,
            keyring: Keyring::Private,
            linux32: false,
            label: None,
            sandbox: None,
            before: None,
        }
    }
}

/// What runs before a program: the hooks `startContainer` of the OCI runtime specification.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Before {
    /// What each reads on its standard input: an object in JSON, to which its process adds the
    /// program's own `pid`.
    pub state: Vec<u8>,
    /// In this order, at most [`MAX_BEFORE`].
    pub programs: Vec<First>,
}

/// A program that runs to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct First {
    /// An absolute path, as the executable sees files.
    pub path: Vec<u8>,
    /// Its arguments, with its name first.
    pub argv: Vec<Vec<u8>>,
    /// `NAME=value`; complete.
    pub env: Vec<Vec<u8>>,
    /// Then it is killed, and has failed.
    pub timeout_ms: u32,
}

/// A filter of calls that an agent decides on.
///
/// The child installs it and sends its listener, as the one descriptor of a packet. It goes on when
/// a packet comes whose first byte is [`Listening::GO_ON`]; any other, and the end of the
/// connection, is the failure of [`super::Step::Listener`], with the rest as its detail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listening {
    /// `struct sock_filter[]` as bytes.
    pub program: Vec<u8>,
    /// A thread that waits for the agent can be killed, and nothing else
    /// (`SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV`).
    pub killable: bool,
}

impl Listening {
    /// The listener is with who asked for it.
    pub const GO_ON: u8 = b'g';
    /// It isn't; why follows.
    pub const REFUSED: u8 = b'r';
    /// The longest packet, in bytes.
    pub const MAX_WORD: usize = 512;
}

/// A standard stream that the child opens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Open {
    /// 0, 1 or 2.
    pub stream: u8,
    /// The way in which it is opened.
    pub how: OpenHow,
    /// An absolute path, in the executable's own view of files; of [`OpenHow::Same`] empty.
    pub path: Vec<u8>,
}

/// How a standard stream is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenHow {
    /// From the beginning; output makes the file (0666, less the mask) where it isn't there.
    Plain,
    /// At the end.
    Append,
    /// Emptied first.
    Truncate,
    /// A terminal; that of standard input becomes the controlling one, and must be no session's.
    Terminal,
    /// The same, once no session has it.
    TerminalWhenFree,
    /// The same; another session that has it loses it.
    TerminalByForce,
    /// A copy of the stream before it.
    Same,
}

/// The session keyring of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keyring {
    /// A new one.
    Private,
    /// A new one with a link to its user's.
    Shared,
    /// The cell-init's.
    Inherit,
}
