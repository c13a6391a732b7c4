// SPDX-License-Identifier: Apache-2.0
//! Stories of updates that are refused half-way, and of daemons killed in the middle of one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::cell::{self, Mount};
use model::exit::How;
use model::status::{CellStatus, Object};

use crate::client::{Answer, Ask, Client, refusal};
use crate::host::Node;
use crate::stories::{mount, sh};

/// Sources that a cell may read, in a folder of the node.
fn sources(names: &[&str]) -> (tempfile::TempDir, Vec<PathBuf>) {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let paths = names.iter().map(|name| {
        let path = dir.path().join(name);
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("name"), name).unwrap();
        path
    });
    let paths = paths.collect();
    (dir, paths)
}

fn cell(daemon: &mut Client, path: &str) -> CellStatus {
    match daemon.get(path) {
        Object::Cell(cell) => cell,
        other => panic!("{other:?}"),
    }
}

fn update(mounts: Vec<Mount>, limit: Option<u64>) -> Ask {
    let mut spec = cell::Draft {
        mounts,
        ..Default::default()
    };
    spec.resources.pids_max = limit;
    Ask::Update {
        path: "web".into(),
        spec,
        mask: vec!["spec.mounts".into(), "spec.resources.pids_max".into()],
        generation: None,
    }
}

/// Where something of the node is mounted in the cell, as the kernel has it.
fn mounted(cell: &CellStatus) -> Vec<String> {
    let file = format!("/proc/{}/mountinfo", cell.pid.unwrap());
    let mounts = kernel::mount::info::parse(&std::fs::read(file).unwrap()).unwrap();
    let targets = mounts.iter().map(|m| m.target.to_str().unwrap());
    let ours = targets.filter(|target| target.starts_with("/run/g"));
    ours.map(str::to_owned).collect()
}

fn targets(cell: &CellStatus) -> BTreeSet<String> {
    cell.spec.mounts.iter().map(|g| g.target.clone()).collect()
}

/// The record says what the kernel has; nothing is mounted twice.
fn assert_true(daemon: &mut Client) {
    let cell = cell(daemon, "web");
    let mounted = mounted(&cell);
    let once: BTreeSet<_> = mounted.iter().cloned().collect();
    assert_eq!(mounted.len(), once.len(), "{mounted:?}");
    assert_eq!(once, targets(&cell), "generation {}", cell.meta.generation);
}

pub(crate) fn one_refused_changes_nothing(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    let (_dir, sources) = sources(&["a", "b", "c"]);
    let at = |i: usize, target: &str| mount(&sources[i], target, None);
    let spec = cell::Draft {
        mounts: vec![at(0, "/run/ga"), at(1, "/run/gb")],
        ..Default::default()
    };
    daemon.cell_with("web", spec);
    let before = cell(&mut daemon, "web");
    // One goes, one gives way to another, the last can't be attached: /usr is read-only there.
    let half_good = vec![at(2, "/run/gb"), at(0, "/run/gn"), at(1, "/usr/no/such")];
    let limit = pids(&node).then_some(77);
    for _ in 0..2 {
        let answer = daemon.ask(update(half_good.clone(), limit));
        assert_eq!(refusal(answer), ("UNSUPPORTED".into(), Some(30)));
        let after = cell(&mut daemon, "web");
        assert_eq!(after.spec, before.spec);
        assert_eq!(after.meta.generation, before.meta.generation);
        assert_true(&mut daemon);
        let script = "cat /run/ga/name /run/gb/name; test ! -e /run/gn/name";
        let seen = daemon.run("web/look", &sh(script));
        assert_eq!(daemon.log(seen.meta.uid), "ab");
        assert_eq!(seen.exit.unwrap().how, How::Code(0));
        if limit.is_some() {
            let file = node.cgroup().join("acme/web/pids.max");
            assert_eq!(std::fs::read_to_string(file).unwrap(), "max\n");
        }
        // Nor does the next daemon find anything else.
        node.kill_daemon();
        daemon = node.client();
        assert_true(&mut daemon);
    }
    let good = vec![at(2, "/run/gb"), at(0, "/run/gn")];
    assert!(matches!(daemon.ask(update(good, limit)), Answer::Object(_)));
    assert_true(&mut daemon);
    let seen = daemon.run("web/look", &sh("cat /run/gb/name /run/gn/name"));
    assert_eq!(daemon.log(seen.meta.uid), "ca");
}

/// What is mounted below a mount that follows its source comes and goes with it.
pub(crate) fn one_takes_what_is_below_a_mount_with_it(name: &str) {
    let node = Node::start(name);
    let mut daemon = node.client();
    let (_dir, sources) = sources(&["a"]);
    let source = &sources[0];
    let _below = Tmpfs::on(source);
    std::fs::write(source.join("name"), "a").unwrap();
    std::fs::create_dir(source.join("below")).unwrap();
    let _deeper = Tmpfs::on(&source.join("below"));
    daemon.cell_with("web", cell::Draft::default());
    let follows = Mount {
        propagation: cell::Propagation::Rslave,
        ..mount(source, "/run/ga", None)
    };
    for _ in 0..2 {
        let came = daemon.ask(update(vec![follows.clone()], None));
        assert!(matches!(came, Answer::Object(_)), "{came:?}");
        let both = ["/run/ga", "/run/ga/below"].map(str::to_owned);
        assert_eq!(mounted(&cell(&mut daemon, "web")), both);
        let gone = daemon.ask(update(Vec::new(), None));
        assert!(matches!(gone, Answer::Object(_)), "{gone:?}");
        assert_true(&mut daemon);
        node.kill_daemon();
        daemon = node.client();
    }
}

/// A tmpfs that is shared, until this goes.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn on(path: &Path) -> Self {
        let attributes = kernel::mount::Attributes::NO_DEV;
        let tmpfs = kernel::mount::tmpfs(1 << 20, 0o755, attributes).unwrap();
        kernel::mount::attach(&tmpfs, path).unwrap();
        let shared = kernel::mount::Propagation::Shared;
        kernel::mount::set_propagation(path, shared, false).unwrap();
        Self(path.to_owned())
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = kernel::mount::unmount(&self.0, true);
    }
}

fn pids(node: &Node) -> bool {
    let root = kernel::cgroup::Cgroup::open(node.cgroup()).unwrap();
    root.controllers().unwrap().iter().any(|c| c == "pids")
}

/// Kills the daemon again and again while a cell's mounts are exchanged.
pub(crate) fn at_any_moment_the_record_is_what_holds(name: &str) {
    let kills: u64 = std::env::var("AURAE_KILLS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(40);
    let node = Node::start(name);
    let (_dir, sources) = sources(&["a", "b", "c", "d"]);
    let sets: Vec<Vec<Mount>> = [&[0, 1][..], &[1, 2, 3], &[], &[3, 0]]
        .into_iter()
        .enumerate()
        .map(|(set, of)| {
            // Each source comes to another place in each set, which another source had before.
            let target = |i: usize| format!("/run/g{}", (i + set) % 4);
            let mounts = of.iter().map(|i| mount(&sources[*i], &target(*i), None));
            mounts.collect()
        })
        .collect();
    node.client().cell("web");
    let mut answered = 0;
    for kill in 0..kills {
        let mut daemon = node.client();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Over the milliseconds that an update takes, a different moment each time.
                std::thread::sleep(Duration::from_micros(kill * 7919 % 20_000));
                node.kill_daemon();
            });
            for mounts in sets.iter().cycle() {
                match daemon.try_ask(&update(mounts.clone(), None)) {
                    Ok(Answer::Object(_)) => answered += 1,
                    Ok(other) => panic!("{other:?}"),
                    Err(_) => break,
                }
            }
        });
        let mut next = node.client();
        // An update that asks for nothing new is answered after what was left is taken back.
        let now = cell(&mut next, "web").spec.mounts.clone();
        assert!(matches!(next.ask(update(now, None)), Answer::Object(_)));
        assert_true(&mut next);
    }
    assert!(answered > 0);
    assert!(Path::new(&sources[0]).exists());
    println!("    {kills} kills, {answered} updates answered");
}
