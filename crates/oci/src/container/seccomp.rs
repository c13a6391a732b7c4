// SPDX-License-Identifier: Apache-2.0
//! `linux.seccomp`, as the document that `kernel::seccomp` compiles. Pure.

use kernel::seccomp::document::{Argument, Document, Entry};

pub(crate) use kernel::seccomp::document::Compiled as Filter;
pub(crate) use kernel::seccomp::document::{ACTIONS, ARCHITECTURES, FLAGS, OPERATORS};

use crate::config::linux::{Seccomp, SeccompArgument, SeccompRule};
use crate::error::{Doing, Error, Result};

/// Compiles what the configuration says.
pub(crate) fn compile(seccomp: &Seccomp) -> Result<Filter> {
    let filter = document(seccomp).compile(|_| Vec::new());
    let filter = filter
        .map_err(|error| Error::new(error.to_string()))
        .doing("linux.seccomp")?;
    say(&filter);
    Ok(filter)
}

fn document(seccomp: &Seccomp) -> Document {
    Document {
        default_action: seccomp.default_action.clone(),
        default_errno: seccomp.default_errno_ret,
        architectures: seccomp.architectures.clone(),
        flags: seccomp.flags.clone(),
        has_listener: !seccomp.listener_path.is_empty(),
        entries: seccomp.syscalls.iter().map(entry).collect(),
    }
}

fn entry(rule: &SeccompRule) -> Entry {
    Entry {
        names: rule.names.clone(),
        action: rule.action.clone(),
        errno: rule.errno_ret,
        arguments: rule.args.iter().map(argument).collect(),
    }
}

fn argument(argument: &SeccompArgument) -> Argument {
    Argument {
        index: argument.index,
        value: argument.value,
        value_two: argument.value_two,
        operator: argument.op.clone(),
    }
}

/// Says the flags, as numbers of seccomp(2), where more is to be logged.
fn say(filter: &Filter) {
    let options = filter.options;
    let flags = u32::from(options.log) << 1
        | u32::from(options.allow_speculation) << 2
        | u32::from(options.listener) << 3
        | u32::from(options.wait_killable) << 5;
    crate::log::debug(format!("seccomp filter flags: {flags}"));
}

#[cfg(test)]
#[path = "seccomp_tests.rs"]
mod tests;
