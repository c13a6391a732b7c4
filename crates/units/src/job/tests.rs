// SPDX-License-Identifier: Apache-2.0
//! Transactions and jobs on small worlds of units.

use std::collections::{BTreeMap, BTreeSet};

use super::engine::{Action, Ended, Ending, Engine};
use super::longest::longest;
use super::transaction::{Mode, Note, Planned, Refusal, Transaction, plan, plan_beside};
use super::*;
use crate::depend::Dependency;
use proptest::prelude::*;

/// How long jobs take at most: rows add up, what has no order runs at the same time.
#[test]
fn the_longest_row_of_stops_counts() {
    let world = world(
        "a After b
         b After c
         d After c
         x After y",
    );
    let stop = |name: &str| Planned {
        unit: unit(name),
        kind: JobType::Stop,
    };
    let seconds = [("a", 1), ("b", 2), ("c", 4), ("d", 16), ("x", 19)];
    let took = |names: &[&str]| {
        let jobs = names.iter().map(|it| stop(it));
        let of = |job: &Planned| {
            let own = seconds.iter().find(|it| unit(it.0) == job.unit);
            std::time::Duration::from_secs(own.map_or(0, |it| it.1))
        };
        longest(&world.graph, jobs, of).as_secs()
    };
    assert_eq!(took(&[]), 0);
    assert_eq!(took(&["a", "b", "c"]), 7);
    assert_eq!(took(&["a", "c"]), 4, "without b nothing binds a to c");
    assert_eq!(took(&["a", "b", "c", "d", "x"]), 20);
    assert_eq!(took(&["x", "a", "b", "b"]), 19);
}

/// systemd.unit(5), BindsTo=, StopPropagatedFrom=: also where it ends by itself.
#[test]
fn what_ends_by_itself_stops_what_is_bound_to_it_and_what_its_stop_goes_on_to() {
    let text = "b BindsTo a\na StopsWith c\nd Requires a\nb is active\nc is active\nd is active";
    let stopped = |text: &str| {
        let all = super::follow::stopped_with(&world(text), &unit("a"));
        all.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(stopped(text), ["b.service", "c.service"]);
    assert!(stopped(&format!("{text}\na is active")).is_empty());
}

/// A service that is being started has its socket's descriptors of before.
#[test]
fn a_restart_restarts_what_is_being_started_too() {
    let mut world = world("a is active\n b Requires a\n c Requires a\n d Requires a");
    world.activity.insert(unit("b"), Activity::Activating);
    world.activity.insert(unit("c"), Activity::Deactivating);
    let plan = plan(&world, &unit("a"), JobType::Restart, Mode::Replace).unwrap();
    let jobs: Vec<String> = plan.jobs.iter().map(ToString::to_string).collect();
    assert_eq!(jobs, ["a.service/restart", "b.service/restart"]);
}

/// systemctl(1), --job-mode=ignore-dependencies: at once, also where its job is there and waits.
#[test]
fn a_job_without_dependencies_waits_for_none() {
    let world = world("hello After sleep");
    let mut engine = Engine::default();
    let install = |name: &str, mode: Mode, engine: &mut Engine| {
        let plan = plan(&world, &unit(name), JobType::Start, mode).unwrap();
        engine.install(&plan, &world).unwrap();
    };
    install("sleep", Mode::Replace, &mut engine);
    install("hello", Mode::Replace, &mut engine);
    assert_eq!(engine.ready(&world), [unit("sleep")]);
    assert_eq!(engine.waits_for(&unit("hello"), &world), [unit("sleep")]);
    engine.begin(&unit("sleep"), &world);
    install("hello", Mode::IgnoreDependencies, &mut engine);
    assert_eq!(engine.ready(&world), [unit("hello")]);
    assert!(engine.waits_for(&unit("hello"), &world).is_empty());
    engine.begin(&unit("hello"), &world);
    engine.end(&unit("hello"), Ending::Done, &world);
    // The next one has an order again.
    install("hello", Mode::Replace, &mut engine);
    assert!(engine.ready(&world).is_empty());
    install("other", Mode::IgnoreDependencies, &mut engine);
    assert_eq!(engine.ready(&world), [unit("other")]);
}

#[derive(Default)]
struct Small {
    graph: Graph,
    activity: BTreeMap<UnitName, Activity>,
    missing: BTreeSet<UnitName>,
    kept: BTreeSet<UnitName>,
    needless: BTreeSet<UnitName>,
}

impl World for Small {
    fn graph(&self) -> &Graph {
        &self.graph
    }

    fn activity(&self, unit: &UnitName) -> Activity {
        self.activity
            .get(unit)
            .copied()
            .unwrap_or(Activity::Inactive)
    }

    fn load(&self, unit: &UnitName) -> Load {
        if self.missing.contains(unit) {
            Load::NotFound
        } else {
            Load::Loaded
        }
    }

    fn up(&self) -> Vec<UnitName> {
        self.activity
            .iter()
            .filter(|(_, it)| it.is_up())
            .map(|(unit, _)| unit.clone())
            .collect()
    }

    fn ignores_isolation(&self, unit: &UnitName) -> bool {
        self.kept.contains(unit)
    }

    fn may_isolate(&self, unit: &UnitName) -> bool {
        unit.kind() == crate::name::UnitType::Target
    }

    fn stops_when_unneeded(&self, unit: &UnitName) -> bool {
        self.needless.contains(unit)
    }
}

fn unit(name: &str) -> UnitName {
    let name = if name.contains('.') {
        name.to_owned()
    } else {
        format!("{name}.service")
    };
    UnitName::parse(&name).unwrap()
}

/// `a Requires b`, a line each; `a is active` says how far a unit is.
fn world(text: &str) -> Small {
    let mut world = Small::default();
    for line in text.lines().map(str::trim).filter(|it| !it.is_empty()) {
        let words: Vec<&str> = line.split(' ').collect();
        let (one, other) = (unit(words[0]), words[2]);
        let kind = match words[1] {
            "Requires" => Dependency::Requires,
            "Requisite" => Dependency::Requisite,
            "Wants" => Dependency::Wants,
            "BindsTo" => Dependency::BindsTo,
            "PartOf" => Dependency::PartOf,
            "Conflicts" => Dependency::Conflicts,
            "Before" => Dependency::Before,
            "After" => Dependency::After,
            "Reloads" => Dependency::PropagatesReloadTo,
            "Upholds" => Dependency::Upholds,
            "StopsWith" => Dependency::PropagatesStopTo,
            "is" if other == "active" => {
                world.activity.insert(one, Activity::Active);
                continue;
            }
            "is" if other == "missing" => {
                world.missing.insert(one);
                continue;
            }
            "is" if other == "needless" => {
                world.needless.insert(one);
                continue;
            }
            "is" if other == "kept" => {
                world.kept.insert(one);
                continue;
            }
            other => panic!("{other}"),
        };
        world.graph.add(kind, &one, &unit(other));
    }
    world
}

fn planned(world: &Small, name: &str, kind: JobType, mode: Mode) -> Result<Transaction, Refusal> {
    plan(world, &unit(name), kind, mode)
}

fn jobs(transaction: &Transaction) -> Vec<String> {
    transaction
        .jobs
        .iter()
        .map(|it| it.to_string().replace(".service", ""))
        .collect()
}

fn start(text: &str) -> Vec<String> {
    jobs(&planned(&world(text), "a", JobType::Start, Mode::Replace).unwrap())
}

#[test]
fn a_start_pulls_in_what_it_needs_and_wants() {
    // systemd.unit(5), Requires=, Wants=, BindsTo=, Requisite=, Conflicts=.
    assert_eq!(
        start("a Requires b\nb Wants c\na Before x"),
        ["a/start", "b/start", "c/start"]
    );
    assert_eq!(start("a Requires b\nb is active"), ["a/start"]);
    assert_eq!(start("a Conflicts b\nb is active"), ["a/start", "b/stop"]);
    assert_eq!(start("b Conflicts a\nb is active"), ["a/start", "b/stop"]);
    assert_eq!(start("a Requisite b"), ["a/start", "b/verify-active"]);
    assert_eq!(start("a BindsTo b\na After b"), ["a/start", "b/start"]);
}

#[test]
fn a_wanted_unit_that_is_missing_is_left_out_and_a_required_one_is_not() {
    let wants = world("a Wants b\nb Requires c\nc is missing");
    let transaction = planned(&wants, "a", JobType::Start, Mode::Replace).unwrap();
    assert_eq!(jobs(&transaction), ["a/start"]);
    assert!(matches!(&transaction.notes[0], Note::LeftOut(..)));
    let requires = world("a Requires b\nb Requires c\nc is missing");
    let refusal = planned(&requires, "a", JobType::Start, Mode::Replace).unwrap_err();
    assert_eq!(refusal, Refusal::NotFound(unit("c")));
}

#[test]
fn a_stop_takes_along_who_requires_it() {
    let text = "b Requires a\nc PartOf a\nd Wants a\ne BindsTo b\nb is active\nc is active\n\
        d is active\ne is active\na is active";
    let transaction = planned(&world(text), "a", JobType::Stop, Mode::Replace).unwrap();
    assert_eq!(jobs(&transaction), ["a/stop", "b/stop", "c/stop", "e/stop"]);
    let transaction = planned(&world(text), "a", JobType::Restart, Mode::Replace).unwrap();
    assert_eq!(
        jobs(&transaction),
        ["a/restart", "b/restart", "c/restart", "e/restart"]
    );
    let down = world("b Requires a\na is active");
    let transaction = planned(&down, "a", JobType::Restart, Mode::Replace).unwrap();
    assert_eq!(jobs(&transaction), ["a/restart"]);
}

#[test]
fn a_reload_goes_on_to_what_is_active() {
    let world = world("a Reloads b\na Reloads c\na is active\nb is active");
    let transaction = planned(&world, "a", JobType::Reload, Mode::Replace).unwrap();
    assert_eq!(jobs(&transaction), ["a/reload", "b/reload"]);
}

#[test]
fn an_isolation_stops_the_rest() {
    // systemctl(1), isolate.
    let text = "x.target Requires b\nb is active\nc is active\nd is active\nd is kept\n\
        b Wants e\ne is active";
    let transaction = planned(&world(text), "x.target", JobType::Start, Mode::Isolate).unwrap();
    assert_eq!(jobs(&transaction), ["c/stop", "x.target/start"]);
    let refused = planned(&world(""), "a", JobType::Start, Mode::Isolate).unwrap_err();
    assert_eq!(refused, Refusal::NotIsolated(unit("a")));
}

#[test]
fn an_isolation_starts_what_a_target_that_is_up_wants() {
    // systemd collects no garbage there: a boot that went into the emergency mode goes on.
    let text = "x.target Wants getty.target\ngetty.target is active\ngetty.target Wants tty\n\
        tty Requires slice\nslice is active";
    let transaction = planned(&world(text), "x.target", JobType::Start, Mode::Isolate).unwrap();
    assert_eq!(jobs(&transaction), ["tty/start", "x.target/start"]);
    let transaction = planned(&world(text), "x.target", JobType::Start, Mode::Replace).unwrap();
    assert_eq!(jobs(&transaction), ["x.target/start"]);
}

#[test]
fn a_cycle_loses_a_job_that_is_not_needed() {
    let text = "a Wants b\na Requires c\na After b\nb After c\nc After a";
    let transaction = planned(&world(text), "a", JobType::Start, Mode::Replace).unwrap();
    assert_eq!(jobs(&transaction), ["a/start", "c/start"]);
    let Note::CycleBroken(cycle, victim) = &transaction.notes[0] else {
        panic!("{:?}", transaction.notes);
    };
    assert_eq!((cycle.len(), victim.unit.clone()), (3, unit("b")));
    let needed = text.replace("Wants", "Requires");
    let refusal = planned(&world(&needed), "a", JobType::Start, Mode::Replace).unwrap_err();
    assert!(
        refusal.to_string().contains("wait for each other"),
        "{refusal}"
    );
}

#[test]
fn what_a_contradiction_leaves_does_not_wait_for_itself() {
    // The stop of b hides a circle of starts until it has lost to the start.
    let text = "a Requires c\nc Requires b\na Wants d\na Wants z\nz Conflicts b\n\
        b After d\nd After b";
    let transaction = planned(&world(text), "a", JobType::Start, Mode::Replace).unwrap();
    assert_eq!(jobs(&transaction), ["a/start", "b/start", "c/start"]);
    // As restarts they stop in order, as starts they would wait for each other.
    let text = "a Wants b\na After b\nb After a\na is active\nb PartOf x";
    let transaction = planned(&world(text), "a", JobType::Restart, Mode::Replace).unwrap();
    assert_eq!(jobs(&transaction), ["a/restart"]);
}

#[test]
fn contradictions_lose_what_is_not_needed() {
    let text = "a Requires b\na Wants c\nc Conflicts b\nb Before x\nc Before x";
    let transaction = planned(&world(text), "a", JobType::Start, Mode::Replace).unwrap();
    assert_eq!(jobs(&transaction), ["a/start", "b/start"]);
    let needed = text.replace("Wants", "Requires");
    let refusal = planned(&world(&needed), "a", JobType::Start, Mode::Replace).unwrap_err();
    assert!(matches!(refusal, Refusal::Contradiction(..)), "{refusal}");
}

/// Does all jobs; the names of units in the order in which something was done to them.
fn run(engine: &mut Engine, world: &mut Small, fails: &[&str]) -> (Vec<String>, Vec<Ended>) {
    let mut done = Vec::new();
    let mut ended = Vec::new();
    loop {
        let ready = engine.ready(world);
        let Some(unit) = ready.first().cloned() else {
            assert_eq!(engine.jobs().count(), 0, "{engine:?}");
            return (done, ended);
        };
        let (action, more) = engine.begin(&unit, world);
        ended.extend(more);
        if action == Action::Nothing {
            continue;
        }
        let name = unit.as_str().replace(".service", "");
        done.push(format!("{action:?} {name}"));
        let failed = fails.contains(&&*name);
        let after = match action {
            Action::Stop => Activity::Inactive,
            _ if failed => Activity::Failed,
            _ => Activity::Active,
        };
        world.activity.insert(unit.clone(), after);
        let ending = if failed { Ending::Failed } else { Ending::Done };
        ended.extend(engine.end(&unit, ending, world));
    }
}

fn done(text: &str, name: &str, kind: JobType, fails: &[&str]) -> (Vec<String>, Vec<Ended>) {
    let mut world = world(text);
    let transaction = planned(&world, name, kind, Mode::Replace).unwrap();
    let mut engine = Engine::default();
    assert_eq!(engine.install(&transaction, &world), Ok(vec![]));
    run(&mut engine, &mut world, fails)
}

#[test]
fn starts_go_by_the_order_and_stops_against_it() {
    // systemd.unit(5), Before=, After=.
    let text = "a Requires b\na After b\nb Requires c\nb After c";
    assert_eq!(
        done(text, "a", JobType::Start, &[]).0,
        ["Start c", "Start b", "Start a"]
    );
    let up = format!("{text}\na is active\nb is active\nc is active");
    assert_eq!(
        done(&up, "c", JobType::Stop, &[]).0,
        ["Stop a", "Stop b", "Stop c"]
    );
    assert_eq!(
        done(&up, "b", JobType::Restart, &[]).0,
        ["Stop a", "Stop b", "Start b", "Start a"]
    );
    let conflict = "a Conflicts b\na Before b\nb is active";
    assert_eq!(
        done(conflict, "a", JobType::Start, &[]).0,
        ["Stop b", "Start a"]
    );
}

#[test]
fn what_needs_a_failed_start_fails() {
    let text = "a Requires b\na After b\na Wants d\nb Requires c\nb After c\nd After c";
    let (actions, ended) = done(text, "a", JobType::Start, &["c"]);
    assert_eq!(actions, ["Start c", "Start d"]);
    let of = |name: &str| {
        ended
            .iter()
            .find(|it| it.unit == unit(name))
            .unwrap()
            .ending
    };
    assert_eq!(
        (of("c"), of("b"), of("a")),
        (Ending::Failed, Ending::Dependency, Ending::Dependency)
    );
    let (_, ended) = done("a Requisite b\na After b", "a", JobType::Start, &[]);
    assert_eq!(ended.last().unwrap().ending, Ending::Dependency);
}

#[test]
fn a_later_transaction_replaces_or_is_refused() {
    let world = world("a is active");
    let stop = planned(&world, "a", JobType::Stop, Mode::ReplaceIrreversibly).unwrap();
    let mut engine = Engine::default();
    engine.install(&stop, &world).unwrap();
    let mut restart = planned(&world, "a", JobType::Restart, Mode::Replace).unwrap();
    assert!(matches!(
        engine.install(&restart, &world),
        Err(Refusal::Destructive(..))
    ));
    let mut engine = Engine::default();
    let stop = planned(&world, "a", JobType::Stop, Mode::Replace).unwrap();
    engine.install(&stop, &world).unwrap();
    let ended = engine.install(&restart, &world).unwrap();
    assert_eq!(ended[0].ending, Ending::Cancelled);
    assert_eq!(engine.job(&unit("a")).unwrap().kind, JobType::Restart);
    restart.mode = Mode::Fail;
    assert!(engine.install(&restart, &world).is_ok());
}

#[test]
fn what_nobody_needs_is_stopped() {
    // systemd.unit(5), StopWhenUnneeded=.
    let of = |text: &str, jobs: &[&str]| {
        let has_job = |it: &UnitName| jobs.iter().any(|job| unit(job) == *it);
        let world = world(&format!("b is needless\nb is active\n{text}"));
        follow::is_unneeded(&world, &unit("b"), &has_job)
    };
    assert!(of("", &[]));
    for kind in ["Requires", "Requisite", "Wants", "BindsTo", "Upholds"] {
        assert!(of(&format!("a {kind} b"), &[]), "{kind}: a is down");
        assert!(!of(&format!("a {kind} b\na is active"), &[]), "{kind}");
        assert!(
            !of(&format!("a {kind} b"), &["a"]),
            "{kind}: a is on its way"
        );
    }
    assert!(of(
        "a PartOf b\na is active\nb Requires c\nc is active",
        &[]
    ));
    assert!(!of("", &["b"]), "it has a job of its own");
    let only_needed = world("b is active");
    assert!(!follow::is_unneeded(&only_needed, &unit("b"), &|_| false));
    let down = world("b is needless");
    assert!(!follow::is_unneeded(&down, &unit("b"), &|_| false));
}

#[test]
fn what_is_upheld_is_started_again() {
    // systemd.unit(5), Upholds=.
    let of = |text: &str, jobs: &[&str]| {
        let has_job = |it: &UnitName| jobs.iter().any(|job| unit(job) == *it);
        follow::fallen(
            &world(&format!("a Upholds b\n{text}")),
            &unit("a"),
            &has_job,
        )
    };
    assert_eq!(of("a is active", &[]), [unit("b")]);
    assert_eq!(of("a is active\nb is active", &[]), []);
    assert_eq!(of("a is active", &["b"]), []);
    assert_eq!(of("a is active", &["a"]), []);
    assert_eq!(of("", &[]), []);
}

#[test]
fn a_start_waits_for_its_own_unit_to_be_down() {
    let mut world = world("a is active");
    let a = unit("a");
    let mut engine = Engine::default();
    let stop = planned(&world, "a", JobType::Stop, Mode::Replace).unwrap();
    engine.install(&stop, &world).unwrap();
    assert_eq!(engine.begin(&a, &world).0, Action::Stop);
    world.activity.insert(a.clone(), Activity::Deactivating);
    let start = planned(&world, "a", JobType::Start, Mode::Replace).unwrap();
    engine.install(&start, &world).unwrap();
    assert_eq!(engine.ready(&world), []);
    world.activity.insert(a.clone(), Activity::Inactive);
    assert_eq!(engine.ready(&world), std::slice::from_ref(&a));
    // It was begun too early: it waits again.
    assert_eq!(engine.begin(&a, &world).0, Action::Start);
    assert_eq!(engine.ready(&world), []);
    engine.put_back(&a);
    assert_eq!(engine.ready(&world), [a]);
}

proptest! {
    /// Whatever the dependencies: a transaction is refused, or each of its jobs comes to its turn.
    #[test]
    fn every_transaction_comes_to_its_end(
        edges in proptest::collection::vec((0usize..6, 0usize..6, 0usize..7), 0..25),
        active in proptest::collection::vec(0usize..6, 0..4), kind in 0usize..3,
    ) {
        const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
        const KINDS: [Dependency; 7] = [
            Dependency::Requires, Dependency::Wants, Dependency::BindsTo, Dependency::Conflicts,
            Dependency::After, Dependency::PartOf, Dependency::Requisite,
        ];
        let mut world = Small::default();
        for (from, to, kind) in edges {
            world.graph.add(KINDS[kind], &unit(NAMES[from]), &unit(NAMES[to]));
        }
        for index in active {
            world.activity.insert(unit(NAMES[index]), Activity::Active);
        }
        let kind = [JobType::Start, JobType::Stop, JobType::Restart][kind];
        if let Ok(transaction) = planned(&world, "a", kind, Mode::Replace) {
            let units: BTreeSet<_> = transaction.jobs.iter().map(|it| &it.unit).collect();
            prop_assert_eq!(units.len(), transaction.jobs.len());
            let mut engine = Engine::default();
            engine.install(&transaction, &world).unwrap();
            run(&mut engine, &mut world, &[]);
        }
    }
}

/// systemd.unit(5): what is up already isn't started again, and what it wants isn't either; what is
/// asked for is looked at with all it needs, though it is up.
#[test]
fn what_is_up_pulls_nothing_in() {
    let text = "a Requires b\nb Wants c\nb Requires d\nc Requires e";
    let mut up = world(text);
    for name in ["b.service", "d.service"] {
        up.activity
            .insert(UnitName::parse(name).unwrap(), Activity::Active);
    }
    let transaction = planned(&up, "a", JobType::Start, Mode::Replace).unwrap();
    assert_eq!(jobs(&transaction), ["a/start"]);
    let asked = planned(&up, "b", JobType::Start, Mode::Replace).unwrap();
    assert_eq!(jobs(&asked), ["b/start", "c/start", "e/start"]);
}

/// Each job is looked at when what it waits for has moved, and begins at last.
#[test]
fn jobs_are_looked_at_when_something_has_moved() {
    let text = "a Requires b\na After b\nb Requires c\nb After c\nd After a\na Wants d";
    let world = world(text);
    let unit = |name: &str| UnitName::parse(&format!("{name}.service")).unwrap();
    let mut engine = Engine::default();
    let transaction = planned(&world, "a", JobType::Start, Mode::Replace).unwrap();
    engine.install(&transaction, &world).unwrap();
    for name in ["c", "b", "a", "d"] {
        assert_eq!(engine.ready(&world), [unit(name)]);
        engine.begin(&unit(name), &world);
        assert_eq!(engine.ready(&world), []);
        engine.reordered();
        assert_eq!(engine.ready(&world), []);
        engine.end(&unit(name), Ending::Done, &world);
    }
    assert!(engine.is_empty());
    let changed: Vec<UnitName> = engine.take_changed().into_iter().collect();
    assert_eq!(changed, ["a", "b", "c", "d"].map(unit));
    assert!(engine.take_changed().is_empty());
}

#[test]
fn what_is_set_aside_is_looked_at_when_it_is_taken_up() {
    let world = world("a Wants b\na Wants c");
    let transaction = planned(&world, "a", JobType::Start, Mode::Replace).unwrap();
    let mut engine = Engine::default();
    engine.install(&transaction, &world).unwrap();
    let ready = engine.ready(&world);
    for unit in &ready {
        engine.set_aside(unit);
    }
    assert!(engine.ready(&world).is_empty());
    assert!(engine.take_up(1));
    assert_eq!(engine.ready(&world), ready[..1]);
    // One that was called off meanwhile isn't there any more, and takes the place of none.
    engine.cancel(&ready[1], &world);
    assert!(engine.take_up(1));
    let left = [ready[0].clone(), ready[2].clone()];
    assert_eq!(engine.ready(&world), left);
    assert!(!engine.take_up(1));
}

/// `sysinit.target` conflicts with `emergency.target`: a boot doesn't go on beside it.
#[test]
fn a_conflict_calls_off_a_start_that_has_not_begun_with_what_needs_it() {
    let mut world = world(
        "boot Requires ssh\nboot Requires web\nssh Requires sysinit\nssh After sysinit\n\
         sysinit Wants disk\nsysinit After disk\nsysinit Conflicts emergency\n\
         sysinit After emergency",
    );
    let mut engine = Engine::default();
    let boot = planned(&world, "boot", JobType::Start, Mode::Replace).unwrap();
    engine.install(&boot, &world).unwrap();
    let disk = unit("disk");
    assert!(engine.ready(&world).contains(&disk));
    engine.begin(&disk, &world);
    let pending = |unit: &UnitName| engine.job(unit).map(|it| it.kind);
    let emergency = unit("emergency");
    let (start, mode) = (JobType::Start, Mode::Replace);
    let emergency = plan_beside(&world, &emergency, start, mode, &pending).unwrap();
    let all = ["boot/stop", "emergency/start", "ssh/stop", "sysinit/stop"];
    assert_eq!(jobs(&emergency), all);
    engine.install(&emergency, &world).unwrap();
    engine.end(&disk, Ending::Failed, &world);
    let (order, _) = run(&mut engine, &mut world, &[]);
    assert_eq!(order, ["Start emergency", "Start web"]);
}
