// SPDX-License-Identifier: Apache-2.0
//! The steps of pods: tables of what Kubernetes documents, and pods whose containers end as chance
//! has it.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::pod::spec::Draft;

fn container(name: &str) -> Container {
    Container {
        name: name.to_owned(),
        entrypoint: vec!["true".to_owned()],
        ..Container::default()
    }
}

fn sidecar(name: &str) -> Container {
    Container {
        sidecar: true,
        ..container(name)
    }
}

fn pod(inits: Vec<Container>, apps: usize, restart: Restart) -> PodSpec {
    let draft = Draft {
        containers: (0..apps).map(|i| container(&format!("app{i}"))).collect(),
        init_containers: inits,
        restart,
        ..Draft::default()
    };
    draft.try_into().unwrap()
}

const SECOND: u64 = 1_000_000_000;

fn at(seconds: u64) -> Timestamp {
    Timestamp(seconds * SECOND)
}

fn running() -> Seen {
    Seen::Running(Run {
        count: Count::default(),
        started: true,
        ready: true,
        unhealthy: false,
    })
}

fn ended(success: bool, in_a_row: u32, seconds: u64) -> Seen {
    let count = Count {
        restarts: in_a_row,
        in_a_row,
    };
    Seen::Ended(End {
        count,
        at: at(seconds),
        ran: Duration::from_secs(1),
        success,
    })
}

#[test]
fn a_pod_that_outlives_its_deadline_is_stopped_and_has_failed() {
    let draft = Draft {
        containers: vec![container("app")],
        init_containers: vec![sidecar("beside")],
        restart: Restart::Always,
        active_deadline: Some(Duration::from_secs(10)),
        ..Draft::default()
    };
    let spec: PodSpec = draft.clone().try_into().unwrap();
    let never: PodSpec = Draft {
        restart: Restart::Never,
        ..draft
    }
    .try_into()
    .unwrap();
    let step = |spec: &PodSpec, seen: &[Seen], now| next(spec, seen, false, at(5), at(now));
    // Until then nothing is different, and the pod is looked at in time.
    let before = step(&spec, &[running(), running()], 14);
    let expected = (Phase::Running, Some(at(15)), false);
    assert_eq!((before.phase, before.wake, before.outlived), expected);
    let backs_off = step(&spec, &[running(), ended(false, 3, 14)], 14);
    assert_eq!(backs_off.wake, Some(at(15)));
    // The app, then what is beside it; a wait for a restart is over.
    let app = step(&spec, &[running(), running()], 15);
    assert_eq!(
        (app.effects, app.phase),
        (vec![Effect::Stop(1)], Phase::Running)
    );
    assert!(app.outlived);
    let waits = step(&spec, &[running(), ended(false, 3, 14)], 15);
    assert_eq!((waits.effects, waits.wake), (vec![Effect::Stop(0)], None));
    let starts = step(&spec, &[Seen::Absent, Seen::Absent], 15);
    assert_eq!((starts.effects, starts.phase), (Vec::new(), Phase::Failed));
    // Whatever it ends with.
    let done = step(&never, &[ended(true, 0, 17), ended(true, 0, 16)], 99);
    assert_eq!((done.phase, done.wake), (Phase::Failed, None));
    // What was over in time stays what it was.
    let over = step(&never, &[ended(true, 0, 14), ended(true, 0, 14)], 99);
    assert_eq!((over.phase, over.outlived), (Phase::Succeeded, false));
}

#[test]
fn the_restart_policy_decides_about_each_end() {
    for (restart, success, again, phase) in [
        (Restart::Always, true, true, Phase::Running),
        (Restart::Always, false, true, Phase::Running),
        (Restart::OnFailure, true, false, Phase::Succeeded),
        (Restart::OnFailure, false, true, Phase::Running),
        (Restart::Never, true, false, Phase::Succeeded),
        (Restart::Never, false, false, Phase::Failed),
    ] {
        let spec = pod(Vec::new(), 1, restart);
        let step = next(&spec, &[ended(success, 0, 5)], false, at(0), at(5));
        let starts = step
            .effects
            .iter()
            .any(|it| matches!(it, Effect::Start(..)));
        assert_eq!(
            (starts, step.phase),
            (again, phase),
            "{restart:?} {success}"
        );
    }
}

#[test]
fn a_container_that_ends_again_waits_longer() {
    let spec = pod(Vec::new(), 1, Restart::Always);
    let step = next(&spec, &[ended(false, 2, 100)], false, at(0), at(100));
    assert_eq!((step.effects.len(), step.wake), (0, Some(at(120))));
    let step = next(&spec, &[ended(false, 2, 100)], false, at(0), at(120));
    let count = Count {
        restarts: 3,
        in_a_row: 3,
    };
    assert_eq!(step.effects, [Effect::Start(0, count)]);
}

#[test]
fn init_containers_run_in_order_and_sidecars_stay() {
    let spec = pod(
        vec![container("a"), sidecar("b"), container("c")],
        1,
        Restart::Never,
    );
    let first = Count::default();
    let absent = Seen::Absent;
    let begun = Seen::Running(Run {
        count: first,
        started: false,
        ready: false,
        unhealthy: false,
    });
    let done = ended(true, 0, 0);
    for (seen, effects) in [
        ([absent; 4], vec![Effect::Start(0, first)]),
        ([begun, absent, absent, absent], vec![]),
        (
            [done, absent, absent, absent],
            vec![Effect::Start(1, first)],
        ),
        ([done, begun, absent, absent], vec![]),
        (
            [done, running(), absent, absent],
            vec![Effect::Start(2, first)],
        ),
        (
            [done, running(), done, absent],
            vec![Effect::Start(3, first)],
        ),
        // The app has ended: so does the sidecar.
        ([done, running(), done, done], vec![Effect::Stop(1)]),
    ] {
        let step = next(&spec, &seen, false, at(0), at(1));
        assert_eq!(step.effects, effects, "{seen:?}");
    }
    let failed = ended(false, 0, 0);
    let step = next(
        &spec,
        &[done, running(), failed, absent],
        false,
        at(0),
        at(1),
    );
    assert_eq!(step.effects, [Effect::Stop(1)]);
    let step = next(&spec, &[done, failed, failed, absent], false, at(0), at(1));
    assert_eq!((step.effects.len(), step.phase), (0, Phase::Failed));
}

#[test]
fn a_stop_ends_app_containers_first_and_init_containers_in_reverse() {
    let spec = pod(vec![sidecar("a"), sidecar("b")], 2, Restart::Always);
    let gone = ended(false, 0, 0);
    let on = running();
    let stopping = Seen::Stopping(Count::default());
    for (seen, effects) in [
        ([on, on, on, on], vec![Effect::Stop(2), Effect::Stop(3)]),
        ([on, on, stopping, gone], vec![]),
        ([on, on, gone, gone], vec![Effect::Stop(1)]),
        ([on, stopping, gone, gone], vec![]),
        ([on, gone, gone, gone], vec![Effect::Stop(0)]),
        ([gone, gone, gone, gone], vec![]),
    ] {
        assert_eq!(
            next(&spec, &seen, true, at(0), at(9)).effects,
            effects,
            "{seen:?}"
        );
    }
    let step = next(&spec, &[gone; 4], true, at(0), at(9));
    assert_eq!((step.phase, step.wake), (Phase::Failed, None));
}

#[test]
fn an_unhealthy_container_is_stopped_once() {
    let spec = pod(Vec::new(), 1, Restart::Always);
    let sick = Seen::Running(Run {
        count: Count::default(),
        started: true,
        ready: false,
        unhealthy: true,
    });
    for stopping in [false, true] {
        let step = next(&spec, &[sick], stopping, at(0), at(1));
        assert_eq!(step.effects, [Effect::Stop(0)]);
    }
}

/// What becomes of containers, as chance has it.
struct World {
    spec: PodSpec,
    seen: Vec<Seen>,
    starts: BTreeMap<usize, u32>,
    now: u64,
    stopping: bool,
}

impl World {
    /// Carries a step out; `fate` says how what ends has ended.
    fn step(&mut self, fate: &mut impl Iterator<Item = u8>) -> Result<bool, TestCaseError> {
        let step = next(&self.spec, &self.seen, self.stopping, at(0), at(self.now));
        for effect in &step.effects {
            match *effect {
                Effect::Start(number, count) => self.start(number, count)?,
                Effect::Stop(number) => {
                    prop_assert!(matches!(self.seen[number], Seen::Running(_)));
                    self.end(number, false);
                }
            }
        }
        if !step.effects.is_empty() {
            return Ok(true);
        }
        if let Some(number) = self
            .seen
            .iter()
            .position(|it| matches!(it, Seen::Running(_)))
            && let Some(fate) = fate.next()
        {
            let all: Vec<_> = self.spec.all().map(|it| it.sidecar).collect();
            let mut running = (number..self.seen.len())
                .filter(|i| matches!(self.seen[*i], Seen::Running(_)) && (!all[*i] || fate > 200));
            if let Some(number) = running.next_back() {
                self.now += u64::from(fate);
                self.end(number, fate % 2 == 0);
                return Ok(true);
            }
        }
        if let Some(wake) = step.wake {
            prop_assert!(wake > at(self.now));
            self.now = wake.0.div_ceil(SECOND);
            return Ok(true);
        }
        Ok(false)
    }

    fn start(&mut self, number: usize, count: Count) -> Result<(), TestCaseError> {
        prop_assert!(!self.stopping);
        let before = self.seen[number];
        prop_assert!(
            matches!(before, Seen::Absent | Seen::Ended(_)),
            "{before:?}"
        );
        let inits = self.spec.init_containers.len();
        for (before, container) in self.spec.init_containers.iter().enumerate().take(number) {
            let seen = self.seen[before];
            let begun = (inits..self.seen.len()).any(|i| self.seen[i] != Seen::Absent);
            let done = match container.sidecar {
                true => matches!(seen, Seen::Running(_)),
                false => matches!(seen, Seen::Ended(End { success: true, .. })),
            };
            prop_assert!(done || begun, "{number} begins before {before} is done");
        }
        *self.starts.entry(number).or_default() += 1;
        self.seen[number] = Seen::Running(Run {
            count,
            started: true,
            ready: true,
            unhealthy: false,
        });
        Ok(())
    }

    fn end(&mut self, number: usize, success: bool) {
        if let Seen::Running(run) = self.seen[number] {
            self.seen[number] = Seen::Ended(End {
                count: run.count,
                at: at(self.now),
                ran: Duration::from_secs(1),
                success,
            });
        }
    }
}

fn policies() -> impl Strategy<Value = Restart> {
    prop_oneof![
        Just(Restart::Always),
        Just(Restart::OnFailure),
        Just(Restart::Never)
    ]
}

proptest! {
    #[test]
    fn whatever_ends_how_the_order_holds_and_a_stop_ends_all(
        sidecars in proptest::collection::vec(any::<bool>(), 0..3),
        apps in 1_usize..3,
        restart in policies(),
        fates in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let inits = sidecars.iter().enumerate().map(|(i, is_sidecar)| match is_sidecar {
            true => sidecar(&format!("s{i}")),
            false => container(&format!("i{i}")),
        });
        let spec = pod(inits.collect(), apps, restart);
        let seen = vec![Seen::Absent; sidecars.len() + apps];
        let mut world = World { spec, seen, starts: BTreeMap::new(), now: 1, stopping: false };
        let mut fates = fates.into_iter();
        // Each fate ends one container, which is started at most once more.
        for _ in 0..400 {
            if !world.step(&mut fates)? {
                break;
            }
        }
        for (number, starts) in &world.starts {
            let is_sidecar = world.spec.all().nth(*number).is_some_and(|it| it.sidecar);
            prop_assert!(restart != Restart::Never || is_sidecar || *starts == 1);
        }
        world.stopping = true;
        for _ in 0..world.seen.len() + 1 {
            world.step(&mut std::iter::empty())?;
        }
        let step = next(&world.spec, &world.seen, true, at(0), at(world.now));
        prop_assert!(step.phase.is_final() && step.effects.is_empty(), "{step:?}");
        prop_assert!(!world.seen.iter().any(|it| matches!(it, Seen::Running(_))));
    }
}
