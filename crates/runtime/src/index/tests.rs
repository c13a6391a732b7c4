// SPDX-License-Identifier: Apache-2.0
//! The index without a node: names, retries, watchers, ageing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use model::cell::CellSpec;
use model::error::Reason;
use model::exit::{Exit, How};
use model::lifecycle::State;
use model::name::{ObjectPath, Tenant, Uid};
use model::object::{Kind, ObjectRef};
use model::quota::{Amount, Capacity, Limits, Quota, Quotas, Storage};
use model::request::{Filter, ListQuery, Scope};
use model::selector::Selector;
use model::status::{CellStatus, ExecutableStatus, Meta, Object};
use model::time::Timestamp;

use super::counts::LimitsNow;
use super::requests::{Attempt, IdempotencyKey};
use super::ring::{Epoch, KEPT, Ring, Token};
use super::watch::Shows;
use super::watch::{WatchKind, Watcher};
use super::*;
use crate::caller::Callers;
use crate::cell::CellHandle;
use crate::ids::IdRange;

/// Limits of a node of 10 cells, of which the tenant may have `cells`.
fn limits(cells: u64) -> Arc<Limits> {
    let capacity = Capacity {
        whole: BTreeMap::from([(Quota::Cells, 10), (Quota::RequestIds, 16)]),
        reserve: 100,
    };
    let quotas = Quotas(BTreeMap::from([(Quota::Cells, Amount::Absolute(cells))]));
    let set = BTreeMap::from([("acme".parse().unwrap(), quotas)]);
    Arc::new(Limits { capacity, set })
}

pub(super) fn index() -> Arc<Index> {
    let limits = limits(8);
    index_with(Arc::new(move || limits.clone()))
}

fn index_with(limits: LimitsNow) -> Arc<Index> {
    let bounds = Bounds {
        finished_per_tenant: 4,
        finished_age: Duration::from_nanos(10),
    };
    let ids = IdPool::new(IdRange {
        first: 100_000,
        count: 1_000_000,
    });
    Index::new(
        bounds,
        limits,
        ids,
        Ring::new(Epoch {
            boot: 7,
            instance: 9,
        }),
        0,
    )
}

pub(super) fn key(path: &str) -> Key {
    Key {
        tenant: "acme".parse().unwrap(),
        path: path.parse().unwrap(),
    }
}

pub(super) fn cell(path: &str, uid: u8, state: State) -> Object {
    let path: ObjectPath = path.parse().unwrap();
    let spec = CellSpec::default();
    Object::Cell(CellStatus {
        effective: spec.effective(&path),
        meta: Meta {
            tenant: "acme".parse().unwrap(),
            path,
            uid: Uid([uid; 16]),
            kind: Kind::Cell,
            labels: Default::default(),
            generation: 1,
            revision: 0,
            created: Timestamp(1),
        },
        spec,
        state,
        conditions: Vec::new(),
        pid: None,
        first_uid: None,
        started: None,
        finished: state.is_final().then_some(Timestamp(u64::from(uid))),
        running_children: 0,
        cgroup: String::new(),
        final_usage: None,
        image_digest: String::new(),
        network: None,
        annex: None,
    })
}

fn executable(
    path: &str,
    state: State,
    exit: Option<Exit>,
    program: model::executable::Draft,
) -> Object {
    let mut meta = cell(path, 1, state).meta().clone();
    meta.kind = Kind::Executable;
    Object::Executable(ExecutableStatus {
        meta,
        spec: program.clone().try_into().unwrap(),
        effective: program,
        state,
        conditions: Vec::new(),
        pid: None,
        started: None,
        exit,
        stdout_bytes: 0,
        stderr_bytes: 0,
        final_usage: None,
    })
}

fn reserve(index: &Arc<Index>, path: &str, uid: u8) -> Result<Reservation, Error> {
    index.reserve(
        key(path),
        Uid([uid; 16]),
        (Kind::Cell, 0),
        IdWish::Count(Some(1000)),
    )
}

pub(super) fn all() -> Shows {
    Box::new(|_| true)
}

pub(super) fn everything() -> Filter {
    Filter {
        scope: Scope::Tenant("acme".parse().unwrap()),
        selector: Selector::default(),
        kinds: Default::default(),
        below: None,
    }
}

#[test]
fn a_name_is_free_again_when_its_reservation_is_dropped() {
    let index = index();
    let first = reserve(&index, "web", 1).unwrap();
    let range = first.range();
    assert_eq!(
        reserve(&index, "web", 2).err().unwrap().reason,
        Reason::AlreadyExists
    );
    drop(first);
    let again = reserve(&index, "web", 3).unwrap();
    assert_eq!(again.range(), range, "its ids, too");
    index.publish_new(cell("web", 3, State::Running), again);
    assert_eq!(
        reserve(&index, "web", 4).err().unwrap().reason,
        Reason::AlreadyExists
    );
}

#[test]
fn a_finished_object_gives_way_and_is_answered() {
    let index = index();
    let reservation = reserve(&index, "web", 1).unwrap();
    assert!(
        index
            .publish_new(cell("web", 1, State::Running), reservation)
            .is_none()
    );
    index.publish(cell("web", 1, State::Exited));
    let reservation = reserve(&index, "web", 2).unwrap();
    let displaced = index
        .publish_new(cell("web", 2, State::Running), reservation)
        .unwrap();
    assert_eq!(displaced.meta().uid, Uid([1; 16]));
    let target = ObjectRef {
        uid: Some(Uid([1; 16])),
        ..ObjectRef::new(tenant(), path("web"))
    };
    assert_eq!(index.get(&target).unwrap_err().reason, Reason::NotFound);
}

/// A request for the name sees the ending cell or a free name at each moment of the cell's end.
#[test]
fn the_name_of_a_departing_cell_is_ending_or_free() {
    for keep in [true, false].repeat(200) {
        let index = index();
        let reservation = reserve(&index, "web", 1).unwrap();
        let (handle, range) = (CellHandle::without_owner(Uid([1; 16])), reservation.range());
        index
            .register(key("web"), handle, range, Storage::default())
            .unwrap();
        index.publish_new(cell("web", 1, State::Running), reservation);
        index.close(&key("web"), false).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| index.depart(cell("web", 1, State::Exited), keep));
            let wish = IdWish::Count(Some(1000));
            while let Err(taken) = index.reserve_cell(&key("web"), Uid([2; 16]), 0, wish) {
                if let Taken::Refused(error) = taken {
                    panic!("{error}");
                }
            }
        });
        assert_eq!(index.at(&key("web")).is_some(), keep);
    }
}

fn tenant() -> Tenant {
    "acme".parse().unwrap()
}

fn path(text: &str) -> ObjectPath {
    text.parse().unwrap()
}

#[test]
fn a_tenant_has_no_more_than_its_bound() {
    let index = index();
    let held: Vec<_> = (0..8)
        .map(|i| reserve(&index, &format!("c{i}"), i).unwrap())
        .collect();
    assert_eq!(
        reserve(&index, "one-more", 99).err().unwrap().reason,
        Reason::LimitExceeded
    );
    drop(held);
    assert!(reserve(&index, "one-more", 99).is_ok());
}

#[test]
fn the_oldest_finished_records_are_the_first_to_go() {
    let index = index();
    for uid in 1..=6 {
        index.publish_known(cell(&format!("c{uid}"), uid, State::Exited));
    }
    assert_eq!(
        index.aged(Timestamp(10)),
        [Uid([1; 16]), Uid([2; 16])],
        "too many by two"
    );
    assert_eq!(
        index.aged(Timestamp(15)).len(),
        4,
        "and what ended before 5"
    );
}

#[test]
fn a_tenant_s_many_records_push_out_no_other_tenant_s() {
    let index = index();
    let mut quiet = cell("quiet", 1, State::Exited);
    quiet.meta_mut().tenant = "other".parse().unwrap();
    index.publish_known(quiet);
    for uid in 2..=7 {
        index.publish_known(cell(&format!("c{uid}"), uid, State::Exited));
    }
    let gone = index.aged(Timestamp(10));
    assert_eq!(gone, [Uid([2; 16]), Uid([3; 16])]);
    let loud: Tenant = "acme".parse().unwrap();
    assert!(index.is_crowded(&loud));
    gone.into_iter().for_each(|uid| drop(index.remove(uid)));
    assert!(!index.is_crowded(&loud));
    assert!(index.by_uid(Uid([1; 16])).is_some());
}

#[test]
fn a_bound_that_is_lowered_holds_for_what_begins_then() {
    let now = Arc::new(Mutex::new(limits(8)));
    let shared = now.clone();
    let index = index_with(Arc::new(move || shared.lock().unwrap().clone()));
    let held: Vec<_> = (0..4)
        .map(|i| reserve(&index, &format!("c{i}"), i).unwrap())
        .collect();
    *now.lock().unwrap() = limits(4);
    let refused = reserve(&index, "one-more", 99).err().unwrap();
    assert_eq!(refused.reason, Reason::LimitExceeded);
    drop(held);
    assert!(reserve(&index, "one-more", 99).is_ok());
}

#[tokio::test]
async fn an_end_is_told_to_who_asked_before_it_was_there() {
    let index = index();
    let mut end = index.expect_end(Uid([1; 16]));
    let reservation = reserve(&index, "web", 1).unwrap();
    index.publish_new(cell("web", 1, State::Running), reservation);
    index.publish(cell("web", 1, State::Exited));
    index.remove(Uid([1; 16]));
    let ended = end
        .wait_for(Option::is_some)
        .await
        .unwrap()
        .clone()
        .unwrap();
    assert_eq!(ended.state(), State::Exited);
}

#[tokio::test]
async fn a_watcher_that_is_too_slow_begins_anew() {
    let index = index();
    let reservation = reserve(&index, "web", 1).unwrap();
    index.publish_new(cell("web", 1, State::Running), reservation);
    let mut watcher = Watcher::new(index.clone(), everything(), all(), None);
    for expected in [WatchKind::Added, WatchKind::SnapshotEnd] {
        assert_eq!(watcher.next().await.kind, expected);
    }
    for _ in 0..=KEPT {
        index.publish(cell("web", 1, State::Frozen));
    }
    for expected in [WatchKind::Reset, WatchKind::Added, WatchKind::SnapshotEnd] {
        assert_eq!(watcher.next().await.kind, expected);
    }
    index.publish(cell("web", 1, State::Exited));
    let event = watcher.next().await;
    assert_eq!(
        (event.kind, event.object.unwrap().state()),
        (WatchKind::Changed, State::Exited)
    );
}

#[tokio::test]
async fn a_token_of_another_epoch_or_the_future_is_unknown() {
    let index = index();
    let reservation = reserve(&index, "web", 1).unwrap();
    index.publish_new(cell("web", 1, State::Running), reservation);
    let ours = Epoch {
        boot: 7,
        instance: 9,
    };
    let token = |epoch, sequence| Token { epoch, sequence }.to_string();
    let first = |text: String| {
        let mut watcher = Watcher::new(index.clone(), everything(), all(), Some(&text));
        async move { watcher.next().await.kind }
    };
    assert_eq!(
        first(token(ours, 0)).await,
        WatchKind::Added,
        "known: the change after it"
    );
    for unknown in [
        token(Epoch { boot: 8, ..ours }, 0),
        token(
            Epoch {
                instance: 8,
                ..ours
            },
            0,
        ),
        token(ours, 5),
        "nonsense".to_owned(),
        "..".to_owned(),
    ] {
        assert_eq!(first(unknown.clone()).await, WatchKind::Reset, "{unknown}");
    }
}

#[tokio::test]
async fn a_retry_joins_the_first_try_and_another_body_is_refused() {
    let index = index();
    let ask = |body: &str| IdempotencyKey::new("r1".parse().unwrap(), &body).unwrap();
    let (callers, present) = Callers::new();
    let Attempt::First(outcome) = index.begin(&tenant(), &ask("a"), &callers).unwrap() else {
        panic!()
    };
    let (others, _) = Callers::new();
    let Attempt::Again(mut again, waits) = index.begin(&tenant(), &ask("a"), &others).unwrap()
    else {
        panic!()
    };
    drop(present);
    assert!(!callers.have_gone(), "the retry waits for the first try");
    drop(waits);
    assert!(callers.have_gone());
    let refused = index.begin(&tenant(), &ask("b"), &callers).err().unwrap();
    assert_eq!(refused.reason, Reason::RequestIdReused);
    outcome.send_replace(Some(Ok(Uid([1; 16]))));
    assert_eq!(
        again.wait_for(Option::is_some).await.unwrap().clone(),
        Some(Ok(Uid([1; 16])))
    );
    let other: Tenant = "other".parse().unwrap();
    assert!(
        matches!(
            index.begin(&other, &ask("b"), &callers).unwrap(),
            Attempt::First(_)
        ),
        "its own ids"
    );
}

#[test]
fn a_try_that_failed_or_was_given_up_may_be_repeated() {
    let index = index();
    let ask = IdempotencyKey::new("r1".parse().unwrap(), &"a").unwrap();
    let (callers, _present) = Callers::new();
    let Attempt::First(outcome) = index.begin(&tenant(), &ask, &callers).unwrap() else {
        panic!()
    };
    outcome.send_replace(Some(Err(Error::internal("x"))));
    let Attempt::First(outcome) = index.begin(&tenant(), &ask, &callers).unwrap() else {
        panic!()
    };
    drop(outcome);
    assert!(matches!(
        index.begin(&tenant(), &ask, &callers).unwrap(),
        Attempt::First(_)
    ));
}

#[test]
fn what_a_tenant_lists_is_looked_for_among_his_own() {
    let index = index();
    let tenants = ["aaaa", "acme", "zeta"];
    for (number, tenant) in (1..).zip(tenants) {
        for (at, path) in (0..).zip(["0", "web", "web/db"]) {
            let Object::Cell(mut cell) = cell(path, number * 10 + at, State::Running) else {
                unreachable!()
            };
            cell.meta.tenant = tenant.parse().unwrap();
            assert!(index.publish_known(Object::Cell(cell)));
        }
    }
    let seen = |scope: Scope, below: Option<&str>, after: Option<(&str, &str)>| {
        let filter = Filter {
            scope,
            selector: Selector::default(),
            kinds: Default::default(),
            below: below.map(|path| path.parse().unwrap()),
        };
        let after = after.map(|(tenant, path)| Key {
            tenant: tenant.parse().unwrap(),
            path: path.parse().unwrap(),
        });
        let inner = index.lock();
        let keys = inner.from(&filter, after.as_ref());
        keys.map(|(key, _)| format!("{}:{}", key.tenant, key.path))
            .collect::<Vec<_>>()
    };
    let own = || Scope::Tenant("acme".parse().unwrap());
    assert_eq!(
        seen(own(), None, None),
        ["acme:0", "acme:web", "acme:web/db"]
    );
    assert_eq!(seen(own(), Some("web"), None), ["acme:web", "acme:web/db"]);
    assert_eq!(seen(own(), None, Some(("acme", "web"))), ["acme:web/db"]);
    // Tokens of other lists.
    assert_eq!(seen(own(), None, Some(("aaaa", "web"))).len(), 3);
    assert_eq!(seen(own(), None, Some(("zeta", "0"))).len(), 0);
    assert_eq!(seen(own(), Some("web"), Some(("acme", "0"))).len(), 2);
    assert_eq!(seen(Scope::Every, None, Some(("acme", "web/db"))).len(), 3);
}

#[test]
fn the_changes_that_are_kept_are_bounded_in_bytes() {
    let mut ring = ring();
    change(&mut ring, &large("acme"), 1000);
    // 4 MiB of some 94 KB each; who was before them is told to begin anew.
    let acme = everything().scope;
    assert!(ring.after(999, &acme).unwrap().is_some());
    assert!(ring.after(960, &acme).unwrap().is_some());
    assert!(ring.after(900, &acme).is_err());
}

fn ring() -> Ring {
    Ring::new(Epoch {
        boot: 7,
        instance: 9,
    })
}

fn change(ring: &mut Ring, object: &Arc<Object>, times: usize) {
    for _ in 0..times {
        ring.push(ring::Change {
            kind: ring::ChangeKind::Changed,
            object: object.clone(),
        });
    }
}

/// An executable with nearly as large an environment as there may be.
fn large(tenant: &str) -> Arc<Object> {
    let program = model::executable::Draft {
        argv: vec!["/bin/true".to_owned()],
        env: [("LARGE".to_owned(), "x".repeat(46 * 1024))].into(),
        ..Default::default()
    };
    Arc::new(of(tenant, executable("web", State::Running, None, program)))
}

fn of(tenant: &str, mut object: Object) -> Object {
    object.meta_mut().tenant = tenant.parse().unwrap();
    object
}

fn scope(tenant: &str) -> Scope {
    Scope::Tenant(tenant.parse().unwrap())
}

#[test]
fn a_tenant_s_many_changes_push_out_no_other_tenant_s() {
    let mut ring = ring();
    let small = |tenant| Arc::new(of(tenant, cell("web", 1, State::Running)));
    for tenant in ["bob", "eve", "bob"] {
        change(&mut ring, &small(tenant), 1);
    }
    let begin = |ring: &Ring| ring.locate(&ring.token(0).to_string(), &scope("bob"));
    // By their bytes, and by their number.
    for eves in [large("eve"), small("eve")] {
        change(&mut ring, &eves, KEPT + 1000);
        assert_eq!(begin(&ring), Some(0));
        let next = |after| ring.after(after, &scope("bob")).unwrap();
        let numbers = [0, 1, 2].map(|after| next(after).map(|(number, _)| number));
        assert_eq!(numbers, [Some(1), Some(3), Some(3)]);
        assert!(next(3).is_none());
        assert!(next(ring.newest()).is_none());
    }
    // Eve herself has missed some, and so has who watches every tenant, until where she has.
    for others in [scope("eve"), Scope::Every] {
        assert_eq!(ring.after(3, &others).err(), Some(ring::Missed));
        let least = (0..=ring.newest()).find(|after| ring.after(*after, &others).is_ok());
        let least = least.unwrap();
        assert!(ring.newest() - least >= KEPT as u64 / 2, "{least}");
        let token = ring.token(least).to_string();
        assert_eq!(ring.locate(&token, &others), Some(least));
        let before = ring.token(least - 1).to_string();
        assert_eq!(ring.locate(&before, &others), None);
    }
}

#[test]
fn a_tenant_of_whose_changes_none_is_kept_begins_anew() {
    let mut ring = ring();
    // One change each, more than 4 MiB together: the first tenants lose theirs.
    let tenants: Vec<_> = (0..60).map(|n| format!("t{n}")).collect();
    tenants.iter().for_each(|t| change(&mut ring, &large(t), 1));
    let all_are_told = |ring: &Ring| {
        let mut told = 0..;
        tenants.iter().all(|tenant| {
            let before = told.next().unwrap();
            let next = ring.after(before, &scope(tenant));
            next.is_err() || next.unwrap().is_some()
        })
    };
    assert!(all_are_told(&ring), "a change was lost and nobody told");
    assert!(ring.after(0, &scope("another")).is_err());
    assert!(ring.after(60, &scope("another")).unwrap().is_none());
    tenants.iter().for_each(|t| change(&mut ring, &large(t), 1));
    assert!(all_are_told(&ring), "nor when it has another one");
}

#[tokio::test]
async fn a_watcher_that_is_told_nothing_begins_not_anew_for_another_tenant_s_changes() {
    let index = index();
    let reservation = reserve(&index, "web", 1).unwrap();
    index.publish_new(cell("web", 1, State::Running), reservation);
    assert!(index.publish_known(of("eve", cell("web", 2, State::Running))));
    let mut every = everything();
    every.scope = Scope::Every;
    let watch = |filter| Watcher::new(index.clone(), filter, all(), None);
    let mut watchers = [watch(everything()), watch(every)];
    for (watcher, objects) in watchers.iter_mut().zip([1, 2]) {
        for _ in 0..objects {
            assert_eq!(watcher.next().await.kind, WatchKind::Added);
        }
        assert_eq!(watcher.next().await.kind, WatchKind::SnapshotEnd);
    }
    for _ in 0..2 * KEPT {
        index.publish(of("eve", cell("web", 2, State::Frozen)));
    }
    index.publish(cell("web", 1, State::Exited));
    let [own, every] = &mut watchers;
    let event = own.next().await;
    assert_eq!(event.kind, WatchKind::Changed);
    assert_eq!(event.object.unwrap().state(), State::Exited);
    assert_eq!(every.next().await.kind, WatchKind::Reset);
}

#[test]
fn a_finished_object_is_a_summary_until_it_is_read() {
    let index = index();
    let reservation = reserve(&index, "web", 1).unwrap();
    index.publish_new(cell("web", 1, State::Running), reservation);
    index.summarize(Uid([1; 16]));
    let living = index.by_uid(Uid([1; 16])).unwrap();
    assert!(!crate::finished::is_summary(&living), "it has not ended");
    index.publish(cell("web", 1, State::Exited));
    index.summarize(Uid([1; 16]));
    let ended = index.by_uid(Uid([1; 16])).unwrap();
    assert!(crate::finished::is_summary(&ended));
    assert_eq!(ended.meta().path.to_string(), "web");
}

#[test]
fn what_failed_is_listed_for_so_long() {
    let query = ListQuery {
        filter: everything(),
        running_only: true,
        failed_within: Some(Duration::from_secs(300)),
        page_size: 10,
        page_token: None,
    };
    let is_shown = |ago: Duration, code: u8| {
        let finished = crate::now()
            .0
            .saturating_sub(u64::try_from(ago.as_nanos()).unwrap());
        let object = executable(
            "job",
            State::Exited,
            Some(Exit {
                how: How::Code(code),
                oom_killed: false,
                oom_kills: None,
                core_dumped: false,
                started: None,
                finished: Some(Timestamp(finished)),
                rusage: None,
            }),
            model::executable::Draft {
                argv: vec!["/bin/true".to_owned()],
                ..Default::default()
            },
        );
        let index = index();
        assert!(index.publish_known(object));
        !index.list(&query, &*all()).unwrap().objects.is_empty()
    };
    assert!(is_shown(Duration::from_secs(240), 1));
    assert!(!is_shown(Duration::from_secs(360), 1), "too long ago");
    assert!(!is_shown(Duration::from_secs(240), 0), "it did well");
}
