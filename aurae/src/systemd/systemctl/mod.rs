// SPDX-License-Identifier: Apache-2.0
//! `systemctl`: which verb is done where. The grammar is in `args`, each group of verbs in a file.

mod args;
mod depend;
mod environment;
mod files;
mod jobs;
mod list;
mod properties;
mod property;
mod show;
mod state;
mod status;
mod values;

use std::ffi::OsString;

use super::node::{Among, Node};
use super::{Name, apart, left, parse, power, refused};
use crate::failure::Failure;
use crate::output::{print, print_line};
use args::Options;
pub(super) use jobs::{ended, wait};

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
    if options.dry_run {
        return dry(verb);
    }
    if let Some(refusal) = never(verb) {
        return Err(refusal);
    }
    jobs::may_be_marked(&options, verb, &rest)?;
    let node = Node::connect().await?;
    let (options, rest) = (&options, rest.as_slice());
    if let Some(job) = jobs::Job::of(verb) {
        return jobs::run(&node, options, job, rest).await;
    }
    if environment::VERBS.contains(&verb) {
        return environment::run(&node, options, verb, rest).await;
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
        "set-property" => property::set(&node, options, rest).await,
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
        "link" | "revert" | "add-wants" | "add-requires" => {
            by_original(&node, options, verb, words).await
        }
        other => {
            let words = format!("Unknown command verb {other}.");
            Err(Failure::new(words).or_by_original())
        }
    }
}

/// Verbs of systemctl's that are not done here, each with the reason: the original does them, where
/// it is there and the node's interface on the bus has what it asks for.
fn never(verb: &str) -> Option<Failure> {
    let why = match verb {
        "edit" => "edit: write a file into /etc/systemd/system/UNIT.d/, then daemon-reload. It",
        "cancel" => "cancel: stop the unit. It",
        "clean" | "freeze" | "thaw" | "bind" | "mount-image" | "help" | "list-automounts"
        | "list-machines" | "service-log-level" | "service-log-target" | "log-level"
        | "log-target" => verb,
        "kexec"
        | "exit"
        | "switch-root"
        | "suspend"
        | "hibernate"
        | "hybrid-sleep"
        | "suspend-then-hibernate" => return Some(refused(verb)),
        _ => return None,
    };
    Some(left(why))
}

/// Ends of the machine, and targets, that `--dry-run` does nothing for.
fn dry(verb: &str) -> Result<u8, Failure> {
    let known = [
        "halt",
        "poweroff",
        "reboot",
        "default",
        "rescue",
        "emergency",
        "kexec",
        "exit",
        "suspend",
        "hibernate",
        "hybrid-sleep",
        "suspend-then-hibernate",
    ];
    match known.contains(&verb) {
        true => Ok(0),
        false => Err(Failure::new(format!(
            "--dry-run has no meaning for {verb}."
        ))),
    }
}

/// The original changes links of units without a manager; the node reads them then.
async fn by_original(
    node: &Node,
    options: &Options,
    verb: &str,
    words: &[OsString],
) -> Result<u8, Failure> {
    let Some(path) = apart::path(Name::Systemctl) else {
        return Err(refused(&format!("{verb}: make the link by hand. It")));
    };
    let mut original = std::process::Command::new(&path);
    original
        .env("SYSTEMD_OFFLINE", "1")
        .args(words.iter().skip(1));
    let ended = original.status();
    let ended = ended.map_err(|problem| Failure::new(format!("{}: {problem}", path.display())))?;
    match ended.success() {
        true if options.no_reload => Ok(0),
        true => jobs::daemon_reload(node).await,
        false => Ok(crate::failure::FAILED),
    }
}

/// Shows the files of units.
async fn cat(node: &Node, words: &[String]) -> Result<u8, Failure> {
    if words.is_empty() {
        return Err(too_few("cat"));
    }
    let mut status = 0;
    let mut first = true;
    for name in node.named(words, Among::Up).await? {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What the bus has no method for is refused here; the rest is the original's.
    #[test]
    fn a_verb_is_refused_or_left_to_the_original() {
        let by_original = |verb: &str| never(verb).map(|it| it.is_for_original());
        for verb in ["edit", "cancel", "log-level", "freeze"] {
            assert_eq!(by_original(verb), Some(true), "{verb}");
        }
        assert_eq!(by_original("kexec"), Some(false));
        assert_eq!(by_original("start"), None);
        assert_eq!(by_original("show-environment"), None);
        let unknown = parse::<Options>(&["systemctl", "--image"].map(OsString::from));
        assert!(unknown.unwrap_err().is_for_original());
        let wrong = parse::<Options>(&["systemctl", "-n", "many"].map(OsString::from));
        assert!(!wrong.unwrap_err().is_for_original());
    }

    #[test]
    fn a_dry_run_does_nothing() {
        assert_eq!(dry("poweroff").unwrap(), 0);
        assert!(dry("start").is_err());
    }

    #[test]
    fn a_legend_is_switched_off_by_either_word() {
        let has = |word: &str| {
            let words = ["systemctl", word].map(OsString::from);
            parse::<Options>(&words).unwrap().has_legend()
        };
        assert!(has("--legend=yes") && has("--plain"));
        assert!(!has("--legend=no") && !has("--no-legend"));
    }
}
