// SPDX-License-Identifier: Apache-2.0
//! Verbs that change links: enable, disable, mask, preset and their like; by the node, or with
//! `--root` (and `--global`, for users' units) by this program alone, as maintainer scripts need.

use std::path::Path;

use api::schedule::v0::{
    PresetUnitsRequest, SetDefaultUnitRequest, UnitFileChange, UnitFilesRequest, UnitPresetMode,
};
use units::install::Operation;
use units::name::UnitName;

use super::args::Options;
use super::jobs::{self, Job};
use super::state::counts_as_enabled;
use super::too_few;
use crate::failure::{FAILED, Failure};
use crate::output::{note, print_line, printable};
use crate::systemd::node::{Among, Node, whole};
use crate::systemd::tell;
use crate::systemd::unitfiles::{Change, Files};

/// The verbs of this file that a node does.
pub(super) const VERBS: [&str; 8] = [
    "enable",
    "disable",
    "reenable",
    "mask",
    "unmask",
    "preset",
    "preset-all",
    "set-default",
];

fn parts(mode: &str) -> Result<(bool, bool), Failure> {
    match mode {
        "full" => Ok((true, true)),
        "enable-only" => Ok((true, false)),
        "disable-only" => Ok((false, true)),
        other => Err(Failure::new(format!(
            "Failed to parse preset mode: {other}."
        ))),
    }
}

/// Done without a node, where that is asked for; `None`: it isn't.
pub(super) fn offline(
    options: &Options,
    verb: &str,
    words: &[String],
) -> Option<Result<u8, Failure>> {
    let asked = options.root.is_some() || std::env::var("SYSTEMD_OFFLINE").as_deref() == Ok("1");
    if !asked {
        return None;
    }
    let root = options.root.as_deref().unwrap_or(Path::new("/"));
    Some(below(options, root, verb, words))
}

fn below(options: &Options, root: &Path, verb: &str, words: &[String]) -> Result<u8, Failure> {
    let files = Files::read(root, options.global)?;
    let names = words
        .iter()
        .map(|it| parsed(it))
        .collect::<Result<Vec<_>, _>>()?;
    let (enables, disables) = parts(&options.preset_mode)?;
    let takes_none = matches!(verb, "preset-all" | "get-default" | "daemon-reload");
    if names.is_empty() && !takes_none {
        return Err(too_few(verb));
    }
    let changes = match verb {
        "enable" => vec![Change::Enable],
        "disable" => vec![Change::Disable],
        "reenable" => vec![Change::Disable, Change::Enable],
        "mask" => vec![Change::Mask],
        "unmask" => vec![Change::Unmask],
        "preset" | "preset-all" => vec![Change::Preset(enables, disables)],
        "set-default" => vec![Change::SetDefault],
        "is-enabled" => return is_enabled(&files, options.quiet, &names),
        "get-default" => {
            let target = files.default_target();
            let none = || Failure::new("Failed to get default target: No such file or directory");
            print_line(target.ok_or_else(none)?.as_str())?;
            return Ok(0);
        }
        // There is no daemon to tell.
        "daemon-reload" => return Ok(0),
        other => {
            return Err(Failure::new(format!(
                "--root= can't be used with {other}: it needs a running node."
            )));
        }
    };
    for (at, change) in changes.into_iter().enumerate() {
        let again;
        // What was done is seen by what follows.
        let files = match at {
            0 => &files,
            _ => {
                again = Files::read(root, options.global)?;
                &again
            }
        };
        for operation in files.change(change, &names, options.runtime)? {
            tell(options.quiet, &printable(&shown(&operation)));
        }
    }
    Ok(0)
}

fn parsed(word: &str) -> Result<UnitName, Failure> {
    let name = whole(word)?;
    UnitName::parse(&name).map_err(Failure::new)
}

fn is_enabled(files: &Files, quiet: bool, names: &[UnitName]) -> Result<u8, Failure> {
    let mut status = FAILED;
    for name in names {
        let Some(state) = files.state(name) else {
            note(&format!(
                "Failed to get unit file state for {name}: No such file or directory"
            ));
            return Ok(FAILED);
        };
        if counts_as_enabled(state.as_str()) {
            status = 0;
        }
        if !quiet {
            print_line(state.as_str())?;
        }
    }
    Ok(status)
}

fn shown(operation: &Operation) -> String {
    match operation {
        Operation::Link { path, target } => created(path, target),
        Operation::Unlink { path } => removed(path),
    }
}

fn created(path: &str, target: &str) -> String {
    format!("Created symlink {path} → {target}.")
}

fn removed(path: &str) -> String {
    format!("Removed \"{path}\".")
}

/// The same by the node; with `--now` units are started or stopped, too.
pub(super) async fn run(
    node: &Node,
    options: &Options,
    verb: &str,
    words: &[String],
) -> Result<u8, Failure> {
    if words.is_empty() && verb != "preset-all" {
        return Err(too_few(verb));
    }
    let names = node.named(words, Among::Files).await?;
    let mut changes = Vec::new();
    if verb == "reenable" {
        changes.extend(changed(node, options, "disable", &names).await?);
        changes.extend(changed(node, options, "enable", &names).await?);
    } else {
        changes.extend(changed(node, options, verb, &names).await?);
    }
    for change in &changes {
        let words = match change.target.as_str() {
            "" => removed(&change.path),
            target => created(&change.path, target),
        };
        tell(options.quiet, &printable(&words));
    }
    if matches!(verb, "enable" | "reenable") && changes.is_empty() {
        warn_of_no_install(node, options, &names).await?;
    }
    let job = match verb {
        "enable" | "reenable" => Job::Start,
        "disable" | "mask" => Job::Stop,
        _ => return Ok(0),
    };
    match options.now {
        true => jobs::run(node, options, job, &names).await,
        false => Ok(0),
    }
}

async fn changed(
    node: &Node,
    options: &Options,
    verb: &str,
    names: &[String],
) -> Result<Vec<UnitFileChange>, Failure> {
    let (enables, disables) = parts(&options.preset_mode)?;
    let request = UnitFilesRequest {
        names: names.to_vec(),
        runtime: options.runtime,
    };
    let session = &node.session.node;
    let mut client = node.units();
    let answer = match verb {
        "enable" => client.enable_units(session.unary(request)).await,
        "disable" => client.disable_units(session.unary(request)).await,
        "mask" => client.mask_units(session.unary(request)).await,
        "unmask" => client.unmask_units(session.unary(request)).await,
        "set-default" => {
            let [name] = names else {
                return Err(Failure::new("set-default takes one target."));
            };
            let name = name.strip_suffix(".service").map_or(name.clone(), |stem| {
                // A word without a type means a target here.
                format!("{stem}.target")
            });
            let request = SetDefaultUnitRequest { name };
            client.set_default_unit(session.unary(request)).await
        }
        _ => {
            let mode = match (enables, disables) {
                (true, false) => UnitPresetMode::EnableOnly,
                (false, true) => UnitPresetMode::DisableOnly,
                _ => UnitPresetMode::Full,
            };
            let request = PresetUnitsRequest {
                names: names.to_vec(),
                runtime: options.runtime,
                mode: mode.into(),
            };
            client.preset_units(session.unary(request)).await
        }
    };
    let failed = |status| {
        let failure = Failure::from(client::Error::from(status));
        let list = names.join(", ");
        Failure::new(format!(
            "Failed to {verb} unit {list}: {}",
            failure.message()
        ))
    };
    Ok(answer.map_err(failed)?.into_inner().changes)
}

/// systemctl says so where nothing could be enabled because nothing says how.
async fn warn_of_no_install(
    node: &Node,
    options: &Options,
    names: &[String],
) -> Result<(), Failure> {
    for name in names {
        let status = node.get(name).await?.and_then(|it| it.status);
        if status.is_some_and(|it| it.file_state == "static") && !options.no_warn {
            tell(
                options.quiet,
                "The unit files have no installation config (WantedBy=, RequiredBy=, Also=,\n\
                 Alias= settings in the [Install] section, and DefaultInstance= for template\n\
                 units). This means they are not meant to be enabled or disabled using systemctl.",
            );
            return Ok(());
        }
    }
    Ok(())
}
