// SPDX-License-Identifier: Apache-2.0
//! Cases that an attacker or an unlucky clock would find.

use super::super::state::Shape;
use super::*;

#[test]
fn a_time_that_is_yet_to_come_comes_whatever_became_of_runs_before_it() {
    let time = Timestamp(START + 100 * SECOND);
    for restart in [Restart::No, Restart::OnFailure] {
        let mut world = World::new(spec(When::At(time), |it| it.restart = restart));
        world.happens(Event::Triggered);
        let number = world.starts();
        match restart {
            Restart::No => world.happens(Event::Lost(number)),
            _ => {
                world.ends(number, false);
                world.later(5);
                let number = world.starts();
                world.ends(number, true);
            }
        }
        assert_eq!(world.idles(), Why::Waiting(time), "{restart:?}");
        world.now = time.0;
        let number = world.starts();
        world.ends(number, true);
        world.later(60);
        assert!(matches!(world.idles(), Why::Done(true, _)), "{restart:?}");
    }
}

#[test]
fn a_clock_that_is_put_right_runs_nothing_twice_and_one_set_back_holds_nothing_for_days() {
    let mut world = World::new(spec(cron("* * * * *"), |_| {}));
    world.later(60);
    let number = world.starts();
    world.ends(number, true);
    world.now -= SECOND / 100;
    assert_eq!(world.idles(), Why::Waiting(Timestamp(START + 120 * SECOND)));
    world.later(1);
    assert!(matches!(world.idles(), Why::Waiting(_)), "it came twice");

    let mut world = World::new(spec(When::Now, |it| it.restart = Restart::Always));
    let number = world.starts();
    world.ends(number, false);
    world.now -= 24 * 3600 * SECOND;
    world.starts();
}

#[test]
fn a_start_limit_counts_no_refused_start() {
    let limit = StartLimit {
        starts: 1,
        within: Duration::from_secs(3600),
    };
    let mut world = World::new(spec(When::Now, |it| it.start_limit = Some(limit)));
    for number in 1..4 {
        world.step();
        world.happens(Event::Refused(number, RefusalKind::Quota, "full".into()));
        world.later(300);
    }
    world.starts();
}

#[test]
fn what_follows_another_one_waits_as_its_back_off_says() {
    let after = When::After {
        schedule: "first".parse().unwrap(),
        success: false,
    };
    let mut world = World::new(spec(after, |it| it.restart = Restart::OnFailure));
    let other = |world: &mut World, number| {
        world.around.other = Some(Other {
            uid: Uid([1; 16]),
            ended: number,
            succeeded: number,
            last: Some(true),
            running: false,
        });
    };
    other(&mut world, 1);
    world.idles();
    other(&mut world, 2);
    let number = world.starts();
    world.ends(number, false);
    other(&mut world, 3);
    assert!(matches!(world.idles(), Why::BackOff(_)));
    world.later(1);
    world.starts();
}

#[test]
fn a_stop_that_came_to_nothing_ends_no_wish() {
    let mut world = World::new(spec(When::Now, |it| it.restart = Restart::Always));
    let number = world.starts();
    world.happens(Event::StopAsked(number, "ann".into()));
    world.happens(Event::StopFailed(number, "ann".into()));
    assert_eq!(world.state.paused, None);
    world.ends(number, false);
    world.later(1);
    world.starts();
    world.happens(Event::Paused("bob".into()));
    world.happens(Event::StopAsked(2, "ann".into()));
    world.happens(Event::StopFailed(2, "ann".into()));
    assert!(world.state.paused.is_some(), "another one's pause stays");
}

#[test]
fn a_run_keeps_what_it_is_made_of() {
    let mut world = World::new(spec(When::Now, |_| {}));
    world.starts();
    world.spec = spec(When::Now, |it| {
        let Work::Executable { program, cell } = it.work.clone() else {
            panic!("no executable");
        };
        it.work = Work::Cell {
            labels: Default::default(),
            spec: cell,
            programs: vec![*program],
        };
    });
    world.happens(Event::Declared(true));
    let main = "main".parse().unwrap();
    assert_eq!(world.state.runs[0].shape, Shape::Executable(main));
    world.ends(1, true);
    world.starts();
    let main = "main".parse().unwrap();
    assert_eq!(world.state.runs[0].shape, Shape::Cell(vec![main]));
}

#[test]
fn a_spec_is_of_bounded_weight() {
    let heavy = |count: usize| {
        let mut draft = draft(When::Now);
        let Work::Executable { program, cell } = draft.work.clone() else {
            panic!("no executable");
        };
        let one = |i: usize| {
            let mut program = (*program).clone();
            program.name = format!("p{i}").parse().unwrap();
            let argv = vec!["/bin/true".to_owned(), "x".repeat(30 << 10)];
            let spec = executable::Draft {
                argv,
                ..Default::default()
            };
            program.spec = spec.try_into().unwrap();
            program
        };
        draft.work = Work::Cell {
            labels: Default::default(),
            spec: cell,
            programs: (0..count).map(one).collect(),
        };
        Spec::try_from(draft)
    };
    heavy(3).unwrap();
    let error = heavy(5).unwrap_err();
    assert!(error.to_string().contains("128 KiB"), "{error}");
}

#[test]
fn of_the_times_that_nobody_saw_the_last_one_says_whether_it_is_too_late() {
    // Of a run each minute the node has missed an hour; the last time was 30 s ago.
    let late = |within: u64| {
        let mut world = World::new(spec(cron("* * * * *"), |it| {
            it.missed = Some(Missed::RunOnce);
            it.start_within = Some(Duration::from_secs(within));
        }));
        world.later(3630);
        let step = world.step();
        let due = world.state.runs.first().map(|run| run.due.at);
        (step.effects.len(), due)
    };
    assert_eq!(late(60), (1, Some(Timestamp(START + 3600 * SECOND))));
    assert_eq!(late(20), (0, None));
}

#[test]
fn what_another_cron_holds_back_is_looked_at_again() {
    let mut world = World::new(spec(When::Now, |_| {}));
    world.around.cron = true;
    let step = world.step();
    assert_eq!(step.wake, Some(Timestamp(START + 30 * SECOND)), "{step:?}");
    world.around.cron = false;
    world.starts();
}
