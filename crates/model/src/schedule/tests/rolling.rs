// SPDX-License-Identifier: Apache-2.0
//! Replicas: what there is of them at each step of a rollout.

use super::super::many::{Amount, Replicas};
use super::*;

fn replicas(count: u32, change: impl FnOnce(&mut Replicas)) -> Spec {
    let mut replicas = Replicas {
        count,
        ..Replicas::default()
    };
    change(&mut replicas);
    spec(When::Now, |it| it.replicas = Some(replicas))
}

impl World {
    /// Does what is decided until nothing is left to do; stopped runs end.
    pub(super) fn settles(&mut self) -> Why {
        for _ in 0..100 {
            let step = self.step();
            if step.effects.is_empty() {
                return step.why;
            }
            for effect in step.effects {
                match effect {
                    Effect::Start(number) => self.happens(Event::Began(number)),
                    Effect::Stop(number) => self.ends(number, false),
                    Effect::Refresh(_) | Effect::Leave => {}
                }
            }
        }
        panic!("it never settles: {:#?}", self.state);
    }

    /// How many are of the current template, and how many of older ones.
    fn new_and_old(&self) -> (usize, usize) {
        let runs = self.state.runs.iter();
        let new = runs.filter(|it| it.revision == self.state.revision).count();
        (new, self.state.runs.len() - new)
    }

    fn rolls(&mut self) {
        self.happens(Event::Declared(true));
    }
}

#[test]
fn as_many_run_as_are_wanted_and_what_ends_is_replaced_with_back_off() {
    let mut world = World::new(replicas(3, |_| {}));
    assert_eq!(world.settles(), Why::Running);
    assert_eq!(world.new_and_old(), (3, 0));
    world.ends(2, false);
    assert!(matches!(world.settles(), Why::BackOff(_)));
    world.later(1);
    assert_eq!(world.settles(), Why::Running);
    let numbers: Vec<_> = world.state.runs.iter().map(|it| it.number).collect();
    assert_eq!(numbers, [1, 3, 4]);
    // What went with the node comes again at once.
    for number in numbers {
        world.happens(Event::Lost(number));
    }
    assert_eq!(world.settles(), Why::Running);
    // More, and fewer, of the same.
    let revision = world.state.revision;
    for count in [5, 2, 0] {
        world.spec = replicas(count, |_| {});
        world.happens(Event::Declared(false));
        world.settles();
        assert_eq!(world.state.runs.len(), count as usize);
    }
    assert_eq!(world.state.revision, revision);
}

#[test]
fn a_rollout_keeps_between_its_bounds_at_every_step() {
    for (unavailable, surge) in [(0, 1), (1, 0), (1, 1), (2, 3)] {
        let mut world = World::new(replicas(4, |it| {
            it.max_unavailable = Some(Amount::Number(unavailable));
            it.max_surge = Some(Amount::Number(surge));
        }));
        world.settles();
        world.rolls();
        for _ in 0..40 {
            let step = world.step();
            for effect in step.effects {
                match effect {
                    Effect::Start(number) => {
                        // It is ready a step later.
                        world.around.unready = vec![number];
                        world.happens(Event::Began(number));
                    }
                    Effect::Stop(number) => world.ends(number, false),
                    Effect::Refresh(_) | Effect::Leave => {}
                }
            }
            let live = world.state.runs.iter();
            let live = live.filter(|it| it.stopping.is_none()).count();
            let unready = &world.around.unready;
            let ready = world.state.runs.iter();
            let ready = ready.filter(|it| it.stopping.is_none() && !unready.contains(&it.number));
            let ready = ready.count();
            assert!(ready >= 4 - unavailable as usize, "{ready} ready");
            assert!(live <= 4 + surge as usize, "{live} there");
            world.around.unready.clear();
        }
        assert_eq!(world.settles(), Why::Running);
        assert_eq!(world.new_and_old(), (4, 0));
        assert_eq!(world.state.stable, Some(2));
    }
}

#[test]
fn a_template_that_is_never_ready_hangs_and_takes_nothing_away() {
    let mut world = World::new(replicas(4, |it| {
        it.progress = Some(Duration::from_secs(60))
    }));
    world.settles();
    world.around.unready = (5..100).collect();
    world.rolls();
    assert!(matches!(world.settles(), Why::Rolling(_)));
    // One may be missing and one be there beyond: two new ones wait, three old ones serve.
    assert_eq!(world.new_and_old(), (2, 3));
    // The node goes down and comes back: the old ones come again as they were.
    for number in world.state.runs.clone().iter().map(|it| it.number) {
        world.happens(Event::Lost(number));
    }
    world.around.unready.retain(|it| *it > 9);
    world.settles();
    let old = world.state.runs.iter().filter(|it| it.revision == 1);
    assert_eq!(old.count(), 3, "{:#?}", world.state.runs);
    world.around.unready = (5..100).collect();
    world.later(61);
    assert!(matches!(world.settles(), Why::Hangs(_)));
    // A third template that works replaces both.
    world.around.unready.clear();
    world.rolls();
    assert_eq!(world.settles(), Why::Running);
    assert_eq!(world.new_and_old(), (4, 0));
}

#[test]
fn recreate_ends_all_before_one_begins() {
    let mut world = World::new(replicas(2, |it| it.recreate = true));
    world.settles();
    world.rolls();
    let step = world.step();
    assert_eq!(step.effects, [Effect::Stop(1), Effect::Stop(2)]);
    world.ends(1, false);
    assert_eq!(world.step().effects, [Effect::Stop(2)]);
    world.ends(2, false);
    assert_eq!(world.step().effects, [Effect::Start(3), Effect::Start(4)]);
}

#[test]
fn what_must_be_ready_for_a_while_counts_only_then() {
    let mut world = World::new(replicas(1, |it| {
        it.min_ready = Some(Duration::from_secs(30))
    }));
    assert!(matches!(world.settles(), Why::Rolling(_)));
    world.later(30);
    assert_eq!(world.settles(), Why::Running);
}

#[test]
fn a_rollout_that_is_held_or_paused_keeps_what_there_is() {
    let mut world = World::new(replicas(2, |_| {}));
    world.settles();
    world.spec = replicas(2, |it| it.hold = true);
    world.rolls();
    assert!(matches!(world.settles(), Why::Rolling(words) if words.contains("held")));
    assert_eq!(world.new_and_old(), (0, 2));
    world.ends(1, false);
    world.later(1);
    world.settles();
    assert_eq!(world.new_and_old(), (0, 2), "the old template's");
    world.happens(Event::Paused("ann paused it".into()));
    world.ends(2, false);
    world.later(10);
    assert!(matches!(world.settles(), Why::Paused(_)));
    assert_eq!(world.state.runs.len(), 1);
    world.happens(Event::Resumed);
    world.spec = replicas(2, |_| {});
    world.happens(Event::Declared(false));
    assert_eq!(world.settles(), Why::Running);
    assert_eq!(world.new_and_old(), (2, 0));
}

#[test]
fn a_trigger_replaces_all_by_the_same() {
    let mut world = World::new(replicas(2, |_| {}));
    world.settles();
    world.happens(Event::Triggered);
    assert_eq!(world.settles(), Why::Running);
    assert_eq!(world.new_and_old(), (2, 0));
    assert_eq!(world.state.revision, 2);
    assert_eq!(world.state.numbers, 4);
}

#[test]
fn what_holds_the_new_template_back_does_not_hold_the_old_one() {
    let mut world = World::new(replicas(4, |it| {
        it.max_unavailable = Some(Amount::Number(1))
    }));
    world.settles();
    world.around.unready = (5..100).collect();
    world.rolls();
    world.settles();
    assert_eq!(world.new_and_old(), (2, 3));
    // The new ones crash: their back-off grows.
    for _ in 0..6 {
        let new = world.state.runs.iter().find(|it| it.revision == 2);
        let number = new.expect("a new one").number;
        world.ends(number, false);
        world.settles();
        world.now = world.state.held_until.unwrap().0;
        world.settles();
    }
    let new = world.state.runs.iter().find(|it| it.revision == 2);
    let number = new.unwrap().number;
    world.ends(number, false);
    world.settles();
    let old = world.state.runs.iter().find(|it| it.revision == 1).unwrap();
    let number = old.number;
    world.ends(number, false);
    world.later(1);
    world.settles();
    let old = world.state.runs.iter().filter(|it| it.revision == 1);
    assert_eq!(old.count(), 3, "the old one came again after its own 1 s");
    assert!(world.state.held_until.unwrap().0 > world.now);
}

#[test]
fn without_revisions_that_are_kept_a_rollout_ends_all_the_same() {
    let mut world = World::new(replicas(3, |it| it.revisions = Some(0)));
    world.settles();
    world.around.unready = (4..9).collect();
    world.rolls();
    world.settles();
    world.rolls();
    let known: Vec<_> = world.state.revisions.iter().map(|it| it.number).collect();
    assert_eq!(
        known,
        [1, 3],
        "that of now, and the one that is gone back to"
    );
    world.around.unready.clear();
    assert_eq!(world.settles(), Why::Running);
    assert_eq!(world.new_and_old(), (3, 0));
    // Where there are no replicas any more, none is gone back to.
    world.spec = spec(When::Now, |_| {});
    world.happens(Event::Declared(true));
    assert_eq!(world.state.stable, None);
}

#[test]
fn of_a_rollout_in_a_rollout_as_many_are_gone_back_to_as_before() {
    let mut world = World::new(replicas(4, |_| {}));
    world.settles();
    world.around.unready = (5..100).collect();
    world.rolls();
    world.settles();
    assert_eq!(world.state.old_wanted, 3);
    world.rolls();
    assert_eq!(
        world.state.old_wanted, 3,
        "two of the second one are none of them"
    );
    world.settles();
    let old: Vec<_> = world
        .state
        .runs
        .iter()
        .filter(|it| it.revision == 1)
        .collect();
    assert_eq!(old.len(), 3);
}

#[test]
fn a_removal_that_is_taken_back_by_a_declaration_ends_nothing() {
    let mut world = World::new(replicas(2, |_| {}));
    world.settles();
    world.happens(Event::Removed(Leaving {
        tenant: crate::name::Tenant::system(),
        user: "ann".parse().unwrap(),
        at: Timestamp(world.now),
        failed: None,
    }));
    for run in &mut world.state.runs {
        run.stopping = Some(Stopping::Hand);
    }
    world.happens(Event::Declared(false));
    assert!(world.state.runs.iter().all(|it| it.stopping.is_none()));
    assert_eq!(world.settles(), Why::Running);
    assert_eq!(world.state.numbers, 2);
}

proptest! {
    /// Whatever happens, and however few revisions are kept: it settles, never more are there than
    /// may be, and what is begun has a template.
    #[test]
    fn rollouts_of_chance_settle(
        kept in 0u32..3, recreate in any::<bool>(),
        events in proptest::collection::vec((0u8..7, 0usize..8), 0..40),
    ) {
        let change = |hold| replicas(3, |it| {
            (it.revisions, it.recreate, it.hold) = (Some(kept), recreate, hold);
        });
        let mut world = World::new(change(false));
        for (what, which) in events {
            let number = world.state.runs.get(which % world.state.runs.len().max(1));
            let number = number.map_or(0, |it| it.number);
            match what {
                0 => world.rolls(),
                1 => world.happens(Event::Triggered),
                2 => world.ends(number, false),
                3 => world.happens(Event::Lost(number)),
                4 => world.around.unready.push(number),
                5 => world.around.unready.clear(),
                _ => {
                    world.spec = change(which % 2 == 0);
                    world.happens(Event::Declared(false));
                }
            }
            world.later(400);
            world.settles();
            let (new, old) = world.new_and_old();
            prop_assert!(new + old <= 3 + 1, "{new} and {old}");
            for run in &world.state.runs {
                let known = world.state.revisions.iter().any(|it| it.number == run.revision);
                prop_assert!(known || run.revision < world.state.revision);
            }
        }
        world.spec = change(false);
        world.happens(Event::Declared(false));
        world.around.unready.clear();
        for _ in 0..40 {
            world.later(400);
            world.settles();
        }
        prop_assert_eq!(world.settles(), Why::Running);
        prop_assert_eq!(world.new_and_old(), (3, 0));
    }
}
