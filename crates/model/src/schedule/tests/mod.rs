// SPDX-License-Identifier: Apache-2.0
//! The decision, with worlds of chance and with the cases that people ask about.

mod cases;
mod jobs;
mod rolling;

use std::time::Duration;

use proptest::prelude::*;

use super::given::Config;
use super::spec::{
    Draft, Lax, Missed, Need, NeedOf, Needed, Overlap, Program, Restart, Spec, StartLimit, When,
    Work,
};
use super::state::{Event, Leaving, Outcome, RefusalKind, Run, State, Stopping, Trigger};
use super::steps::{Effect, LATE, Other, Sight, Step, UnitSeen, advance};
use super::why::Why;
use crate::executable;
use crate::name::{Label, Uid};
use crate::time::Timestamp;

const SECOND: u64 = 1_000_000_000;
/// Noon of some day.
const START: u64 = 1_800_014_400 * SECOND;

/// What is around a schedule in a test.
#[derive(Clone, Default)]
struct Around {
    other: Option<Other>,
    busy: bool,
    /// Another cron runs.
    cron: bool,
    /// Runs that are not ready.
    unready: Vec<u64>,
    boot: String,
    unit: Option<UnitSeen>,
}

impl Sight for Around {
    fn unit(&self, _: &str) -> Option<UnitSeen> {
        self.unit.clone()
    }

    fn other(&self, _: &Label) -> Option<Other> {
        self.other
    }

    fn busy(&self, _: &Lax) -> Option<String> {
        self.busy.then(|| "cpu".to_owned())
    }

    fn ready(&self, run: &Run) -> bool {
        !self.unready.contains(&run.number)
    }

    fn config(&self, _: &Config) -> Option<u64> {
        None
    }

    fn stable(&self, _: u64) -> Option<&Work> {
        None
    }

    fn elsewhere(&self, _: &Spec) -> Option<(String, Option<Duration>)> {
        self.cron
            .then(|| ("cron runs".to_owned(), Some(Duration::from_secs(30))))
    }

    fn boot(&self) -> &str {
        &self.boot
    }
}

fn draft(when: When) -> Draft {
    let spec = executable::Draft {
        argv: vec!["/bin/true".to_owned()],
        ..Default::default()
    };
    let program = Program {
        name: "main".parse().unwrap(),
        labels: Default::default(),
        spec: spec.try_into().unwrap(),
    };
    let work = Work::Executable {
        program: Box::new(program),
        cell: Box::default(),
    };
    Draft::new(work, when)
}

fn spec(when: When, change: impl FnOnce(&mut Draft)) -> Spec {
    let mut draft = draft(when);
    change(&mut draft);
    draft.try_into().unwrap()
}

fn cron(pattern: &str) -> When {
    When::Cron {
        pattern: pattern.to_owned(),
        zone: String::new(),
    }
}

/// A schedule and its clock.
struct World {
    spec: Spec,
    state: State,
    around: Around,
    now: u64,
    outcomes: Vec<Outcome>,
}

impl World {
    fn new(spec: Spec) -> Self {
        let state = State::new(&spec, Timestamp(START));
        Self {
            spec,
            state,
            around: Around::default(),
            now: START,
            outcomes: Vec::new(),
        }
    }

    fn step(&mut self) -> Step {
        let step = advance(
            &self.spec,
            &mut self.state,
            &self.around,
            Timestamp(self.now),
        );
        self.outcomes
            .extend(step.entries.iter().map(|entry| entry.outcome));
        step
    }

    fn happens(&mut self, event: Event) {
        let entry = self.state.happened(&self.spec, event, Timestamp(self.now));
        self.outcomes.extend(entry.map(|entry| entry.outcome));
    }

    /// The run that begins now.
    fn starts(&mut self) -> u64 {
        let step = self.step();
        let [Effect::Start(number)] = step.effects[..] else {
            panic!("{step:?}");
        };
        self.happens(Event::Began(number));
        number
    }

    fn idles(&mut self) -> Why {
        let step = self.step();
        assert_eq!(step.effects, [], "{step:?}");
        step.why
    }

    fn ends(&mut self, number: u64, success: bool) {
        self.happens(Event::Ended(number, success, "words".into()));
    }

    fn later(&mut self, seconds: u64) {
        self.now += seconds * SECOND;
    }
}

#[test]
fn a_crash_is_followed_by_a_start_that_waits_longer_each_time_and_anew_after_a_stable_run() {
    let mut world = World::new(spec(When::Now, |it| it.restart = Restart::Always));
    let mut waits = Vec::new();
    for _ in 0..5 {
        let number = world.starts();
        world.ends(number, false);
        let Why::BackOff(until) = world.idles() else {
            panic!("no back-off");
        };
        waits.push((until.0 - world.now) / SECOND);
        world.now = until.0;
    }
    assert_eq!(waits, [1, 2, 4, 8, 16]);
    let number = world.starts();
    world.later(600);
    world.ends(number, false);
    assert_eq!(world.idles(), Why::BackOff(Timestamp(world.now + SECOND)));
}

#[test]
fn the_policy_says_what_follows_an_end_and_a_reboot() {
    for (restart, success, again) in [
        (Restart::No, false, false),
        (Restart::OnFailure, true, false),
        (Restart::OnFailure, false, true),
        (Restart::Always, true, true),
    ] {
        let mut world = World::new(spec(When::Now, |it| it.restart = restart));
        let number = world.starts();
        world.ends(number, success);
        world.later(1);
        let step = world.step();
        assert_eq!(!step.effects.is_empty(), again, "{restart:?}: {step:?}");
        if !again {
            assert_eq!(step.why, Why::Done(success, "words".into()));
        }
    }
    for (restart, again) in [(Restart::No, false), (Restart::OnFailure, true)] {
        let mut world = World::new(spec(When::Now, |it| it.restart = restart));
        let number = world.starts();
        world.happens(Event::Lost(number));
        // At once: it is not the workload's fault.
        assert_eq!(!world.step().effects.is_empty(), again, "{restart:?}");
    }
}

#[test]
fn times_come_once_and_what_nobody_saw_is_skipped_or_made_up_for() {
    let mut world = World::new(spec(cron("* * * * *"), |_| {}));
    assert_eq!(world.idles(), Why::Waiting(Timestamp(START + 60 * SECOND)));
    world.later(60);
    let number = world.starts();
    world.ends(number, true);
    assert!(matches!(world.idles(), Why::Waiting(_)));
    world.later(3600);
    assert!(matches!(world.idles(), Why::Waiting(_)));
    assert_eq!(world.outcomes, [Outcome::Succeeded, Outcome::Skipped]);
    world.spec = spec(cron("* * * * *"), |it| it.missed = Some(Missed::RunOnce));
    world.later(3630);
    let number = world.starts();
    assert_eq!(world.state.runs[0].due.by, Trigger::Missed);
    world.ends(number, true);
    assert!(matches!(world.idles(), Why::Waiting(_)));
}

#[test]
fn a_clock_that_was_set_back_makes_no_time_wait_for_hours() {
    let mut world = World::new(spec(cron("* * * * *"), |_| {}));
    world.now -= 24 * 3600 * SECOND;
    let Why::Waiting(next) = world.idles() else {
        panic!("not waiting");
    };
    assert!(next.0 - world.now <= 60 * SECOND);
}

#[test]
fn a_time_that_comes_during_a_run_is_skipped_runs_beside_it_or_instead_of_it() {
    let run = |overlap| {
        let mut world = World::new(spec(cron("* * * * * *"), |it| it.overlap = overlap));
        world.later(1);
        world.starts();
        world.later(1);
        let step = world.step();
        (world, step)
    };
    let (world, step) = run(Overlap::Forbid);
    assert_eq!(
        (step.effects, world.outcomes),
        (vec![], vec![Outcome::Skipped])
    );
    let (_, step) = run(Overlap::Allow);
    assert_eq!(step.effects, [Effect::Start(2)]);
    let (mut world, step) = run(Overlap::Replace);
    assert_eq!(step.effects, [Effect::Stop(1)]);
    assert_eq!(step.why, Why::Overlap(1));
    world.ends(1, false);
    assert_eq!(world.outcomes, [Outcome::Stopped]);
    assert_eq!(world.starts(), 2);
}

#[test]
fn at_runs_once_also_when_the_clock_is_set_back_afterwards() {
    let time = Timestamp(START + 100 * SECOND);
    let mut world = World::new(spec(When::At(time), |_| {}));
    assert_eq!(world.idles(), Why::Waiting(time));
    // By hand before: the time still comes.
    world.happens(Event::Triggered);
    let number = world.starts();
    world.ends(number, true);
    world.later(100 + LATE.as_secs() * 10);
    let number = world.starts();
    world.ends(number, true);
    world.now = START;
    assert!(matches!(world.idles(), Why::Done(true, _)));
}

#[test]
fn after_counts_ends_from_now_on() {
    let after = |success| When::After {
        schedule: "first".parse().unwrap(),
        success,
    };
    let other = |ended, succeeded| {
        Some(Other {
            uid: Uid([1; 16]),
            ended,
            succeeded,
            last: None,
            running: false,
        })
    };
    let mut world = World::new(spec(after(true), |_| {}));
    assert!(matches!(world.idles(), Why::After(_)));
    world.around.other = other(3, 3);
    assert!(
        matches!(world.idles(), Why::After(_)),
        "what was before doesn't count"
    );
    world.around.other = other(4, 3);
    assert!(matches!(world.idles(), Why::After(_)), "it failed");
    world.around.other = other(5, 4);
    let number = world.starts();
    world.ends(number, true);
    assert!(matches!(world.idles(), Why::After(_)), "once for each end");
    world.spec = spec(after(false), |_| {});
    world.around.other = other(6, 4);
    world.starts();
}

#[test]
fn of_two_ends_that_come_quickly_none_is_missed() {
    let after = When::After {
        schedule: "first".parse().unwrap(),
        success: true,
    };
    let other = |ended, succeeded| {
        Some(Other {
            uid: Uid([1; 16]),
            ended,
            succeeded,
            last: Some(false),
            running: false,
        })
    };
    let mut world = World::new(spec(after.clone(), |it| it.overlap = Overlap::Allow));
    world.around.other = other(0, 0);
    world.idles();
    // Two succeeded, and then one failed, before anybody looked.
    world.around.other = other(3, 2);
    assert_eq!(world.starts(), 1);
    assert_eq!(world.starts(), 2);
    assert_eq!(world.idles(), Why::Running);
    // Where only one may run, the other one is skipped, and told of.
    let mut world = World::new(spec(after, |_| {}));
    world.around.other = other(0, 0);
    world.idles();
    world.around.other = other(2, 2);
    assert_eq!(world.starts(), 1);
    assert_eq!(world.idles(), Why::Running);
    assert_eq!(world.outcomes, [Outcome::Skipped]);
}

#[test]
fn every_gate_says_what_is_in_the_way() {
    let need = Need {
        of: NeedOf::Schedule("db".parse().unwrap()),
        state: Needed::Running,
    };
    let mut world = World::new(spec(When::Now, |it| it.needs = vec![need]));
    assert!(matches!(world.idles(), Why::Dependency(_, words) if words == "isn't there"));
    world.around.other = Some(Other {
        uid: Uid([1; 16]),
        ended: 0,
        succeeded: 0,
        last: None,
        running: true,
    });
    world.starts();

    for (state, ready) in [
        (Needed::Running, (true, None)),
        (Needed::Succeeded, (false, Some(true))),
    ] {
        let of = NeedOf::Unit("srv.mount".to_owned());
        let need = Need { of, state };
        let mut world = World::new(spec(When::Now, |it| it.needs = vec![need]));
        assert!(matches!(world.idles(), Why::Unit(_, words) if words == "isn't known yet"));
        let seen = |(active, succeeded): (bool, Option<bool>)| UnitSeen {
            active,
            succeeded,
            is: "is inactive".to_owned(),
        };
        world.around.unit = Some(seen((false, None)));
        let why = "it needs the unit srv.mount, which is inactive";
        assert_eq!(world.idles().to_string(), why);
        world.around.unit = Some(seen(ready));
        world.starts();
    }

    let mut world = World::new(spec(When::Lax(Lax::default()), |_| {}));
    world.around.busy = true;
    assert_eq!(world.idles(), Why::Pressure("cpu".into()));
    world.around.busy = false;
    world.happens(Event::Paused("ann".into()));
    assert!(matches!(world.idles(), Why::Paused(_)));
    world.happens(Event::Resumed);
    world.starts();

    let limit = StartLimit {
        starts: 2,
        within: Duration::from_secs(3600),
    };
    let mut world = World::new(spec(When::Now, |it| {
        it.restart = Restart::Always;
        it.start_limit = Some(limit);
    }));
    for _ in 0..2 {
        let number = world.starts();
        world.ends(number, true);
        world.later(300);
    }
    assert_eq!(world.idles(), Why::StartLimit);
    world.later(36_000);
    assert_eq!(world.idles(), Why::StartLimit, "only a hand releases it");
    world.happens(Event::Resumed);
    world.starts();
}

#[test]
fn a_refused_start_is_tried_again_and_told_once_but_a_spec_that_cant_be_is_a_failed_run() {
    let mut world = World::new(spec(When::Now, |_| {}));
    for _ in 0..3 {
        let step = world.step();
        let [Effect::Start(number)] = step.effects[..] else {
            panic!("{step:?}");
        };
        let refused = Event::Refused(number, RefusalKind::Permission, "no".into());
        world.happens(refused);
        assert!(matches!(world.idles(), Why::Refused(_, Some(_))));
        world.later(300);
    }
    assert_eq!(world.outcomes, [Outcome::Refused]);
    let number = world.starts();
    world.ends(number, true);
    let mut world = World::new(spec(When::Now, |_| {}));
    world.step();
    world.happens(Event::Refused(
        1,
        RefusalKind::Spec,
        "no such program".into(),
    ));
    assert_eq!(world.idles(), Why::Done(false, "no such program".into()));
}

#[test]
fn a_run_that_a_user_stops_ends_the_wish_but_not_that_of_times_to_come() {
    let mut world = World::new(spec(When::Now, |it| it.restart = Restart::Always));
    let number = world.starts();
    world.happens(Event::StopAsked(number, "ann stopped run 1".into()));
    world.ends(number, false);
    assert!(matches!(world.idles(), Why::Paused(_)));
    world.happens(Event::Resumed);
    world.starts();
    let mut world = World::new(spec(cron("* * * * * *"), |it| {
        it.restart = Restart::OnFailure
    }));
    world.later(1);
    let number = world.starts();
    world.happens(Event::StopAsked(number, "ann".into()));
    world.ends(number, false);
    assert!(matches!(world.idles(), Why::Waiting(_)));
    world.later(1);
    world.starts();
}

fn events() -> impl Strategy<Value = Vec<(u8, u64)>> {
    proptest::collection::vec((0u8..12, 0u64..40), 0..60)
}

proptest! {
    /// Whatever happens: no two runs at once where that is forbidden, none by itself while it is
    /// paused, numbers that only grow, and a daemon that comes back decides the same.
    #[test]
    fn worlds_of_chance_keep_the_promises(kind in 0u8..3, overlap in 0u8..3, events in events()) {
        let overlap = [Overlap::Forbid, Overlap::Allow, Overlap::Replace][usize::from(overlap)];
        let when = match kind {
            0 => When::Now,
            1 => cron("* * * * * *"),
            _ => cron("*/7 * * * * *"),
        };
        let restart = if kind == 0 { Restart::Always } else { Restart::OnFailure };
        let mut world = World::new(spec(when, |it| {
            it.restart = restart;
            it.overlap = overlap;
        }));
        let mut last = 0;
        for (event, amount) in events {
            let first = world.state.runs.first().map_or(0, |run| run.number);
            match event {
                0 => world.happens(Event::Paused("x".into())),
                1 => world.happens(Event::Resumed),
                2 => world.ends(first, true),
                3 => world.ends(first, false),
                4 => world.happens(Event::Lost(first)),
                5 => world.happens(Event::StopAsked(first, "x".into())),
                6 => world.happens(Event::Refused(first, RefusalKind::Quota, "x".into())),
                7 => world.happens(Event::NotBegun(first)),
                8 => world.happens(Event::Declared(true)),
                9 => world.now = world.now.saturating_sub(amount * SECOND),
                _ => world.later(amount),
            }
            let kept = serde_json::to_string(&world.state).unwrap();
            let mut again: State = serde_json::from_str(&kept).unwrap();
            let (paused, now) = (world.state.paused.is_some(), Timestamp(world.now));
            let step = world.step();
            prop_assert_eq!(&step, &advance(&world.spec, &mut again, &world.around, now));
            prop_assert_eq!(&world.state, &again);
            for effect in step.effects {
                if let Effect::Start(number) = effect {
                    prop_assert!(number > last && !paused, "{number} after {last}, {paused}");
                    last = number;
                    world.happens(Event::Began(number));
                }
            }
            let most = if overlap == Overlap::Allow { 16 } else { 1 };
            prop_assert!(world.state.runs.len() <= most);
            if let Some(wake) = step.wake {
                // No busy loop: a step that wants another one at once has moved on.
                prop_assert!(wake >= now);
            }
        }
    }
}
