// SPDX-License-Identifier: Apache-2.0
//! The command line: the one that runc and crun have, since engines write it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::log::Format;

/// How a list is printed.
const FORMATS: [&str; 2] = ["table", "json"];

/// Open Container Initiative runtime: runs the containers of bundles
#[derive(Debug, Parser)]
#[command(
    disable_version_flag = true,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = EXAMPLES
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Help in the form that runc's has: wrappers read it.
fn help(name: &str) -> String {
    format!("NAME:\n   {name} - {{about}}\n\nUSAGE:\n   {{usage}}\n\n{{all-args}}{{after-help}}")
}

impl Arguments {
    /// Reads the command line of the runtime that is called `name`.
    pub(crate) fn read(name: &'static str, words: &[OsString]) -> Result<Arguments, clap::Error> {
        let command = <Arguments as CommandFactory>::command()
            .name(name)
            .bin_name(name)
            .help_template(help(name))
            .mut_subcommands(|command| {
                let template = help(&format!("{name} {}", command.get_name()));
                command.help_template(template)
            });
        let mut matches = command.try_get_matches_from(words)?;
        <Arguments as FromArgMatches>::from_arg_matches_mut(&mut matches)
    }
}

const EXAMPLES: &str = "Examples:
  auraed oci spec                          write a config.json for the bundle in this folder
  auraed oci run web                       run that bundle as the container web
  auraed oci exec -t web sh                run a shell in it
  podman --runtime /usr/local/bin/aurae-oci run …   where aurae-oci is a link to auraed";

/// What every command takes.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Log more
    #[arg(long, global = true)]
    pub(crate) debug: bool,
    /// Write the log to this file instead of standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// The form of the log's lines
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub(crate) log_format: Format,
    /// Keep the containers' states here [default: aurae/oci in /run, of a user in $XDG_RUNTIME_DIR]
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// cgroupsPath is SLICE:PREFIX:NAME
    #[arg(long)]
    pub(crate) systemd_cgroup: bool,
    /// The same in crun's words; with disabled a container has no cgroup
    #[arg(long, value_name = "MANAGER", value_parser = ["cgroupfs", "systemd", "disabled"])]
    pub(crate) cgroup_manager: Option<String>,
    /// Whether an ordinary user runs this: true, false or auto. It is found out
    #[arg(long, value_name = "WHETHER", default_value = "auto")]
    pub(crate) rootless: String,
    /// Ignored: containers can't be checkpointed
    #[arg(long, hide = true, value_name = "PATH")]
    pub(crate) criu: Option<String>,
    /// Print the version
    #[arg(short = 'v', long)]
    pub(crate) version: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a container; its process waits for `start`
    Create(Create),
    /// Let the process of a created container begin
    Start { id: String },
    /// Create a container and start it
    Run(Run),
    /// Print a container's state
    State { id: String },
    /// Send a signal to a container's process
    Kill(Kill),
    /// Remove a container that has ended
    Delete {
        id: String,
        /// Kill it before, and be content where there is none
        #[arg(short, long)]
        force: bool,
    },
    /// Run another process in a container
    Exec(Exec),
    /// List containers
    List(List),
    /// List the processes of a container
    Ps(Ps),
    /// Stop all processes of a container for now
    Pause { id: String },
    /// Let them go on
    Resume { id: String },
    /// Change the limits of a container
    Update(Update),
    /// Print what a container uses, and when memory runs out
    Events(Events),
    /// Write a config.json to begin with
    Spec(Spec),
    /// Print what this runtime can do
    Features,
    /// Refused: containers can't be checkpointed
    #[command(hide = true)]
    Checkpoint {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// Refused: containers can't be restored
    #[command(hide = true)]
    Restore {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    pub(crate) id: String,
    /// The folder of config.json
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub(crate) bundle: PathBuf,
    /// Send the terminal over this socket
    #[arg(long, value_name = "SOCKET")]
    pub(crate) console_socket: Option<PathBuf>,
    /// Send a descriptor of the process over this socket
    #[arg(long, value_name = "SOCKET")]
    pub(crate) pidfd_socket: Option<PathBuf>,
    /// Write the process id here
    #[arg(long, value_name = "FILE")]
    pub(crate) pid_file: Option<PathBuf>,
    /// Don't pivot: for a root on an initramfs. Less safe
    #[arg(long)]
    pub(crate) no_pivot: bool,
    /// Keep the caller's session keyring
    #[arg(long)]
    pub(crate) no_new_keyring: bool,
    /// Pass this many descriptors from 3 on to the container
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(crate) preserve_fds: u16,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) create: Create,
    /// Don't wait for it
    #[arg(short, long)]
    pub(crate) detach: bool,
    /// Keep the container's state when it has ended
    #[arg(long)]
    pub(crate) keep: bool,
    /// Don't take over processes that the container leaves behind
    #[arg(long)]
    pub(crate) no_subreaper: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Kill {
    pub(crate) id: String,
    /// Name or number
    #[arg(default_value = "SIGTERM", allow_hyphen_values = true)]
    pub(crate) signal: String,
    /// To every process of the container
    #[arg(short, long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// The container, then the program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "ID COMMAND")]
    pub(crate) words: Vec<String>,
    /// Send the terminal over this socket
    #[arg(long, value_name = "SOCKET")]
    pub(crate) console_socket: Option<PathBuf>,
    /// Send a descriptor of the process over this socket
    #[arg(long, value_name = "SOCKET")]
    pub(crate) pidfd_socket: Option<PathBuf>,
    /// Write the process id here
    #[arg(long, value_name = "FILE")]
    pub(crate) pid_file: Option<PathBuf>,
    /// The working directory
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<String>,
    /// A variable; may be given again
    #[arg(short, long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// With a terminal
    #[arg(short, long)]
    pub(crate) tty: bool,
    /// The user, as UID or UID:GID
    #[arg(short, long, value_name = "UID[:GID]")]
    pub(crate) user: Option<String>,
    /// One more group; may be given again
    #[arg(short = 'g', long, value_name = "GID")]
    pub(crate) additional_gids: Vec<u32>,
    /// Read the process from this file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) process: Option<PathBuf>,
    /// Don't wait for it
    #[arg(short, long)]
    pub(crate) detach: bool,
    /// The process's SELinux label
    #[arg(long, value_name = "LABEL")]
    pub(crate) process_label: Option<String>,
    /// The process's AppArmor profile
    #[arg(long, value_name = "PROFILE")]
    pub(crate) apparmor: Option<String>,
    /// It gains no privileges by exec
    #[arg(long)]
    pub(crate) no_new_privs: bool,
    /// One more capability; may be given again
    #[arg(short, long, value_name = "CAPABILITY")]
    pub(crate) cap: Vec<String>,
    /// Pass this many descriptors from 3 on
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(crate) preserve_fds: u16,
    /// A group below the container's
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<String>,
    /// Also in a paused container, where it will not run before that goes on
    #[arg(long)]
    pub(crate) ignore_paused: bool,
    /// Don't take over processes that it leaves behind
    #[arg(long)]
    pub(crate) no_subreaper: bool,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// table or json
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = FORMATS)]
    pub(crate) format: String,
    /// Names alone
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Ps {
    pub(crate) id: String,
    /// table or json
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = FORMATS)]
    pub(crate) format: String,
    /// Arguments of ps
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Update {
    pub(crate) id: String,
    /// Read the limits from this file, - for standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) resources: Option<PathBuf>,
    /// Bytes, or with k, m, g behind; -1 for none
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) memory: Option<String>,
    /// Bytes that are kept for it
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) memory_reservation: Option<String>,
    /// Bytes of memory and swap together
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) memory_swap: Option<String>,
    /// Microseconds
    #[arg(long)]
    pub(crate) cpu_period: Option<u64>,
    /// Microseconds in a period
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) cpu_quota: Option<i64>,
    /// Microseconds beyond the quota
    #[arg(long)]
    pub(crate) cpu_burst: Option<u64>,
    /// 2 to 262144
    #[arg(long, visible_alias = "cpu-share")]
    pub(crate) cpu_shares: Option<u64>,
    /// A list of CPUs
    #[arg(long)]
    pub(crate) cpuset_cpus: Option<String>,
    /// A list of memory nodes
    #[arg(long)]
    pub(crate) cpuset_mems: Option<String>,
    /// 1 for idle
    #[arg(long)]
    pub(crate) cpu_idle: Option<i64>,
    /// Processes and threads; -1 for no limit
    #[arg(long, allow_hyphen_values = true)]
    pub(crate) pids_limit: Option<i64>,
    /// 10 to 1000
    #[arg(long)]
    pub(crate) blkio_weight: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct Events {
    pub(crate) id: String,
    /// Seconds between two
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub(crate) interval: String,
    /// Once, and end
    #[arg(long)]
    pub(crate) stats: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Spec {
    /// The folder to write to
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub(crate) bundle: PathBuf,
    /// For an ordinary user
    #[arg(long)]
    pub(crate) rootless: bool,
}
