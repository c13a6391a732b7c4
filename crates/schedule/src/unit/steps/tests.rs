// SPDX-License-Identifier: Apache-2.0
//! Stories of services as tables: what happens, and what follows; by systemd.service(5).

use units::calendar::zones::UtcOnly;
use units::finding::Severity;
use units::name::UnitName;
use units::service::{Defaults, Service};
use units::specifier::NoHost;
use units::unit::{Unit, from_texts};

use super::service::{Effect, Event, Rules, Said, State, Sub, advance};
use super::{Commands, End, Outcome, Phase, Role, Step};

const SECOND: u64 = 1_000_000_000;

fn unit(text: &str) -> Unit {
    let name = UnitName::parse("a.service").unwrap();
    let text = format!("[Service]\n{text}");
    from_texts(&name, &[("/x", text.as_bytes())], &NoHost, &UtcOnly)
}

/// A service that things happen to.
struct Story {
    service: Service,
    commands: Commands,
    state: State,
    now: u64,
}

fn at(phase: Phase, index: usize) -> Step {
    Step {
        phase,
        index,
        round: 0,
    }
}

fn run(phase: Phase) -> Effect {
    let role = match phase {
        Phase::Start => Role::Main,
        _ => Role::Control,
    };
    Effect::Run(at(phase, 0), role)
}

impl Story {
    fn of(text: &str) -> Story {
        let unit = unit(text);
        let (service, findings) = Service::of(&unit, Defaults::default());
        let refused = findings.iter().any(|it| it.severity == Severity::Error);
        assert!(!refused, "{findings:?}");
        Story {
            service,
            commands: Commands::of(&unit),
            state: State::default(),
            now: SECOND,
        }
    }

    fn happens(&mut self, event: Event) -> Vec<Effect> {
        let rules = Rules {
            service: &self.service,
            commands: &self.commands,
        };
        // What is known is kept as text between daemons.
        let kept = serde_json::to_vec(&self.state).unwrap();
        self.state = serde_json::from_slice(&kept).unwrap();
        advance(rules, &mut self.state, event, self.now)
    }

    fn ends(&mut self, phase: Phase, code: u8) -> Vec<Effect> {
        self.happens(Event::Ended(at(phase, 0), End::Exited(code)))
    }

    fn begins(&mut self, phase: Phase) -> Vec<Effect> {
        self.happens(Event::Began(at(phase, 0)))
    }

    fn after(&mut self, seconds: u64) -> Vec<Effect> {
        self.now += seconds * SECOND;
        self.happens(Event::Time)
    }

    fn is(&self) -> (&'static str, &'static str) {
        (self.state.sub.as_str(), self.state.result.as_str())
    }
}

#[test]
fn each_type_is_up_when_the_manual_says_so() {
    // systemd.service(5), Type=.
    for (kind, begun, ended) in [
        ("simple", "running", "stop-sigterm"),
        ("exec", "running", "stop-sigterm"),
        ("idle", "running", "stop-sigterm"),
        ("notify", "start", "stop-sigterm"),
        ("forking", "running", "stop-sigterm"),
        ("oneshot", "start", "stop-sigterm"),
        ("oneshot\nRemainAfterExit=yes", "start", "exited"),
    ] {
        let mut story = Story::of(&format!("Type={kind}\nExecStart=/bin/x"));
        assert_eq!(story.happens(Event::Start), [run(Phase::Start)]);
        story.begins(Phase::Start);
        assert_eq!(story.is().0, begun, "{kind}");
        story.ends(Phase::Start, 0);
        assert_eq!(story.is().0, ended, "{kind}");
        let protocol = story.state.result == Outcome::Protocol;
        assert_eq!(protocol, kind == "notify", "{kind}");
    }
    let mut notify = Story::of("Type=notify\nExecStart=/bin/x");
    notify.happens(Event::Start);
    notify.begins(Phase::Start);
    notify.happens(Event::Said(Said::Ready));
    assert_eq!(notify.is(), ("running", "success"));
}

#[test]
fn commands_run_in_the_order_of_the_manual() {
    let mut story = Story::of(
        "ExecCondition=/c\nExecStartPre=/p\nExecStart=/s\nExecStartPost=/o\nExecReload=/r\n\
         ExecStop=/t\nExecStopPost=/q",
    );
    assert_eq!(story.happens(Event::Start), [run(Phase::Condition)]);
    assert_eq!(story.ends(Phase::Condition, 0), [run(Phase::StartPre)]);
    assert_eq!(story.ends(Phase::StartPre, 0), [run(Phase::Start)]);
    assert_eq!(story.begins(Phase::Start), [run(Phase::StartPost)]);
    assert_eq!(story.ends(Phase::StartPost, 0), []);
    assert_eq!(story.is(), ("running", "success"));
    assert_eq!(story.happens(Event::Reload), [run(Phase::Reload)]);
    assert_eq!(story.is().0, "reload");
    story.ends(Phase::Reload, 1);
    assert_eq!(story.is(), ("running", "success"));
    assert_eq!(story.state.reloaded, Outcome::ExitCode);
    assert_eq!(story.happens(Event::Stop), [run(Phase::Stop)]);
    assert_eq!(story.ends(Phase::Stop, 0), [Effect::Kill(false)]);
    assert_eq!(story.ends(Phase::Start, 0), [run(Phase::StopPost)]);
    assert_eq!(story.ends(Phase::StopPost, 0), [Effect::Kill(false)]);
    assert_eq!(story.happens(Event::Gone), [Effect::Down]);
    assert_eq!(story.is(), ("dead", "success"));
}

#[test]
fn a_condition_skips_and_fails_by_its_status() {
    // systemd.service(5), ExecCondition=.
    for (code, sub, result) in [
        (1, "dead", "exec-condition"),
        (254, "dead", "exec-condition"),
        (255, "failed", "exit-code"),
    ] {
        let mut story = Story::of("ExecCondition=/c\nExecStart=/s\nRestart=always");
        story.happens(Event::Start);
        story.ends(Phase::Condition, code);
        story.state.stopping = code == 255;
        story.happens(Event::Gone);
        story.happens(Event::Gone);
        assert_eq!(story.is(), (sub, result), "{code}");
    }
}

#[test]
fn what_failed_before_it_was_up_has_no_exec_stop_and_always_exec_stop_post() {
    for (text, phase) in [
        ("ExecStartPre=/p\nExecStart=/s", Phase::StartPre),
        ("Type=oneshot\nExecStart=/s", Phase::Start),
    ] {
        let mut story = Story::of(&format!("{text}\nExecStop=/t\nExecStopPost=/q"));
        story.happens(Event::Start);
        assert_eq!(story.ends(phase, 1), [Effect::Kill(false)], "{text}");
        assert_eq!(story.happens(Event::Gone), [run(Phase::StopPost)]);
        story.ends(Phase::StopPost, 0);
        story.happens(Event::Gone);
        assert_eq!(story.is(), ("failed", "exit-code"));
    }
    // With `-` it is no failure.
    let mut story = Story::of("ExecStartPre=-/p\nExecStart=/s");
    story.happens(Event::Start);
    assert_eq!(story.ends(Phase::StartPre, 1), [run(Phase::Start)]);
}

#[test]
fn restarts_are_those_of_the_table() {
    // systemd.service(5), table 2.
    let ends = [
        End::Exited(0),
        End::Exited(1),
        End::Signalled(15),
        End::Signalled(9),
    ];
    for (restart, again) in [
        ("no", [false; 4]),
        ("on-success", [true, false, true, false]),
        ("on-failure", [false, true, false, true]),
        ("on-abnormal", [false, false, false, true]),
        ("on-abort", [false, false, false, true]),
        ("always", [true; 4]),
    ] {
        for (end, again) in ends.into_iter().zip(again) {
            let mut story = Story::of(&format!("ExecStart=/s\nRestart={restart}\nRestartSec=2"));
            story.happens(Event::Start);
            story.begins(Phase::Start);
            story.happens(Event::Ended(at(Phase::Start, 0), end));
            story.happens(Event::Gone);
            story.happens(Event::Gone);
            let restarts = story.state.sub == Sub::AutoRestart;
            assert_eq!(restarts, again, "{restart} {end:?}");
            if again {
                assert_eq!(story.after(1), []);
                assert_eq!(story.after(1), [Effect::Restart]);
                story.happens(Event::Start);
                assert_eq!(story.state.restarts, 1);
            }
        }
    }
}

#[test]
fn a_start_begins_where_nothing_of_an_earlier_one_is_there() {
    use super::service::Start;
    for (sub, expected) in [
        (Sub::Dead, Start::Now),
        (Sub::Failed, Start::Now),
        (Sub::AutoRestart, Start::Now),
        (Sub::Condition, Start::Already),
        (Sub::StartPre, Start::Already),
        (Sub::Start, Start::Already),
        (Sub::StartPost, Start::Already),
        (Sub::Running, Start::Already),
        (Sub::Reload, Start::Already),
        (Sub::ReloadSignal, Start::Already),
        (Sub::ReloadNotify, Start::Already),
        (Sub::StopWatchdog, Start::Later),
        (Sub::Stop, Start::Later),
        (Sub::StopSigterm, Start::Later),
        (Sub::StopSigkill, Start::Later),
        (Sub::StopPost, Start::Later),
        (Sub::FinalSigterm, Start::Later),
        (Sub::FinalSigkill, Start::Later),
    ] {
        assert_eq!(Start::of(sub), expected, "{sub:?}");
        let mut story = Story::of("ExecStart=/s");
        story.state.sub = sub;
        let begins = !story.happens(Event::Start).is_empty();
        assert_eq!(begins, expected == Start::Now, "{sub:?}");
    }
}

#[test]
fn restarts_are_decided_by_the_result() {
    // As systemd's service_shall_restart: no, on-success, on-failure, on-abnormal, on-watchdog,
    // on-abort, always.
    let all = "no on-success on-failure on-abnormal on-watchdog on-abort always";
    let main = |end| (Phase::Start, Some(end));
    let pre = (Phase::StartPre, Some(End::Exited(3)));
    for (what, text, (phase, end), expected) in [
        ("a command before it", "ExecStartPre=/p", pre, "--x---x"),
        ("one that may fail", "", main(End::Exited(0)), "-x----x"),
        ("its status", "", main(End::Exited(3)), "--x---x"),
        ("no program", "", main(End::NotBegun(203)), "--x---x"),
        ("a signal", "", main(End::Signalled(9)), "--xx-xx"),
        ("a clean signal", "", main(End::Signalled(15)), "-x----x"),
        ("a dump", "", main(End::Dumped(11)), "--xx-xx"),
        ("no memory", "", main(End::OutOfMemory), "--xx--x"),
        ("nobody knows", "", main(End::Unknown), "--xx--x"),
        (
            "time-out",
            "RuntimeMaxSec=5",
            (Phase::Start, None),
            "--xx--x",
        ),
        ("watchdog", "WatchdogSec=5", (Phase::Start, None), "--xxx-x"),
        (
            "prevented",
            "RestartPreventExitStatus=3",
            main(End::Exited(3)),
            "-------",
        ),
        (
            "forced",
            "RestartForceExitStatus=3",
            main(End::Exited(3)),
            "xxxxxxx",
        ),
        (
            "a skip",
            "ExecCondition=/c",
            (Phase::Condition, Some(End::Exited(1))),
            "-------",
        ),
    ] {
        let shown: String = all
            .split(' ')
            .map(|restart| {
                let text = format!("ExecStart=/s\nRestart={restart}\n{text}");
                let mut story = Story::of(&text);
                story.happens(Event::Start);
                story.begins(phase);
                match end {
                    Some(end) => drop(story.happens(Event::Ended(at(phase, 0), end))),
                    None => drop(story.after(5)),
                }
                // What is ended for it ends by the signal that asks it to.
                story.happens(Event::Ended(at(Phase::Start, 0), End::Signalled(15)));
                story.happens(Event::Gone);
                story.happens(Event::Gone);
                match story.state.sub {
                    Sub::AutoRestart => 'x',
                    Sub::Dead | Sub::Failed => '-',
                    other => panic!("{what} {restart}: {other:?}"),
                }
            })
            .collect();
        assert_eq!(shown, expected, "{what}");
    }
}

#[test]
fn the_failure_of_a_command_that_may_fail_is_none() {
    // systemd.service(5), "-".
    for (restart, expected) in [("on-failure", "dead"), ("on-success", "auto-restart")] {
        let mut story = Story::of(&format!("ExecStart=-/s\nRestart={restart}"));
        story.happens(Event::Start);
        story.begins(Phase::Start);
        story.ends(Phase::Start, 3);
        story.happens(Event::Gone);
        story.happens(Event::Gone);
        assert_eq!(story.is(), (expected, "success"));
    }
}

#[test]
fn who_stops_it_ends_restarts() {
    let mut story = Story::of("ExecStart=/s\nRestart=always");
    story.happens(Event::Start);
    story.begins(Phase::Start);
    assert_eq!(story.happens(Event::Stop), [Effect::Kill(false)]);
    story.happens(Event::Ended(at(Phase::Start, 0), End::Signalled(15)));
    story.happens(Event::Gone);
    story.happens(Event::Gone);
    assert_eq!(story.is(), ("dead", "success"));
    // Also while it waits for the next start.
    let mut story = Story::of("ExecStart=/s\nRestart=always");
    story.happens(Event::Start);
    story.begins(Phase::Start);
    story.ends(Phase::Start, 3);
    story.happens(Event::Gone);
    story.happens(Event::Gone);
    assert_eq!(story.is().0, "auto-restart");
    story.happens(Event::Stop);
    assert_eq!(story.is(), ("failed", "exit-code"));
}

#[test]
fn a_restart_goes_by_down_and_one_that_can_not_be_done_is_given_up() {
    let failed = || {
        let mut story = Story::of("ExecStart=/s\nRestart=always\nRestartSec=2");
        story.happens(Event::Start);
        story.begins(Phase::Start);
        story.ends(Phase::Start, 3);
        story.happens(Event::Gone);
        story.happens(Event::Gone);
        assert_eq!(story.is(), ("auto-restart", "exit-code"));
        assert!(!super::service::is_stuck(&story.state));
        assert_eq!(story.after(2), [Effect::Restart]);
        assert!(super::service::is_stuck(&story.state));
        story
    };
    let mut story = failed();
    story.happens(Event::Stop);
    assert_eq!(story.is(), ("dead", "exit-code"));
    story.happens(Event::Start);
    assert_eq!((story.is().0, story.state.restarts), ("start", 1));
    let mut story = failed();
    story.happens(Event::GivenUp);
    assert_eq!(story.is(), ("failed", "exit-code"));
    story.happens(Event::GivenUp);
    story.happens(Event::Start);
    assert_eq!((story.is().0, story.state.restarts), ("start", 0));
}

#[test]
fn what_goes_wrong_in_a_reload_leaves_the_service_alone() {
    let up = || {
        let mut story = Story::of("ExecStart=/s\nExecReload=/r\nTimeoutStartSec=5");
        story.happens(Event::Start);
        story.begins(Phase::Start);
        story.happens(Event::Reload);
        story
    };
    let mut story = up();
    assert_eq!(story.happens(Event::Refused(at(Phase::Reload, 0))), []);
    assert_eq!(story.is(), ("running", "success"));
    assert_eq!(story.state.reloaded, Outcome::Resources);
    let mut story = up();
    let first = at(Phase::Reload, 0);
    assert_eq!(story.after(5), [Effect::End(first)]);
    assert_eq!(story.is(), ("running", "success"));
    assert_eq!(story.state.reloaded, Outcome::Timeout);
    // The end of that one is not the end of the next.
    let second = Step { round: 1, ..first };
    let again = story.happens(Event::Reload);
    assert_eq!(again, [Effect::Run(second, Role::Control)]);
    story.happens(Event::Ended(first, End::Signalled(9)));
    assert_eq!(story.is().0, "reload");
    story.happens(Event::Ended(second, End::Exited(0)));
    assert_eq!(
        (story.is().0, story.state.reloaded),
        ("running", Outcome::Success)
    );
}

#[test]
fn a_clock_that_was_set_back_holds_no_timer_up() {
    use super::timer::{Now, State, not_ahead};
    let mut state = State {
        last: Some(90 * SECOND),
        since: 80 * SECOND,
        ..State::default()
    };
    let now = Now {
        real: 50 * SECOND,
        boot: SECOND,
    };
    not_ahead(&mut state, now);
    assert_eq!((state.last, state.since), (Some(now.real), now.real));
    state.last = Some(7);
    not_ahead(&mut state, now);
    assert_eq!(state.last, Some(7));
}

#[test]
fn times_run_out() {
    // TimeoutStartSec=, TimeoutStopSec=, RuntimeMaxSec=, WatchdogSec=.
    let mut start = Story::of("Type=notify\nExecStart=/s\nTimeoutStartSec=5");
    start.happens(Event::Start);
    start.begins(Phase::Start);
    assert_eq!(start.after(4), []);
    assert_eq!(start.after(1), [Effect::Kill(false)]);
    assert_eq!(start.is(), ("stop-sigterm", "timeout"));
    let mut stop = Story::of("ExecStart=/s\nTimeoutStopSec=5");
    stop.happens(Event::Start);
    stop.begins(Phase::Start);
    stop.happens(Event::Stop);
    assert_eq!(stop.after(5), [Effect::KillNow]);
    assert_eq!(stop.is(), ("stop-sigkill", "timeout"));
    let mut long = Story::of("ExecStart=/s\nRuntimeMaxSec=5\nExecStop=/t");
    long.happens(Event::Start);
    long.begins(Phase::Start);
    assert_eq!(long.after(5), [run(Phase::Stop)]);
    assert_eq!(long.is(), ("stop", "timeout"));
    let mut watched = Story::of("Type=notify\nExecStart=/s\nWatchdogSec=5");
    watched.happens(Event::Start);
    watched.begins(Phase::Start);
    watched.happens(Event::Said(Said::Ready));
    assert_eq!(watched.after(4), []);
    watched.happens(Event::Said(Said::Alive));
    assert_eq!(watched.after(4), []);
    assert_eq!(watched.after(1), [Effect::Kill(true)]);
    assert_eq!(watched.is(), ("stop-watchdog", "watchdog"));
    // A oneshot service has no time-out by itself.
    let mut one = Story::of("Type=oneshot\nExecStart=/s");
    one.happens(Event::Start);
    one.begins(Phase::Start);
    assert_eq!(one.after(1_000_000), []);
}

#[test]
fn a_program_that_is_not_there_fails_as_its_type_says() {
    // systemd.service(5), Type=exec, and 203 of systemd.exec(5).
    for (kind, was_up) in [("simple", true), ("exec", false)] {
        let mut story = Story::of(&format!("Type={kind}\nExecStart=/s"));
        story.happens(Event::Start);
        story.happens(Event::NotBegun(at(Phase::Start, 0), 203));
        assert_eq!(story.state.was_up, was_up);
        assert_eq!(story.is(), ("stop-sigterm", "exit-code"));
    }
}

#[test]
fn oneshot_commands_follow_each_other_until_one_fails() {
    let mut story = Story::of("Type=oneshot\nExecStart=/a\nExecStart=-/b\nExecStart=/c");
    story.happens(Event::Start);
    let second = Effect::Run(at(Phase::Start, 1), Role::Main);
    assert_eq!(story.ends(Phase::Start, 0), [second]);
    let ended = Event::Ended(at(Phase::Start, 1), End::Exited(1));
    let third = Effect::Run(at(Phase::Start, 2), Role::Main);
    assert_eq!(story.happens(ended), [third]);
    let ended = Event::Ended(at(Phase::Start, 2), End::Exited(1));
    assert_eq!(story.happens(ended), [Effect::Kill(false)]);
    assert_eq!(story.state.result, Outcome::ExitCode);
}

#[test]
fn starts_are_counted() {
    use super::limit::take;
    use units::time::Span;
    let mut times = Vec::new();
    let ten = Span::from_secs(10);
    for _ in 0..5 {
        assert!(take(&mut times, SECOND, ten, 5));
    }
    assert!(!take(&mut times, 10 * SECOND, ten, 5));
    assert!(take(&mut times, 11 * SECOND, ten, 5));
    assert!(take(&mut times, 11 * SECOND, Span::ZERO, 5));
}

/// A service that runs, and is asked to stop.
fn stopping(text: &str) -> Story {
    let mut story = Story::of(&format!("ExecStart=/s\nTimeoutStopSec=5\n{text}"));
    story.happens(Event::Start);
    story.begins(Phase::Start);
    assert_eq!(story.happens(Event::Stop), [Effect::Kill(false)]);
    story
}

#[test]
fn a_stop_waits_for_whom_it_has_reached_and_leaves_what_it_may_not_end() {
    // systemd.kill(5), KillMode=: the main process ends, and what it has left is asked then.
    let mut story = stopping("ExecStopPost=/q");
    assert_eq!(story.happens(Event::Signalled(true)), []);
    // What is told of it comes later than that nothing lives.
    assert_eq!(story.happens(Event::Gone), []);
    assert_eq!(story.ends(Phase::Start, 0), [run(Phase::StopPost)]);
    assert_eq!(story.ends(Phase::StopPost, 0), [Effect::Kill(false)]);
    assert_eq!(story.is().0, "final-sigterm");
    // Nobody was there: the final signal finds nobody either.
    assert_eq!(story.happens(Event::Signalled(false)), [Effect::KillNow]);
    assert_eq!(story.happens(Event::Signalled(false)), [Effect::Down]);
    assert_eq!(story.is(), ("dead", "success"));
    // KillMode=none reaches nobody, and the main process is left.
    let mut story = stopping("KillMode=none");
    assert_eq!(story.happens(Event::Signalled(false)), [Effect::KillNow]);
    assert_eq!(
        story.happens(Event::Signalled(false)),
        [Effect::Kill(false)]
    );
    assert_eq!(story.is().0, "final-sigterm");
    assert_eq!(story.state.main, None);
    // SendSIGKILL=no: after the time-out it goes on, failed.
    let mut story = stopping("SendSIGKILL=no");
    story.happens(Event::Signalled(true));
    assert_eq!(story.after(5), [Effect::Kill(false)]);
    assert_eq!(story.happens(Event::Signalled(false)), [Effect::Down]);
    assert_eq!(story.is(), ("failed", "timeout"));
    // Not even the final signal helps.
    let mut story = stopping("");
    story.happens(Event::Signalled(true));
    assert_eq!(story.after(5), [Effect::KillNow]);
    assert_eq!(story.after(5), [Effect::Kill(false)]);
    assert_eq!(story.is(), ("final-sigterm", "timeout"));
    // TimeoutStopSec=infinity waits for ever.
    let mut story = stopping("TimeoutStopSec=infinity");
    story.happens(Event::Signalled(true));
    assert_eq!(
        (story.after(1_000_000), story.is().0),
        (vec![], "stop-sigterm")
    );
}

#[test]
fn a_forking_service_has_started_when_its_main_process_is_known() {
    // systemd.service(5), Type=forking.
    let forking = |text: &str| {
        let mut story = Story::of(&format!("Type=forking\nExecStart=/s\n{text}"));
        story.happens(Event::Start);
        assert_eq!(story.is().0, "start");
        story
    };
    let mut story = forking("PIDFile=/run/x.pid\nExecStartPost=/o");
    assert_eq!(story.begins(Phase::Start), [run(Phase::StartPost)]);
    // The first process fails.
    let mut story = forking("");
    assert_eq!(story.ends(Phase::Start, 3), [Effect::Kill(false)]);
    assert_eq!(story.is(), ("stop-sigterm", "exit-code"));
    // It ends well, and nothing is there that a PID file could mean.
    let mut story = forking("PIDFile=/run/x.pid");
    story.ends(Phase::Start, 0);
    assert_eq!(story.is(), ("stop-sigterm", "protocol"));
    // Without one it has started, and ended.
    let mut story = forking("");
    story.ends(Phase::Start, 0);
    assert_eq!(story.is(), ("stop-sigterm", "success"));
    let mut story = forking("RemainAfterExit=yes");
    story.ends(Phase::Start, 0);
    assert_eq!(story.is(), ("exited", "success"));
}

#[test]
fn what_a_service_says_counts_as_the_manual_says() {
    // sd_notify(3).
    let up = |text: &str| {
        let mut story = Story::of(&format!("Type=notify\nExecStart=/s\n{text}"));
        story.happens(Event::Start);
        story.begins(Phase::Start);
        story.happens(Event::Said(Said::Ready));
        assert_eq!(story.is().0, "running");
        story
    };
    let mut story = up("TimeoutStopSec=5");
    assert_eq!(story.happens(Event::Said(Said::Stopping)), []);
    assert_eq!(story.is().0, "stop");
    assert_eq!(story.ends(Phase::Start, 0), [Effect::Kill(false)]);
    let mut story = up("TimeoutStopSec=5");
    story.happens(Event::Said(Said::Stopping));
    assert_eq!(story.after(5), [Effect::Kill(false)]);
    assert_eq!(story.is(), ("stop-sigterm", "timeout"));
    // RELOADING=1 by itself, until READY=1.
    let mut story = up("");
    story.happens(Event::Said(Said::Reloading(None)));
    assert_eq!(story.is().0, "reload-notify");
    story.happens(Event::Said(Said::Ready));
    assert_eq!(story.is(), ("running", "success"));
    // The watchdog: another span by its own word, a time-out that is extended, a trigger.
    let mut story = up("WatchdogSec=5");
    story.happens(Event::Said(Said::Every(2 * SECOND)));
    story.happens(Event::Said(Said::Extend(3 * SECOND)));
    assert_eq!(story.after(2), []);
    assert_eq!(story.after(1), [Effect::Kill(true)]);
    let mut story = up("WatchdogSec=5");
    story.happens(Event::Said(Said::Every(0)));
    assert_eq!(story.after(1_000), []);
    assert_eq!(
        story.happens(Event::Said(Said::Trigger)),
        [Effect::Kill(true)]
    );
    assert_eq!(story.is(), ("stop-watchdog", "watchdog"));
    // Who isn't asked to report isn't watched because he does.
    let mut story = up("");
    story.happens(Event::Said(Said::Alive));
    assert_eq!(story.state.watchdog, None);
}

#[test]
fn a_reload_by_signal_is_over_when_the_service_says_so() {
    // systemd.service(5), Type=notify-reload.
    let mut story = Story::of("Type=notify-reload\nExecStart=/s\nTimeoutStartSec=5");
    story.happens(Event::Start);
    story.begins(Phase::Start);
    story.happens(Event::Said(Said::Ready));
    assert_eq!(story.happens(Event::Reload), [Effect::AskReload]);
    assert_eq!(story.is().0, "reload-signal");
    // One that it began earlier is another one.
    let asked = story.state.reload_begun;
    story.happens(Event::Said(Said::Reloading(Some(asked - 1))));
    story.happens(Event::Said(Said::Ready));
    assert_eq!(story.is().0, "reload-signal");
    story.happens(Event::Said(Said::Reloading(Some(asked + 1))));
    assert_eq!(story.is().0, "reload-notify");
    story.happens(Event::Said(Said::Ready));
    assert_eq!(
        (story.is().0, story.state.reloaded),
        ("running", Outcome::Success)
    );
    story.happens(Event::Reload);
    story.after(5);
    assert_eq!(
        (story.is().0, story.state.reloaded),
        ("running", Outcome::Timeout)
    );
}

#[test]
fn a_service_of_a_group_ends_with_the_last_of_it() {
    // systemd.service(5), ExitType=cgroup.
    let mut story = Story::of("ExecStart=/s\nExitType=cgroup");
    story.happens(Event::Start);
    story.begins(Phase::Start);
    assert_eq!(story.ends(Phase::Start, 0), [Effect::Watch]);
    assert_eq!(story.is().0, "running");
    assert_eq!(story.happens(Event::Gone), [Effect::Kill(false)]);
    assert_eq!(story.is(), ("stop-sigterm", "success"));
}

mod timers {
    use super::super::timer::{Now, Other, Rules, State, elapse, plan};
    use super::*;

    const DAY: u64 = 86_400 * SECOND;

    fn timer(text: &str) -> Unit {
        let name = UnitName::parse("a.timer").unwrap();
        let text = format!("[Timer]\n{text}");
        from_texts(&name, &[("/x", text.as_bytes())], &NoHost, &UtcOnly)
    }

    fn waiting(text: &str, last: Option<u64>, other: Other, now: Now) -> State {
        let unit = timer(text);
        let mut state = State {
            active: true,
            last,
            since: now.real,
            since_boot: now.boot,
            ..State::default()
        };
        plan(&Rules::of(&unit), &mut state, other, &UtcOnly, 7);
        state
    }

    #[test]
    fn each_clock_counts_from_its_own_event() {
        // systemd.timer(5), OnActiveSec= and the others.
        let now = Now {
            real: 10 * DAY + SECOND,
            boot: 100 * SECOND,
        };
        let other = Other {
            active: Some(50 * SECOND),
            inactive: Some(60 * SECOND),
            up: false,
        };
        for (text, boot, real) in [
            ("OnActiveSec=5", Some(105), None),
            ("OnBootSec=200", Some(200), None),
            ("OnUnitActiveSec=70", Some(120), None),
            ("OnUnitInactiveSec=70", Some(130), None),
            ("OnActiveSec=5\nOnBootSec=101", Some(101), None),
            ("OnCalendar=daily", None, Some(11 * DAY)),
            ("OnCalendar=daily\nOnActiveSec=1", Some(101), Some(11 * DAY)),
        ] {
            let state = waiting(text, None, other, now);
            assert_eq!(state.next_boot, boot.map(|it: u64| it * SECOND), "{text}");
            assert_eq!(state.next_real, real, "{text}");
        }
        let never = waiting("OnUnitActiveSec=1", None, Other::default(), now);
        assert_eq!((never.next_boot, never.next_real), (None, None));
    }

    #[test]
    fn a_persistent_timer_makes_up_for_what_it_missed_and_others_do_not() {
        let now = Now {
            real: 10 * DAY + SECOND,
            boot: SECOND,
        };
        let last = Some(8 * DAY + SECOND);
        let plain = waiting("OnCalendar=daily", last, Other::default(), now);
        assert_eq!(plain.next_real, Some(11 * DAY));
        let text = "OnCalendar=daily\nPersistent=yes";
        let mut state = waiting(text, last, Other::default(), now);
        assert_eq!(state.next_real, Some(9 * DAY));
        // Once for all that it missed.
        assert!(elapse(&mut state, now));
        plan(
            &Rules::of(&timer(text)),
            &mut state,
            Other::default(),
            &UtcOnly,
            7,
        );
        assert_eq!(state.next_real, Some(11 * DAY));
        assert!(!elapse(&mut state, now));
    }

    #[test]
    fn a_random_delay_is_thrown_once_and_a_fixed_one_is_always_the_same() {
        let now = Now::default();
        let text = "OnCalendar=daily\nRandomizedDelaySec=1h";
        let unit = timer(text);
        let mut state = waiting(text, None, Other::default(), now);
        let first = state.next_real;
        assert_eq!(first, Some(DAY + 7));
        plan(
            &Rules::of(&unit),
            &mut state,
            Other::default(),
            &UtcOnly,
            99,
        );
        assert_eq!(state.next_real, first);
        let fixed = timer(&format!("{text}\nFixedRandomDelay=yes"));
        let of = |random| {
            let mut state = State {
                active: true,
                ..State::default()
            };
            plan(
                &Rules::of(&fixed),
                &mut state,
                Other::default(),
                &UtcOnly,
                random,
            );
            state.next_real
        };
        assert_eq!(of(1), of(2));
    }

    #[test]
    fn what_elapsed_waits_for_its_next_event() {
        let unit = timer("OnActiveSec=5\nOnUnitActiveSec=10");
        let now = Now {
            real: 0,
            boot: SECOND,
        };
        let text = "OnActiveSec=5\nOnUnitActiveSec=10";
        let mut state = waiting(text, None, Other::default(), now);
        let later = Now {
            boot: 6 * SECOND,
            ..now
        };
        assert!(elapse(&mut state, later));
        let other = Other {
            active: Some(6 * SECOND),
            ..Other::default()
        };
        plan(&Rules::of(&unit), &mut state, other, &UtcOnly, 7);
        assert_eq!(state.next_boot, Some(16 * SECOND));
    }
}

#[test]
fn a_service_of_the_bus_has_started_with_its_name_and_is_over_without_it() {
    // systemd.service(5), Type=dbus.
    let text = "Type=dbus\nBusName=org.x.y\nExecStart=/bin/x";
    let started = |first: Event, second: Event| {
        let mut story = Story::of(text);
        story.happens(Event::Start);
        story.happens(first);
        assert_eq!(story.is().0, "start");
        story.happens(second);
        story
    };
    let (begun, named) = (Event::Began(at(Phase::Start, 0)), Event::Named(true));
    assert_eq!(started(begun, named).is().0, "running");
    // Its name was there already.
    let mut story = started(named, begun);
    assert_eq!(story.is().0, "running");
    assert_eq!(story.happens(Event::Named(false)), [Effect::Kill(false)]);
    assert_eq!(story.is(), ("stop-sigterm", "success"));
    // It ended before it had it.
    let mut story = Story::of(text);
    story.happens(Event::Start);
    story.begins(Phase::Start);
    story.happens(Event::Named(false));
    story.ends(Phase::Start, 0);
    assert_eq!(story.is(), ("stop-sigterm", "success"));
    // Other types don't mind.
    let mut other = Story::of("Type=simple\nBusName=org.x.y\nExecStart=/bin/x");
    other.happens(Event::Start);
    other.begins(Phase::Start);
    other.happens(Event::Named(false));
    assert_eq!(other.is().0, "running");
}

#[test]
fn memory_that_runs_out_is_as_the_policy_says() {
    // systemd.service(5), OOMPolicy=.
    let running = |policy: &str| {
        let mut story = Story::of(&format!("ExecStart=/x\nExecStop=/t\nOOMPolicy={policy}"));
        story.happens(Event::Start);
        story.begins(Phase::Start);
        let effects = story.happens(Event::OutOfMemory);
        (story.is(), effects)
    };
    assert_eq!(running("continue"), (("running", "success"), vec![]));
    assert_eq!(
        running("stop"),
        (("stop", "oom-kill"), vec![run(Phase::Stop)])
    );
    assert_eq!(
        running("kill"),
        (("stop-sigkill", "oom-kill"), vec![Effect::KillNow])
    );
    // It is a failure also where the main process ends well.
    let mut story = Story::of("ExecStart=/x\nRestart=on-failure");
    story.happens(Event::Start);
    story.begins(Phase::Start);
    story.happens(Event::OutOfMemory);
    story.ends(Phase::Start, 0);
    story.happens(Event::Signalled(false));
    assert_eq!(story.state.result, Outcome::OomKill);
    let mut early = Story::of("Type=oneshot\nExecStart=/x");
    early.happens(Event::Start);
    early.begins(Phase::Start);
    early.happens(Event::OutOfMemory);
    assert_eq!(early.is(), ("stop-sigterm", "oom-kill"));
}
