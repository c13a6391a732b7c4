// SPDX-License-Identifier: Apache-2.0
//! Dependencies of each type, as the manual's pages list them.

use std::sync::Arc;

use super::*;
use crate::calendar::zones::UtcOnly;
use crate::specifier::NoHost;
use crate::unit::from_texts;

fn unit(name: &str, text: &str) -> Unit {
    let name = UnitName::parse(name).unwrap();
    from_texts(&name, &[("/x", text.as_bytes())], &NoHost, &UtcOnly)
}

/// What a unit is given by its type, sorted, as `Kind name`.
fn given(name: &str, text: &str, others: &[&Unit]) -> Vec<String> {
    let unit = unit(name, text);
    let id = unit.id.clone();
    let graph = Graph::of(others.iter().copied().chain([&unit]));
    let kinds = implicit(&unit).into_iter().map(|it| it.kind);
    let kinds = kinds.chain([Dependency::Requires, Dependency::After]);
    let shown = kinds.flat_map(|kind| {
        let found = graph.on(&id, kind);
        found.into_iter().map(move |it| format!("{kind:?} {it}"))
    });
    let mut shown: Vec<String> = shown.collect();
    shown.sort();
    shown.dedup();
    shown
}

#[test]
fn a_service_waits_for_the_basic_system() {
    // systemd.service(5), "Default dependencies".
    assert_eq!(
        given(
            "a.service",
            "[Service]\nExecStart=/bin/x\nStandardOutput=null\n",
            &[]
        ),
        [
            "After basic.target",
            "After sysinit.target",
            "After system.slice",
            "Before shutdown.target",
            "Conflicts shutdown.target",
            "Requires sysinit.target",
            "Requires system.slice",
        ]
    );
    let text =
        "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/x\nBusName=a.b\nSlice=x-y.slice\n";
    assert_eq!(
        given("a.service", text, &[]),
        [
            "After dbus.socket",
            "After systemd-journald.socket",
            "After x-y.slice",
            "Requires dbus.socket",
            "Requires x-y.slice",
        ]
    );
    let instance = given("pg@15.service", "[Service]\nExecStart=/x\n", &[]);
    assert!(instance.contains(&"Requires system-pg.slice".to_owned()));
}

#[test]
fn other_types_have_their_own() {
    // systemd.socket(5), systemd.timer(5), systemd.mount(5), systemd.slice(5), systemd.path(5).
    let socket = given(
        "a.socket",
        "[Socket]\nListenStream=80\nService=b.service\n",
        &[],
    );
    for expected in [
        "Before b.service",
        "Triggers b.service",
        "Before sockets.target",
    ] {
        assert!(socket.contains(&expected.to_owned()), "{expected}");
    }
    let accepting = given("a.socket", "[Socket]\nListenStream=80\nAccept=yes\n", &[]);
    assert!(!accepting.iter().any(|it| it.starts_with("Triggers")));
    let timer = given("a.timer", "[Timer]\nOnCalendar=daily\n", &[]);
    for expected in [
        "Triggers a.service",
        "After time-sync.target",
        "Before timers.target",
    ] {
        assert!(timer.contains(&expected.to_owned()), "{expected}");
    }
    let monotonic = given("a.timer", "[Timer]\nOnBootSec=5\n", &[]);
    assert!(!monotonic.contains(&"After time-sync.target".to_owned()));
    let mount = given("srv-x.mount", "[Mount]\nWhat=UUID=1-2\nWhere=/srv/x\n", &[]);
    for expected in [
        "BindsTo dev-disk-by\\x2duuid-1\\x2d2.device",
        "Before local-fs.target",
        "Conflicts umount.target",
    ] {
        assert!(mount.contains(&expected.to_owned()), "{expected} {mount:?}");
    }
    let network = given(
        "srv.mount",
        "[Mount]\nWhat=host:/x\nWhere=/srv\nType=nfs\n",
        &[],
    );
    assert!(network.contains(&"Wants network-online.target".to_owned()));
    assert_eq!(
        given("a-b.slice", "", &[]),
        [
            "After a.slice",
            "Before shutdown.target",
            "Conflicts shutdown.target",
            "Requires a.slice"
        ]
    );
}

#[test]
fn paths_need_their_mounts() {
    // systemd.unit(5), RequiresMountsFor=.
    let srv = unit("srv.mount", "[Mount]\nWhat=/dev/sda\nWhere=/srv\n");
    let other = unit("opt.mount", "[Mount]\nWhat=/dev/sdb\nWhere=/opt\n");
    let text = "[Unit]\nRequiresMountsFor=/srv/www\n[Service]\nExecStart=/x\n";
    let found = given("a.service", text, &[&srv, &other]);
    assert!(found.contains(&"Requires srv.mount".to_owned()));
    assert!(!found.iter().any(|it| it.contains("opt.mount")));
    let nested = given(
        "srv-x.mount",
        "[Mount]\nWhat=/dev/sdc\nWhere=/srv/x\n",
        &[&srv],
    );
    assert!(nested.contains(&"After srv.mount".to_owned()));
}

#[test]
fn a_target_comes_after_what_it_pulls_in() {
    // systemd.target(5), "Default dependencies".
    let target = unit("x.target", "[Unit]\nWants=a.service b.service c.service\n");
    let a = unit("a.service", "[Service]\nExecStart=/x\n");
    let b = unit(
        "b.service",
        "[Unit]\nAfter=x.target\n[Service]\nExecStart=/x\n",
    );
    let c = unit(
        "c.service",
        "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/x\n",
    );
    let graph = Graph::of([&target, &a, &b, &c]);
    let after = graph.on(&target.id, Dependency::After);
    assert_eq!(after, std::slice::from_ref(&a.id));
    assert!(graph.has(Dependency::After, &b.id, &target.id));
    assert_eq!(
        graph.of_others(&a.id, Dependency::Wants),
        std::slice::from_ref(&target.id)
    );
    assert!(graph.edges().any(|it| it.kind == Dependency::Conflicts));
}

#[test]
fn an_edge_to_another_name_is_one_to_the_unit() {
    let mut a = unit("a.service", "[Service]\nExecStart=/x\n");
    a.names.insert(UnitName::parse("alias.service").unwrap());
    let b = unit(
        "b.service",
        "[Unit]\nRequires=alias.service\n[Service]\nExecStart=/x\n",
    );
    let graph = Graph::of([&a, &b]);
    assert!(graph.has(Dependency::Requires, &b.id, &a.id));
}

/// A unit that comes later is among the others as if it had been there from the beginning: by its
/// other names, with its mounts, and in the order of targets; one that goes leaves nothing.
#[test]
fn units_come_and_go_one_by_one() {
    let mut alias = unit("a.service", "[Service]\nExecStart=/x\n");
    alias
        .names
        .insert(UnitName::parse("other.service").unwrap());
    let all = [
        unit("x.target", "[Unit]\nWants=other.service b.service\n"),
        unit(
            "b.service",
            "[Unit]\nAfter=other.service\nRequiresMountsFor=/srv/a\n[Service]\nExecStart=/x\n",
        ),
        alias,
        unit("srv.mount", "[Mount]\nWhat=/dev/sda\nWhere=/srv\n"),
        unit("c.socket", "[Socket]\nListenStream=80\nService=b.service\n"),
    ];
    let owns: Vec<Arc<Own>> = all.iter().map(|it| Arc::new(Own::of(it))).collect();
    let whole = Graph::of(&all);
    for first in 0..owns.len() {
        let mut graph = Graph::default();
        for turn in 0..owns.len() {
            graph.extend(&owns[(first + turn) % owns.len()..][..1]);
        }
        let edges = |graph: &Graph| graph.edges().collect::<Vec<_>>();
        assert_eq!(edges(&graph), edges(&whole), "from {first} on");
        graph.extend(&owns[first..][..1]);
        assert_eq!(edges(&graph), edges(&whole), "{first} again");
        graph.remove(&all[first].id);
        let words: Vec<Edge> = edges(&graph);
        let own = |it: &Edge| it.from == all[first].id && it.kind != Dependency::Before;
        assert!(!words.iter().any(own), "{first} left {words:?}");
    }
}
