// SPDX-License-Identifier: Apache-2.0
//! Options that every command has, and those of every program. No command is known here, so each
//! command may use it.

use std::path::PathBuf;
use std::time::Duration;

use crate::output::ColorChoice;
use crate::quantity::{parse_bytes, parse_duration};

/// Options of programs.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Options of programs")]
pub(crate) struct ProgramArgs {
    /// The folder that a program can't leave [default: the nearest with an aurae.json, else its
    /// own]
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Values of this cluster, JSON or YAML, laid over what the program gives to `values()`; `-` is
    /// standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) values: Option<PathBuf>,
    /// The most memory that a program may take
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) max_memory: Option<u64>,
}

/// Options of every command.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// A context's name, or an address: unix:///PATH or https://HOST:PORT
    #[arg(
        long,
        global = true,
        env = "AURAE_NODE",
        value_name = "CONTEXT|ADDRESS"
    )]
    pub(crate) node: Option<String>,
    /// The tenant whose objects are meant, instead of your own
    #[arg(long, global = true, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
    /// How long a call may take; with a program, the whole of it
    #[arg(long, global = true, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// When to use colour
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    pub(crate) color: ColorChoice,
}
