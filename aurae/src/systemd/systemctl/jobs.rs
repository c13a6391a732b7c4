// SPDX-License-Identifier: Apache-2.0
//! Verbs that change what runs: start, stop and their like, kill, reset-failed, isolate. Messages
//! and exit statuses are systemctl's (systemctl(1), "Exit status").

use std::time::Duration;

use api::schedule::v0::{
    KillUnitRequest, ReloadUnitFilesRequest, ResetFailedUnitsRequest, UnitJob, UnitJobMode,
    UnitJobRequest, UnitKillWhom,
};

use super::args::Options;
use super::too_few;
use crate::failure::{FAILED, Failure};
use crate::output::{note, printable};
use crate::session::is_not_found;
use crate::systemd::node::{Among, LONGEST, Node};
use crate::systemd::tell;

/// systemctl's exit status where a unit isn't there.
const NOT_INSTALLED: u8 = 5;
/// Between two looks at a unit whose end is waited for.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LAST_LOOK: Duration = Duration::from_secs(1);

/// What is done to units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Job {
    Start,
    Stop,
    Restart,
    TryRestart,
    Reload,
    ReloadOrRestart,
    TryReloadOrRestart,
}

impl Job {
    pub(super) fn of(verb: &str) -> Option<Job> {
        Some(match verb {
            "start" => Job::Start,
            "stop" => Job::Stop,
            "restart" => Job::Restart,
            // `condrestart` and `force-reload` are older names: systemctl(1).
            "try-restart" | "condrestart" => Job::TryRestart,
            "reload" => Job::Reload,
            "reload-or-restart" => Job::ReloadOrRestart,
            "try-reload-or-restart" | "reload-or-try-restart" | "condreload" | "force-reload" => {
                Job::TryReloadOrRestart
            }
            _ => return None,
        })
    }

    /// As in `Failed to start …`.
    fn word(self) -> &'static str {
        match self {
            Job::Start => "start",
            Job::Stop => "stop",
            Job::Restart | Job::TryRestart => "restart",
            Job::Reload => "reload",
            Job::ReloadOrRestart | Job::TryReloadOrRestart => "reload or restart",
        }
    }
}

fn mode(options: &Options) -> Result<UnitJobMode, Failure> {
    Ok(match options.job_mode.as_str() {
        _ if options.fail => UnitJobMode::Fail,
        "replace" => UnitJobMode::Replace,
        "replace-irreversibly" => UnitJobMode::ReplaceIrreversibly,
        "flush" => UnitJobMode::Flush,
        "fail" => UnitJobMode::Fail,
        "isolate" => UnitJobMode::Isolate,
        "ignore-dependencies" => UnitJobMode::IgnoreDependencies,
        "ignore-requirements" => UnitJobMode::IgnoreRequirements,
        other => return Err(Failure::new(format!("Unknown job mode: {other}"))),
    })
}

/// Refuses `--marked` where it has no meaning (systemctl(1)).
pub(super) fn may_be_marked(
    options: &Options,
    verb: &str,
    words: &[String],
) -> Result<(), Failure> {
    match (options.marked, verb, words) {
        (false, ..) | (true, "reload-or-restart", []) => Ok(()),
        (true, "reload-or-restart", _) => Err(Failure::new(format!(
            "No additional arguments allowed with '{verb} --marked'."
        ))),
        _ => Err(Failure::new(
            "--marked may only be used with 'reload-or-restart'.",
        )),
    }
}

/// What is done to a unit by its marks.
fn by_marks(markers: &[String]) -> Option<Job> {
    let has = |mark: &str| markers.iter().any(|it| it == mark);
    match (has("needs-restart"), has("needs-reload")) {
        (true, _) => Some(Job::TryRestart),
        (false, true) => Some(Job::TryReloadOrRestart),
        (false, false) => None,
    }
}

/// Restarts or reloads the units that are marked.
async fn marked(node: &Node, options: &Options) -> Result<u8, Failure> {
    let units = node.list(false).await?.into_iter();
    let marked = units.filter_map(|it| Some((by_marks(&it.markers)?, it.name)));
    at_once(node, options, UnitJobMode::Fail, marked.collect()).await
}

/// Does what is to be done to each unit, all at once; the highest exit status.
async fn at_once(
    node: &Node,
    options: &Options,
    mode: UnitJobMode,
    all: Vec<(Job, String)>,
) -> Result<u8, Failure> {
    let asked = all
        .iter()
        .map(|(job, name)| one(node, options, *job, mode, name));
    let done = futures_util::future::join_all(asked).await;
    let mut status = 0;
    for ((_, name), done) in all.iter().zip(done) {
        let told = match done {
            Ok(Some(done)) => ended(name, &done, options.quiet),
            Ok(None) => 0,
            Err(failure) => {
                failure.report_plainly();
                failure.status
            }
        };
        status = status.max(told);
    }
    Ok(status)
}

/// Does it to all of them.
pub(super) async fn run(
    node: &Node,
    options: &Options,
    job: Job,
    words: &[String],
) -> Result<u8, Failure> {
    if options.marked {
        return marked(node, options).await;
    }
    if words.is_empty() {
        return Err(too_few(job.word()));
    }
    let names = node.named(words, options.among()).await?;
    let all = names.iter().map(|name| (job, name.clone())).collect();
    let mut status = at_once(node, options, mode(options)?, all).await?;
    if job == Job::Stop && !options.quiet {
        for name in &names {
            warn_of_triggers(node, name).await?;
        }
    }
    let stays = matches!(job, Job::Start | Job::Restart);
    if options.wait && stays && !options.no_block && status == 0 {
        for name in &names {
            status = status.max(wait(node, name).await?);
        }
    }
    Ok(status)
}

/// Says which units that are up may start again what was stopped.
async fn warn_of_triggers(node: &Node, name: &str) -> Result<(), Failure> {
    let Some(detail) = node.get(name).await? else {
        return Ok(());
    };
    let by = detail.dependencies.into_iter();
    let by = by.filter(|it| it.kind == "TriggeredBy");
    let mut up = Vec::new();
    for unit in by.flat_map(|it| it.units) {
        let status = node.get(&unit).await?.and_then(|it| it.status);
        if status.is_some_and(|it| it.active == "active") {
            up.push(unit);
        }
    }
    if !up.is_empty() {
        let name = printable(name);
        note(&format!(
            "Warning: Stopping {name}, but it can still be activated by:"
        ));
        for unit in up {
            note(&format!("  {}", printable(&unit)));
        }
    }
    Ok(())
}

/// A job on one unit; `None`: there was nothing to do.
async fn one(
    node: &Node,
    options: &Options,
    job: Job,
    mode: UnitJobMode,
    name: &str,
) -> Result<Option<UnitJob>, Failure> {
    if job == Job::TryReloadOrRestart {
        let status = node.get(name).await?.and_then(|it| it.status);
        let is_up = status.is_some_and(|it| matches!(it.active.as_str(), "active" | "reloading"));
        if !is_up {
            return Ok(None);
        }
    }
    let request = UnitJobRequest {
        name: name.to_owned(),
        mode: mode.into(),
        no_wait: options.no_block,
        conditional: !matches!(job, Job::Start | Job::Stop | Job::Restart | Job::Reload),
    };
    let request = node.session.node.within(request, LONGEST);
    let mut client = node.units();
    let answer = match job {
        Job::Start => client.start_unit(request).await,
        Job::Stop => client.stop_unit(request).await,
        Job::Restart | Job::TryRestart => client.restart_unit(request).await,
        Job::Reload | Job::ReloadOrRestart | Job::TryReloadOrRestart => {
            client.reload_unit(request).await
        }
    };
    let answer = answer.map(|it| Some(it.into_inner()));
    answer.map_err(|status| refusal(job.word(), name, client::Error::from(status)))
}

/// A refusal in systemctl's words.
fn refusal(word: &str, name: &str, error: client::Error) -> Failure {
    if is_not_found(&error) {
        let words = format!("Failed to {word} {name}: Unit {name} not found.");
        return Failure::new(words).with_status(NOT_INSTALLED);
    }
    let failure = Failure::from(error);
    let words = format!("Failed to {word} {name}: {}", failure.message());
    Failure::new(words).with_status(FAILED)
}

/// Tells how a job ended; the exit status.
pub(in crate::systemd) fn ended(name: &str, job: &UnitJob, quiet: bool) -> u8 {
    for words in &job.notes {
        tell(quiet, &printable(words));
    }
    let unit = job.unit.clone().unwrap_or_default();
    let see =
        format!("See \"systemctl status {name}\" and \"journalctl -xeu {name}\" for details.");
    let why = match job.result.as_str() {
        "" | "done" | "skipped" => return 0,
        "dependency" => {
            let words = "A dependency job for NAME failed. See 'journalctl -xe' for details.";
            tell(quiet, &words.replace("NAME", name));
            return FAILED;
        }
        "canceled" => "canceled.".to_owned(),
        "timeout" => "timed out.".to_owned(),
        _ => match unit.result.as_str() {
            "exit-code" => "failed because the control process exited with error code.".to_owned(),
            "signal" => {
                "failed because a fatal signal was delivered to the control process.".into()
            }
            "timeout" => "failed because a timeout was exceeded.".to_owned(),
            "watchdog" => "failed because the service's watchdog ended it.".to_owned(),
            "start-limit-hit" => "failed: start of the service was attempted too often.".to_owned(),
            "resources" => format!("failed: {}", printable(&unit.message)),
            other => format!("failed: {other}. {}", printable(&unit.message)),
        },
    };
    tell(quiet, &format!("Job for {name} {}\n{see}", why.trim_end()));
    FAILED
}

/// Waits until a unit is down again (`--wait`); 1 where it failed.
pub(in crate::systemd) async fn wait(node: &Node, name: &str) -> Result<u8, Failure> {
    let mut pause = FIRST_LOOK;
    loop {
        let Some(status) = node.get(name).await?.and_then(|it| it.status) else {
            return Ok(0);
        };
        match status.active.as_str() {
            "inactive" if status.job_id == 0 => return Ok(0),
            "failed" => return Ok(FAILED),
            _ => {}
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LAST_LOOK);
    }
}

/// Starts a target and stops all that it doesn't need.
pub(super) async fn isolate(
    node: &Node,
    options: &Options,
    words: &[String],
) -> Result<u8, Failure> {
    let [word] = words else {
        return Err(Failure::new("isolate takes one unit."));
    };
    let isolated = Options {
        job_mode: "isolate".to_owned(),
        fail: false,
        ..options.clone()
    };
    let word = match word.contains('.') {
        true => word.clone(),
        false => format!("{word}.target"),
    };
    run(node, &isolated, Job::Start, &[word]).await
}

/// Sends a signal.
pub(super) async fn kill(node: &Node, options: &Options, words: &[String]) -> Result<u8, Failure> {
    if words.is_empty() {
        return Err(too_few("kill"));
    }
    let whom = match options.kill_whom.as_str() {
        "all" | "all-fail" => UnitKillWhom::All,
        "main" | "main-fail" => UnitKillWhom::Main,
        "control" | "control-fail" => UnitKillWhom::Control,
        other => return Err(Failure::new(format!("Unknown --kill-whom= value: {other}"))),
    };
    let mut status = 0;
    for name in node.named(words, options.among()).await? {
        let request = KillUnitRequest {
            name: name.clone(),
            signal: options.signal.clone(),
            main_only: false,
            whom: whom.into(),
        };
        let request = node.session.node.unary(request);
        if let Err(problem) = node.units().kill_unit(request).await {
            let failure = refusal("kill unit", &name, client::Error::from(problem));
            failure.report_plainly();
            status = FAILED;
        }
    }
    Ok(status)
}

/// Forgets failures.
pub(super) async fn reset_failed(node: &Node, words: &[String]) -> Result<u8, Failure> {
    let names = node.named(words, Among::Up).await?;
    if names.is_empty() && !words.is_empty() {
        return Ok(0);
    }
    for name in &names {
        if node.get(name).await?.is_none() {
            note(&format!(
                "Failed to reset failed state of unit {name}: Unit {name} not loaded."
            ));
            return Ok(FAILED);
        }
    }
    let request = node.session.node.unary(ResetFailedUnitsRequest { names });
    node.units().reset_failed_units(request).await?;
    Ok(0)
}

/// Reads all unit files again.
pub(super) async fn daemon_reload(node: &Node) -> Result<u8, Failure> {
    let request = node.session.node.within(ReloadUnitFilesRequest {}, LONGEST);
    node.units().reload_unit_files(request).await?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_have_older_names() {
        assert_eq!(Job::of("condrestart"), Some(Job::TryRestart));
        assert_eq!(Job::of("force-reload"), Some(Job::TryReloadOrRestart));
        assert_eq!(Job::of("status"), None);
    }

    #[test]
    fn marks_say_what_is_done() {
        let of =
            |marks: &[&str]| by_marks(&marks.iter().map(|it| (*it).into()).collect::<Vec<_>>());
        assert_eq!(
            of(&["needs-reload", "needs-restart"]),
            Some(Job::TryRestart)
        );
        assert_eq!(of(&["needs-reload"]), Some(Job::TryReloadOrRestart));
        assert_eq!(of(&[]), None);
        use clap::Parser;
        let options = Options::parse_from(["systemctl", "--marked"]);
        let unit = ["a".to_owned()];
        assert!(may_be_marked(&options, "reload-or-restart", &[]).is_ok());
        assert!(may_be_marked(&options, "reload-or-restart", &unit).is_err());
        assert!(may_be_marked(&options, "restart", &[]).is_err());
    }

    #[test]
    fn only_a_job_that_failed_fails_the_command() {
        let job = |result: &str| UnitJob {
            result: result.to_owned(),
            ..Default::default()
        };
        for well in ["", "done", "skipped"] {
            assert_eq!(ended("a.service", &job(well), true), 0, "{well}");
        }
        for badly in ["failed", "dependency", "canceled", "timeout"] {
            assert_eq!(ended("a.service", &job(badly), true), FAILED, "{badly}");
        }
    }
}
