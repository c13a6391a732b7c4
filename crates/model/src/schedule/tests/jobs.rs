// SPDX-License-Identifier: Apache-2.0
//! Jobs: how many runs go on, how many fail, when it is over.

use super::super::many::Job;
use super::*;

fn job(when: When, change: impl FnOnce(&mut Job)) -> Spec {
    let mut job = Job::default();
    change(&mut job);
    spec(when, |it| it.job = Some(job))
}

impl World {
    /// The numbers of the runs that go on once nothing is left to begin; what is stopped ends.
    fn going(&mut self) -> Vec<u64> {
        self.settles();
        self.state.runs.iter().map(|it| it.number).collect()
    }
}

#[test]
fn a_job_runs_so_many_at_a_time_until_enough_have_succeeded() {
    let mut world = World::new(job(When::Now, |it| {
        it.completions = Some(3);
        it.parallelism = Some(2);
        it.indexed = true;
    }));
    assert_eq!(world.going(), [1, 2]);
    world.ends(1, true);
    assert_eq!(world.going(), [2, 3]);
    world.ends(2, false);
    world.later(1);
    assert_eq!(world.going(), [3, 4]);
    let indexes: Vec<_> = world.state.runs.iter().map(|it| it.index).collect();
    assert_eq!(
        indexes,
        [Some(2), Some(1)],
        "the one that failed comes again"
    );
    world.happens(Event::Lost(3));
    assert_eq!(world.going(), [4, 5], "the node's end is no failure");
    world.ends(4, true);
    world.ends(5, true);
    let why = world.settles();
    assert_eq!(why, Why::Done(true, "3 of 3 succeeded".into()));
    assert_eq!((world.state.ended, world.state.succeeded), (1, 1));
}

#[test]
fn a_job_that_fails_too_often_or_lasts_too_long_ends_with_its_runs() {
    let mut world = World::new(job(When::Now, |it| {
        it.failures = Some(1);
        it.parallelism = Some(2);
        it.completions = Some(5);
    }));
    for _ in 0..2 {
        let first = world.going()[0];
        world.ends(first, false);
        world.later(10);
    }
    let why = world.settles();
    assert!(
        matches!(&why, Why::Done(false, words) if words.contains("2 runs failed")),
        "{why:?}"
    );
    assert!(world.state.runs.is_empty());

    let mut world = World::new(job(When::Now, |it| {
        it.deadline = Some(Duration::from_secs(9))
    }));
    assert_eq!(world.going(), [1]);
    world.later(9);
    assert!(matches!(world.settles(), Why::Done(false, words) if words.contains("9 s")));
}

#[test]
fn without_a_number_the_first_success_is_enough_and_the_others_end_by_themselves() {
    let mut world = World::new(job(When::Now, |it| it.parallelism = Some(3)));
    assert_eq!(world.going(), [1, 2, 3]);
    world.ends(2, true);
    assert_eq!(world.going(), [1, 3]);
    world.ends(1, true);
    world.ends(3, true);
    assert!(matches!(world.settles(), Why::Done(true, _)));
}

#[test]
fn a_job_goes_some_time_after_its_end() {
    let mut world = World::new(job(When::Now, |it| {
        it.remove_after = Some(Duration::from_secs(60));
    }));
    world.going();
    world.ends(1, true);
    world.settles();
    world.later(60);
    assert_eq!(world.step().effects, [Effect::Leave]);
}

#[test]
fn times_begin_jobs_as_the_overlap_says() {
    let each = |overlap| {
        let mut world = World::new(spec(cron("* * * * * *"), |it| {
            it.job = Some(Job::default());
            it.overlap = overlap;
        }));
        world.later(1);
        assert_eq!(world.going(), [1]);
        world.later(1);
        let going = world.going();
        (world, going)
    };
    let (mut world, going) = each(Overlap::Forbid);
    assert_eq!(going, [1]);
    assert!(world.outcomes.contains(&Outcome::Skipped));
    world.spec = spec(cron("* * * * * *"), |it| {
        it.job = Some(Job::default());
        it.suspended = true;
    });
    world.ends(1, true);
    world.later(5);
    assert!(world.going().is_empty(), "it is suspended");
    assert_eq!(each(Overlap::Allow).1, [1, 2]);
    assert_eq!(each(Overlap::Replace).1, [2]);
}

#[test]
fn what_runs_at_boot_runs_once_after_each_that_comes() {
    let mut world = World::new(spec(When::Boot, |_| {}));
    world.around.boot = "a".into();
    assert!(matches!(world.idles(), Why::Elsewhere(_)));
    world.around.boot = "b".into();
    let number = world.starts();
    world.ends(number, true);
    assert!(matches!(world.idles(), Why::Done(true, _)));
    world.around.boot = "c".into();
    world.starts();
}

proptest! {
    /// Whatever happens: no more go on than may, each index once at a time, and none after the end.
    #[test]
    fn jobs_of_chance_keep_their_bounds(
        completions in 1u32..6, parallelism in 1u32..5, failures in 0u32..4,
        ends in proptest::collection::vec((0usize..4, 0u8..4), 0..60),
    ) {
        let mut world = World::new(job(When::Now, |it| {
            it.completions = Some(completions);
            it.parallelism = Some(parallelism);
            it.failures = Some(failures);
            it.indexed = true;
        }));
        for (which, how) in ends {
            let going = world.going();
            prop_assert!(going.len() <= parallelism as usize);
            let indexes: std::collections::BTreeSet<_> =
                world.state.runs.iter().map(|it| it.index).collect();
            prop_assert_eq!(indexes.len(), going.len());
            if let Some(number) = going.get(which % going.len().max(1)) {
                match how {
                    0 => world.happens(Event::Lost(*number)),
                    how => world.ends(*number, how > 1),
                }
            }
            world.later(400);
        }
        world.settles();
        if world.state.done {
            prop_assert!(world.state.runs.is_empty());
        }
    }
}

#[test]
fn what_a_job_has_done_stays_done_when_only_the_way_it_goes_on_changes() {
    let with = |change: fn(&mut Job)| {
        job(When::Now, |it| {
            it.completions = Some(3);
            it.parallelism = Some(1);
            it.indexed = true;
            change(it);
        })
    };
    let mut world = World::new(with(|_| {}));
    let first = world.going()[0];
    world.ends(first, true);
    assert_eq!(world.going(), [2]);
    let other = with(|it| {
        it.parallelism = Some(2);
        it.failures = Some(1);
        it.remove_after = Some(Duration::from_secs(9));
    });
    assert!(world.spec.goes_on_as(&other));
    assert!(!world.spec.goes_on_as(&with(|it| it.completions = Some(4))));
    world.spec = other;
    world.happens(Event::Adjusted);
    assert_eq!(world.going(), [2, 3], "index 0 is done, and 1 goes on");
    world.ends(2, true);
    world.ends(3, true);
    assert!(matches!(world.settles(), Why::Done(true, _)));
    // It has ended, and ends no second time.
    world.happens(Event::Adjusted);
    world.settles();
    assert_eq!((world.state.ended, world.state.numbers), (1, 3));
}

#[test]
fn what_succeeds_while_it_is_stopped_has_succeeded() {
    let mut world = World::new(job(When::Now, |it| it.completions = Some(2)));
    assert_eq!(world.going(), [1]);
    world.spec = spec(When::Now, |it| {
        it.job = world.spec.job;
        it.suspended = true;
    });
    assert_eq!(world.step().effects, [Effect::Stop(1)]);
    world.ends(1, true);
    assert_eq!(world.state.jobs[0].succeeded, 1);
    assert_eq!(world.outcomes.last(), Some(&Outcome::Succeeded));
}

#[test]
fn a_job_that_goes_down_with_the_node_again_and_again_fails() {
    let mut world = World::new(job(When::Now, |it| {
        it.failures = Some(1);
        it.completions = Some(4);
        it.parallelism = Some(2);
    }));
    let mut reboots = 0;
    loop {
        let going = world.going();
        if going.is_empty() {
            break;
        }
        reboots += 1;
        assert!(reboots < 20, "it never ends");
        // Both go at once, and are one loss.
        going.iter().for_each(|it| world.happens(Event::Lost(*it)));
        world.later(60);
    }
    assert_eq!(reboots, 7);
    assert!(matches!(world.settles(), Why::Done(false, _)));
}
