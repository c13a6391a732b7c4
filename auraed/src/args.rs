// SPDX-License-Identifier: Apache-2.0
//! The command line of `auraed`. The kernel gives PID 1 of a machine all words of its command line
//! that it didn't know itself; an unknown one must not keep a node from booting.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::Sources;

/// The Aurae daemon: init, supervisor and API of a node.
#[derive(Debug, Parser)]
#[command(name = "auraed", version, disable_help_subcommand = true, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) role: Option<Role>,
}

const EXAMPLES: &str = "Examples:
  auraed                                   be the init of this node (PID 1, or a service) and run the daemon
  auraed --set limits.cells=100            the same, with one value of the configuration changed
  auraed config                            print the effective configuration and where each value is from
  auraed credentials                       issue a new administrator's certificate, offline";

/// What every role takes.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Common {
    /// Read this configuration file instead of /etc/aurae/config.toml
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Set one value of the configuration; may be given again
    #[arg(long = "set", global = true, value_name = "KEY=VALUE")]
    pub(crate) assignments: Vec<String>,
    /// Keep state here instead of /var/lib/aurae
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) state_dir: Option<PathBuf>,
    /// Keep sockets here instead of /run/aurae
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) run_dir: Option<PathBuf>,
}

/// What to be.
#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// Be the node's init and run the daemon (the default)
    Init,
    /// Be the daemon; started by init, not by hand
    Serve {
        /// The inherited socket to init
        #[arg(long, value_name = "FD")]
        init_fd: i32,
    },
    /// Print the effective configuration and where each value is from
    Config {
        /// Print JSON
        #[arg(short = 'o', long = "output", value_name = "FORMAT", value_parser = ["text", "json"], default_value = "text")]
        output: String,
    },
    /// Unpack a layer of an image; started by the daemon, not by hand
    #[command(hide = true)]
    Unpack {
        /// The daemon's process id
        #[arg(long, value_name = "PID")]
        parent: i32,
        /// The cgroup to work in
        #[arg(long, value_name = "DIR")]
        group: PathBuf,
        /// What to unpack, as JSON
        options: String,
    },
    /// Start a plugin of CNI; started by the daemon, not by hand
    #[command(hide = true)]
    Plugin {
        /// The daemon's process id
        #[arg(long, value_name = "PID")]
        parent: i32,
        /// The cgroup to run it in
        #[arg(long, value_name = "DIR")]
        group: Option<PathBuf>,
        /// The plugin
        program: PathBuf,
    },
    /// Run a hook of a container; started by the daemon, not by hand
    #[command(hide = true)]
    Hook(crate::hooks::program::Options),
    /// Run a command of a crontab and mail what it writes; started by the daemon, not by hand
    #[command(hide = true)]
    Mailed(crate::mailed::Options),
    /// Be an OCI runtime: run the containers of bundles (`auraed oci --help`)
    #[command(disable_help_flag = true)]
    Oci {
        /// The runtime's own arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        words: Vec<std::ffi::OsString>,
    },
    /// Issue a new administrator's certificate with this node's CA, offline, so that root is never
    /// locked out
    Credentials,
}

impl Arguments {
    /// The arguments of the process. PID 1 of a machine ignores words that it doesn't know: they
    /// are the kernel's.
    pub(crate) fn read(machine: bool) -> Self {
        if !machine {
            return Self::parse();
        }
        Self::try_parse().unwrap_or_else(|_| Self {
            common: Common::default(),
            role: Some(Role::Init),
        })
    }
}

impl Common {
    /// Where the configuration is from, with the kernel's command line as this machine has it.
    pub(crate) fn sources(&self) -> Sources {
        let path = |key: &str, value: &Option<PathBuf>| {
            value
                .as_ref()
                .map(|v| format!("paths.{key}={}", toml_string(&v.to_string_lossy())))
        };
        let named = [path("state", &self.state_dir), path("run", &self.run_dir)];
        Sources {
            file: self.config.clone(),
            flags: self
                .assignments
                .iter()
                .cloned()
                .chain(named.into_iter().flatten())
                .collect(),
            kernel_command_line: std::fs::read_to_string("/proc/cmdline").unwrap_or_default(),
        }
    }

    /// The same flags again, for the daemon that init starts.
    pub(crate) fn to_words(&self) -> Vec<String> {
        let pair = |flag: &str, value: &Option<PathBuf>| {
            value
                .iter()
                .flat_map(|v| [flag.to_owned(), v.to_string_lossy().into_owned()])
                .collect()
        };
        let sets: Vec<String> = self
            .assignments
            .iter()
            .flat_map(|a| ["--set".to_owned(), a.clone()])
            .collect();
        [
            pair("--config", &self.config),
            pair("--state-dir", &self.state_dir),
            pair("--run-dir", &self.run_dir),
            sets,
        ]
        .concat()
    }
}

fn toml_string(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Arguments {
        Arguments::try_parse_from(std::iter::once(&"auraed").chain(words)).unwrap()
    }

    #[test]
    fn the_grammar_is_sound() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_daemon_gets_the_flags_that_init_got() {
        let words = [
            "--config",
            "/c",
            "--state-dir",
            "/s",
            "--run-dir",
            "/r",
            "--set",
            "a=b",
        ];
        assert_eq!(parse(&words).common.to_words(), words);
    }

    #[test]
    fn directories_are_configuration() {
        let sources = parse(&["--state-dir", "/srv/\"odd\" name"])
            .common
            .sources();
        assert_eq!(
            sources.load().unwrap().config.paths.state,
            PathBuf::from("/srv/\"odd\" name")
        );
    }
}
