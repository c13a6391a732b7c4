// SPDX-License-Identifier: Apache-2.0
//! Containers are made and removed again and again while the daemon is killed at random moments,
//! without a network and with one. Afterwards nothing of them is left: no mount, group, process,
//! descriptor or file; no link, address or rule.
//!
//! `AURAE_CYCLES` says how many (12; 2,000 under `./x soak`), `AURAE_TEST_SEED` which moments.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use api::runtime::v0 as wire;

use crate::caller::Person;
use crate::containers::{at, cast, cell_of, container, request, script, with_image};
use crate::network::{Bed, Ns, bed, port, published};
use crate::node::TestNode;

/// The longest that is waited before a kill, in microseconds: a cycle takes some tens of
/// milliseconds.
const LONGEST: u64 = 60_000;
/// What a container has to end by itself.
const GRACE: Duration = Duration::from_millis(20);
/// Of so many cycles one meets the daemon's death.
const DEATHS: u64 = 3;
/// The cell that is there before all others.
const FIRST: &str = "first";
/// How long the kernel may take to let go of what has ended.
const SOON: Duration = Duration::from_secs(30);

/// A small generator, so that a failure can be repeated by its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// What a node holds, to be compared: whatever grows with cycles shows.
#[derive(PartialEq, Eq, Debug)]
struct Holds {
    /// By process: the inits' descriptors and mounts.
    inits: BTreeMap<String, (usize, usize)>,
    groups: Vec<PathBuf>,
    files: Vec<PathBuf>,
    /// Links with their addresses, and the rules.
    network: Vec<String>,
}

fn count(folder: String) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

fn folders_below(at: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(at).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.push(entry.path());
            folders_below(&entry.path(), found);
        }
    }
}

impl Holds {
    /// Whether nothing of a cell is left: groups have the name of theirs, files a uid.
    fn is_without(&self, cell: &str) -> bool {
        let has_uid = |file: &PathBuf| {
            let name = file.file_stem().and_then(|name| name.to_str());
            name.is_some_and(|name| name.parse::<model::name::Uid>().is_ok())
        };
        let mut inits = self.inits.keys();
        !inits.any(|name| name.starts_with("aurae-cell"))
            && !self.groups.iter().any(|group| group.ends_with(cell))
            && !self.files.iter().any(has_uid)
    }

    /// `ns`: where the node's network is, if it has one.
    fn of(node: &TestNode, ns: Option<&Ns>) -> Holds {
        let mut inits = BTreeMap::new();
        for (name, pid) in node.processes() {
            // The daemon is another one after each death.
            if name == "serve" {
                continue;
            }
            let mounts = std::fs::read_to_string(format!("/proc/{pid}/mountinfo"));
            let mounts = mounts.unwrap_or_default().lines().count();
            inits.insert(name, (count(format!("/proc/{pid}/fd")), mounts));
        }
        let mut groups = Vec::new();
        folders_below(&node.group(), &mut groups);
        let mut files = Vec::new();
        let (run, state) = (node.folder().join("run"), node.state());
        for folder in [
            "logs",
            "images/ingest",
            "images/work",
            "images/aside",
            "images/pending",
        ] {
            folders_below(&state.join(folder), &mut files);
        }
        for folder in ["cells", "networks"] {
            let of_cells = std::fs::read_dir(run.join(folder));
            let of_cells = of_cells.into_iter().flatten().flatten();
            files.extend(of_cells.map(|entry| entry.path()));
        }
        groups.sort();
        files.sort();
        Holds {
            inits,
            groups,
            files,
            network: ns.map(|ns| ns.run(network)).unwrap_or_default(),
        }
    }
}

/// Links, addresses and rules of the caller's network namespace.
fn network() -> Vec<String> {
    let asked: [(&str, &[&str]); 2] = [
        ("ip", &["-oneline", "-brief", "address", "show"]),
        ("nft", &["--stateless", "list", "ruleset"]),
    ];
    let mut lines = Vec::new();
    for (program, words) in asked {
        let output = Command::new(program).args(words).output().unwrap();
        assert!(output.status.success(), "{program} {words:?}: {output:?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        lines.extend(text.lines().map(|line| match program {
            "ip" => without_state(line),
            _ => line.to_owned(),
        }));
    }
    lines
}

/// A link and its addresses. Up or down is told late: a bridge whose last port goes is up for up to
/// a second more.
fn without_state(line: &str) -> String {
    let words = line.split_whitespace().enumerate();
    let words = words.filter(|(at, _)| *at != 1).map(|(_, word)| word);
    words.collect::<Vec<_>>().join(" ")
}

/// The cells of a search: the one with that number is made of this.
type Made = fn(u64) -> wire::CellSpec;

/// Each has a port of the node's.
fn with_port(number: u64) -> wire::CellSpec {
    let offset = u32::try_from(number % 7).unwrap();
    published(vec![port(20_000 + offset, 80)])
}

/// One container, from its making to its removal: one that ends by itself, or one that is removed
/// while it runs. The daemon may die at any step.
async fn cycle(
    person: Person,
    name: String,
    cell: wire::CellSpec,
    ends: bool,
) -> Result<(), tonic::Status> {
    let mut runtime = person.node.runtime();
    if ends {
        let mut asked = request(&format!("{name}/main"), script("busybox true; exit 0"));
        asked.own_cell = Some(cell);
        runtime.run_executable(asked).await?;
        // The cell goes with it.
        return remove(&person, &format!("{name}/main")).await;
    }
    let made = wire::RunCellRequest {
        cell: Some(wire::Cell {
            r#ref: at(&name),
            spec: Some(cell),
            ..Default::default()
        }),
        ..Default::default()
    };
    runtime.run_cell(made).await?;
    // PID 1 of a container takes no signal that it has no handler for: it is killed after this.
    let spec = wire::ExecutableSpec {
        stop_grace: Some(GRACE.try_into().unwrap()),
        ..script("busybox sleep 1000")
    };
    let mut asked = request(&format!("{name}/main"), spec);
    asked.wait_for = wire::WaitFor::Started.into();
    runtime.run_executable(asked).await?;
    remove(&person, &name).await
}

async fn remove(person: &Person, name: &str) -> Result<(), tonic::Status> {
    let remove = wire::RemoveRequest {
        r#ref: at(name),
        recursive: true,
        force: true,
    };
    person.node.runtime().remove(remove).await.map(|_| ())
}

/// Removes what deaths have left, which is the next daemon's to know and a client's to remove.
async fn remove_all(person: &Person) {
    let list = person
        .node
        .runtime()
        .list(wire::ListRequest::default())
        .await;
    let path = |object: wire::Object| match object.object {
        Some(wire::object::Object::Cell(cell)) => cell.meta?.r#ref.map(|at| at.path),
        Some(wire::object::Object::Executable(it)) => it.meta?.r#ref.map(|at| at.path),
        None => None,
    };
    let objects = list.unwrap().into_inner().objects;
    let mut paths: Vec<_> = objects.into_iter().filter_map(path).collect();
    // Cells with what is in them; then what is left of those whose cell has gone.
    paths.sort_by_key(|path| path.contains('/'));
    for path in paths {
        let _ended_meanwhile = remove(person, &path).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn containers_come_and_go_while_the_daemon_dies_and_nothing_is_left() {
    let Some((node, _, _)) = cast().await else {
        return;
    };
    search(node, None, |_| cell_of(container())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn containers_with_a_network_come_and_go_while_the_daemon_dies_and_nothing_is_left() {
    if Command::new("nft").arg("--version").output().is_err() {
        return testkit::skip("rules are looked at by nft(8)");
    }
    let bed = bed().await;
    let Some(Bed {
        ns,
        node,
        world: _world,
        ..
    }) = bed
    else {
        return;
    };
    search(node, Some(&ns), with_port).await;
}

async fn search(mut node: TestNode, ns: Option<&Ns>, made: Made) {
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let cycles: u64 = number("AURAE_CYCLES").unwrap_or(testkit::how_much(12, 2000));
    let seed: u64 = number("AURAE_TEST_SEED").unwrap_or_else(|| std::process::id().into());
    println!("    AURAE_TEST_SEED={seed}");
    let mut dice = Dice(seed | 1 << 40);
    let mut person = node.administrator().await;
    with_image(&person).await;
    // What the first container makes for all stays: groups of the tenant, folders.
    for ends in [true, false] {
        let first = cycle(person.clone(), FIRST.to_owned(), made(0), ends);
        first.await.unwrap();
    }
    let before = settled(&node, ns, None).await;
    let mut deaths = 0;
    for n in 0..cycles {
        let name = format!("c{}", n % 7);
        let at_work = tokio::spawn(cycle(person.clone(), name, made(n), n % 2 == 0));
        if n % DEATHS == 1 {
            deaths += 1;
            tokio::time::sleep(Duration::from_micros(dice.roll(LONGEST))).await;
            tokio::task::block_in_place(|| node.kill_daemon());
            let _it_may_have_been_cut_short = at_work.await.unwrap();
            person = node.administrator().await;
            remove_all(&person).await;
        } else {
            at_work.await.unwrap().unwrap();
        }
    }
    remove_all(&person).await;
    let after = settled(&node, ns, Some(&before)).await;
    assert_eq!(after, before, "after {cycles} cycles and {deaths} deaths");
    println!("    {cycles} cycles, {deaths} deaths");
}

/// What the node holds, once it is what is awaited; or once the first cell has gone, and it doesn't
/// change any more.
async fn settled(node: &TestNode, ns: Option<&Ns>, awaited: Option<&Holds>) -> Holds {
    let begun = Instant::now();
    let mut last = Holds::of(node, ns);
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = Holds::of(node, ns);
        let done = match awaited {
            Some(awaited) => now == *awaited,
            None => now == last && now.is_without(FIRST),
        };
        if done || begun.elapsed() > SOON {
            return now;
        }
        last = now;
    }
}
