// SPDX-License-Identifier: Apache-2.0
//! What each command does.

mod exec;
mod features;
mod inspect;
mod lifecycle;
mod spec;
mod update;

use std::path::PathBuf;
use std::process::ExitCode;

use kernel::process;

use crate::args::{Arguments, Command, Global};
use crate::cgroup::is_root_of_node;
use crate::container::state::{Folder, Record};
use crate::error::{Result, refuse};

/// The version of the specification that this is written after.
pub(crate) const SPECIFICATION: &str = "1.2.1";

/// Whether the command makes a process of a container.
pub(crate) fn clones(command: &Command) -> bool {
    matches!(
        command,
        Command::Create(_) | Command::Run(_) | Command::Exec(_)
    )
}

/// How many descriptors from 3 on are the container's.
pub(crate) fn preserves(command: &Command) -> i32 {
    let count = match command {
        Command::Create(create) => create.preserve_fds,
        Command::Run(run) => run.create.preserve_fds,
        Command::Exec(exec) => exec.preserve_fds,
        _ => 0,
    };
    i32::from(count)
}

/// Runs it, as the runtime of this name.
pub(crate) fn run(name: &str, arguments: Arguments) -> Result<ExitCode> {
    let Arguments { global, command } = arguments;
    if global.version {
        // Three lines, as engines read them; a release is the commit of its tag.
        let version = env!("CARGO_PKG_VERSION");
        println!("{name} version {version} (Aurae)\ncommit: v{version}\nspec: {SPECIFICATION}");
        return Ok(ExitCode::SUCCESS);
    }
    let Some(command) = command else {
        return refuse("no command was given (try --help)");
    };
    let root = root(&global)?;
    match command {
        Command::Create(create) => lifecycle::create(&global, &root, &create)?,
        Command::Start { id } => lifecycle::start(&root, &id)?,
        Command::Run(run) => return lifecycle::run(&global, &root, &run),
        Command::Kill(kill) => lifecycle::kill(&root, &kill)?,
        Command::Delete { id, force } => lifecycle::delete(&root, &id, force)?,
        Command::Exec(exec) => {
            // Apart from what the program itself could answer.
            return exec::run(&root, &exec).or_else(|error| {
                crate::log::error(&error.to_string());
                Ok(ExitCode::from(255))
            });
        }
        Command::State { id } => inspect::state(&root, &id)?,
        Command::List(list) => inspect::list(&root, global.root.is_some(), &list)?,
        Command::Ps(ps) => inspect::ps(&root, &ps)?,
        Command::Events(events) => inspect::events(&root, &events)?,
        Command::Pause { id } => lifecycle::freeze(&root, &id, true)?,
        Command::Resume { id } => lifecycle::freeze(&root, &id, false)?,
        Command::Update(update) => update::run(&root, &update)?,
        Command::Spec(spec) => spec::run(&spec)?,
        Command::Features => features::print()?,
        Command::Checkpoint { .. } => return refuse("checkpoint: not supported"),
        Command::Restore { .. } => return refuse("restore: not supported"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Where states are kept.
fn root(global: &Global) -> Result<PathBuf> {
    let rootless = match global.rootless.as_str() {
        "true" => true,
        "false" => false,
        "auto" => !is_root_of_node(),
        other => {
            return refuse(format!(
                "--rootless: {other:?} is none of true, false, auto"
            ));
        }
    };
    if let Some(root) = &global.root {
        return match root.is_absolute() {
            true => Ok(root.clone()),
            false => Ok(std::env::current_dir().unwrap_or_default().join(root)),
        };
    }
    let own = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    Ok(match (rootless, own) {
        (true, Some(own)) => PathBuf::from(own).join("aurae/oci"),
        (true, None) => PathBuf::from(format!("/tmp/aurae-oci-{}", process::effective_uid())),
        (false, _) => PathBuf::from("/run/aurae/oci"),
    })
}

/// A container that is there.
fn load(root: &std::path::Path, id: &str) -> Result<(Folder, Record)> {
    let folder = Folder::open(root, id)?;
    let record = folder.load()?;
    Ok((folder, record))
}
