// SPDX-License-Identifier: Apache-2.0
//! `systemctl`: which verb is done where. The grammar is in `args`, each group of verbs in a file.

mod args;
mod depend;
mod files;
mod jobs;
mod list;
mod properties;
mod show;
mod state;
mod status;

use std::ffi::OsString;

use super::node::Node;
use super::{parse, power, refused};
use crate::failure::Failure;
use crate::output::{print, print_line};
use args::Options;
pub(super) use jobs::wait;

/// Runs a verb of `systemctl`, such as `start`; the exit status.
pub(super) async fn run(words: &[OsString]) -> Result<u8, Failure> {
    let options: Options = parse(words)?;
    options.check()?;
    let (verb, rest) = match options.words.split_first() {
        Some((verb, rest)) => (verb.as_str(), rest.to_vec()),
        None => ("list-units", Vec::new()),
    };
    if let Some(done) = files::offline(&options, verb, &rest) {
        return done;
    }
    if let Some(refusal) = never(verb) {
        return Err(refusal);
    }
    let node = Node::connect().await?;
    let (options, rest) = (&options, rest.as_slice());
    if let Some(job) = jobs::Job::of(verb) {
        return jobs::run(&node, options, job, rest).await;
    }
    if files::VERBS.contains(&verb) {
        return files::run(&node, options, verb, rest).await;
    }
    match verb {
        "list-units" => list::units(&node, options, rest).await,
        "list-unit-files" => list::files(&node, options, rest).await,
        "list-timers" => list::timers(&node, options, rest).await,
        "list-sockets" => list::sockets(&node, options, rest).await,
        "list-jobs" => list::jobs(&node, options, rest).await,
        "list-dependencies" => depend::run(&node, options, rest).await,
        "status" => status::run(&node, options, rest).await,
        "show" => show::run(&node, options, rest).await,
        "cat" => cat(&node, rest).await,
        "is-active" => state::active(&node, options, rest).await,
        "is-failed" => state::failed(&node, options, rest).await,
        "is-enabled" => state::enabled(&node, options, rest).await,
        "is-system-running" => state::system(&node, options).await,
        "get-default" => state::default_target(&node).await,
        "kill" => jobs::kill(&node, options, rest).await,
        "reset-failed" => jobs::reset_failed(&node, rest).await,
        "isolate" => jobs::isolate(&node, options, rest).await,
        "default" | "rescue" | "emergency" => {
            let target = [format!("{verb}.target")];
            jobs::isolate(&node, options, &target).await
        }
        "daemon-reload" => jobs::daemon_reload(&node).await,
        // There is nothing to execute again: the daemon is changed by its own package.
        "daemon-reexec" => jobs::daemon_reload(&node).await,
        "halt" | "poweroff" | "reboot" => power::systemctl(&node, verb, options.force).await,
        other => Err(Failure::new(format!("Unknown command verb {other}."))),
    }
}

/// Verbs of systemctl's that are refused, each with the reason.
fn never(verb: &str) -> Option<Failure> {
    let why = match verb {
        "edit" => "edit: write a file into /etc/systemd/system/UNIT.d/, then daemon-reload. It",
        "set-property" => "set-property: write a drop-in file, then restart the unit. It",
        "set-environment" | "unset-environment" | "import-environment" | "show-environment" => {
            "The environment of the manager: units say Environment=. It"
        }
        "link" | "revert" | "add-wants" | "add-requires" => {
            return Some(refused(&format!("{verb}: make the link by hand. It")));
        }
        "cancel" => "cancel: stop the unit. It",
        "clean"
        | "freeze"
        | "thaw"
        | "bind"
        | "mount-image"
        | "help"
        | "list-automounts"
        | "list-machines"
        | "service-log-level"
        | "service-log-target"
        | "log-level"
        | "log-target"
        | "service-watchdogs"
        | "kexec"
        | "exit"
        | "switch-root"
        | "suspend"
        | "hibernate"
        | "hybrid-sleep"
        | "suspend-then-hibernate" => {
            return Some(refused(verb));
        }
        _ => return None,
    };
    Some(refused(why))
}

/// Shows the files of units.
async fn cat(node: &Node, words: &[String]) -> Result<u8, Failure> {
    if words.is_empty() {
        return Err(too_few("cat"));
    }
    let mut status = 0;
    let mut first = true;
    for name in node.named(words, false).await? {
        let Some(detail) = node.get(&name).await? else {
            crate::output::note(&format!("No files found for {name}."));
            status = 1;
            continue;
        };
        for file in detail.files {
            if !std::mem::take(&mut first) {
                print_line("")?;
            }
            print_line(&format!("# {}", file.path))?;
            print(&file.text)?;
        }
    }
    Ok(status)
}

fn too_few(verb: &str) -> Failure {
    Failure::new(format!("Too few arguments for {verb}."))
}

/// What follows a noun of that number.
fn plural(count: usize) -> &'static str {
    match count {
        1 => "",
        _ => "s",
    }
}
