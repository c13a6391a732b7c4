// SPDX-License-Identifier: Apache-2.0
//! Daemons and cell-inits are killed at random moments while workloads start, print, exit and are
//! stopped. Afterwards every start that was answered has had its own end, once, and its whole
//! output; nothing else runs, and nothing stays behind.
//!
//! `AURAE_KILLS` says how many kills (60; 3,000 under `./x soak`), `AURAE_TEST_SEED` which moments.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kernel::pidfd;
use kernel::signal::Signal;
use model::exit::How;
use model::name::Uid;
use model::status::Object;
use testkit::until;

use crate::client::{Answer, Ask, Client, executable, run};
use crate::host::Node;
use crate::stories::sh;

const CELLS: [&str; 3] = ["web", "db", "job"];
/// The longest that is waited before a kill, in microseconds.
const LONGEST: u64 = 80_000;
/// How many kills between two looks at everything.
const LOOK: u32 = 20;

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

/// A start that was answered, and what is to come of it.
struct Owed {
    cell: usize,
    path: String,
    uid: Uid,
    code: u8,
    prints: String,
    /// It runs until it is stopped.
    endless: bool,
}

impl Owed {
    /// Whether this is its own end and its own output. `lost`: its cell's init was killed.
    fn check(&self, how: How, log: &str, lost: bool) {
        let told = format!("{}: {how:?}, {} bytes of log", self.path, log.len());
        match how {
            How::Code(code) => {
                assert_eq!(code, self.code, "{told}");
                assert_eq!(log, self.prints, "{told}");
            }
            // A stop can come before the shell has set its trap.
            How::Signal(15) if self.endless => assert!(self.prints.starts_with(log), "{told}"),
            How::Signal(9) | How::Unknown if lost => {
                // Without PID 1 of its namespace a shell can't fork, and may still say so.
                let log = log.split("/bin/sh: 1:").next().unwrap_or_default();
                assert!(self.prints.starts_with(log), "{told}: {log:?}");
            }
            _ => panic!("{told}"),
        }
    }
}

struct Chaos {
    node: Node,
    dice: Dice,
    owed: Vec<Owed>,
    starts: u32,
    lost: u32,
    seen: u32,
}

/// Kills the daemon and cell-inits again and again while workloads start, print, end and are
/// stopped.
pub(crate) fn at_random_moments_nothing_is_lost(name: &str) {
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let kills = number("AURAE_KILLS").unwrap_or(testkit::how_much(60, 3000));
    let seed = number("AURAE_TEST_SEED").unwrap_or_else(std::process::id);
    println!("    AURAE_TEST_SEED={seed}");
    let mut chaos = Chaos {
        node: Node::start(name),
        dice: Dice(u64::from(seed) | 1 << 40),
        owed: Vec::new(),
        starts: 0,
        lost: 0,
        seen: 0,
    };
    let mut daemon = chaos.node.client();
    for cell in CELLS {
        daemon.cell(cell);
    }
    let mut inits = 0;
    for kill in 1..=kills {
        if chaos.dice.roll(4) == 0 {
            let cell = usize::try_from(chaos.dice.roll(3)).unwrap();
            chaos.kill_cell_init(cell, kill);
            inits += 1;
        } else {
            chaos.kill_daemon(kill);
        }
        if kill % LOOK == 0 {
            chaos.look(None);
        }
    }
    chaos.look(None);
    chaos.nothing_is_left();
    let Chaos {
        starts, seen, lost, ..
    } = chaos;
    assert_eq!(starts, seen);
    println!(
        "    {kills} kills ({inits} of cell-inits), {starts} starts answered and seen to their ends, \
         {lost} of them with their cell"
    );
}

impl Chaos {
    fn pause(&mut self) -> Duration {
        Duration::from_micros(self.dice.roll(LONGEST))
    }

    fn kill_daemon(&mut self, kill: u32) {
        let mut daemon = self.node.client();
        let pause = self.pause();
        let dead = AtomicBool::new(false);
        let node = &self.node;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(pause);
                node.kill_daemon();
                dead.store(true, Ordering::Relaxed);
            });
            let mut n = 0;
            while begin(&mut self.dice, &mut self.owed, &mut daemon, kill, n).is_ok() {
                n += 1;
            }
            // A daemon that hangs up is dead.
            let begun = Instant::now();
            while !dead.load(Ordering::Relaxed) {
                assert!(
                    begun.elapsed() < Duration::from_secs(30),
                    "it hung up alive"
                );
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }

    fn kill_cell_init(&mut self, cell: usize, kill: u32) {
        let mut daemon = self.node.client();
        let Object::Cell(status) = daemon.get(CELLS[cell]) else {
            panic!("not a cell")
        };
        let init = pidfd::open(i32::try_from(status.pid.unwrap()).unwrap()).unwrap();
        let pause = self.pause();
        let dead = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(pause);
                pidfd::send_signal(&init, Signal::KILL).unwrap();
                dead.store(true, Ordering::Relaxed);
            });
            for n in 0.. {
                let begun = begin(&mut self.dice, &mut self.owed, &mut daemon, kill, n);
                begun.expect("the daemon lives");
                if dead.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        self.look(Some(cell));
        daemon.ask(Ask::Remove {
            path: CELLS[cell].into(),
            recursive: true,
            force: true,
        });
        daemon.cell(CELLS[cell]);
    }

    /// Waits for the ends of all, or of those in a cell whose init was killed, and compares.
    fn look(&mut self, lost: Option<usize>) {
        let mut daemon = self.node.client();
        if lost.is_none() {
            for owed in self.owed.iter().filter(|owed| owed.endless) {
                // It may have been stopped before.
                let _ = daemon.try_ask(&stop(&owed.path)).unwrap();
            }
        }
        let concerned = |owed: &mut Owed| lost.is_none_or(|cell| owed.cell == cell);
        for owed in self.owed.extract_if(.., concerned) {
            let path = owed.path.clone();
            let uid = owed.uid;
            let ended = executable(daemon.ask(Ask::Wait { path, uid }));
            let how = ended.exit.unwrap().how;
            self.lost += u32::from(how == How::Unknown || how == How::Signal(9));
            owed.check(how, &daemon.log(uid), lost.is_some());
            let removed = Ask::Remove {
                path: owed.path,
                recursive: false,
                force: false,
            };
            assert!(matches!(daemon.ask(removed), Answer::Removed(1)));
            self.seen += 1;
        }
        self.starts = self.seen + u32::try_from(self.owed.len()).unwrap();
    }

    /// The view is the kernel's truth: three cells, their inits, and no process beside.
    fn nothing_is_left(&self) {
        let mut daemon = self.node.client();
        // What was begun, and whose starter was not answered any more.
        for object in daemon
            .list()
            .iter()
            .filter(|object| !object.state().is_final())
        {
            if let Object::Executable(executable) = object {
                let _ = daemon
                    .try_ask(&stop(&executable.meta.path.to_string()))
                    .unwrap();
            }
        }
        until("only the cells run", || {
            daemon
                .list()
                .iter()
                .filter(|object| !object.state().is_final())
                .count()
                == CELLS.len()
        });
        let mut inits = Vec::new();
        for name in CELLS {
            let Object::Cell(cell) = daemon.get(name) else {
                panic!("not a cell")
            };
            let group = self.node.cgroup().join("acme").join(name);
            let below: Vec<_> = std::fs::read_dir(&group)
                .unwrap()
                .map(|entry| entry.unwrap())
                .filter(|entry| entry.file_type().unwrap().is_dir())
                .map(|entry| entry.file_name())
                .collect();
            assert_eq!(below, [""; 0]);
            inits.push(cell.pid.unwrap());
        }
        let group = self.node.base().join("_inits/acme/cgroup.procs");
        let processes = std::fs::read_to_string(group).unwrap();
        let mut living: Vec<u32> = processes.lines().map(|pid| pid.parse().unwrap()).collect();
        living.sort_unstable();
        inits.sort_unstable();
        assert_eq!(living, inits);
    }
}

fn stop(path: &str) -> Ask {
    Ask::Stop {
        path: path.into(),
        grace_ms: None,
    }
}

/// Starts something, or stops what was started; an error where the daemon went away.
fn begin(
    dice: &mut Dice,
    owed: &mut Vec<Owed>,
    daemon: &mut Client,
    kill: u32,
    n: u32,
) -> std::io::Result<()> {
    let endless: Vec<&Owed> = owed.iter().filter(|owed| owed.endless).collect();
    if !endless.is_empty() && dice.roll(3) == 0 {
        let which = usize::try_from(dice.roll(endless.len() as u64)).unwrap();
        // It may have ended meanwhile.
        return daemon.try_ask(&stop(&endless[which].path)).map(drop);
    }
    let cell = usize::try_from(dice.roll(CELLS.len() as u64)).unwrap();
    let path = format!("{}/r{kill}-{n}", CELLS[cell]);
    let code = u8::try_from(dice.roll(200)).unwrap();
    let (script, prints, endless) = match dice.roll(3) {
        0 => {
            let pause = dice.roll(9);
            let script = format!("echo {path}; sleep 0.00{pause}; exit {code}");
            (script, format!("{path}\n"), false)
        }
        1 => {
            let lines = 100 + dice.roll(2000);
            let print =
                format!("i=0; while [ $i -lt {lines} ]; do echo {path} $i; i=$((i+1)); done");
            let prints = (0..lines).map(|i| format!("{path} {i}\n")).collect();
            (format!("{print}; exit {code}"), prints, false)
        }
        _ => {
            let trap = format!("trap 'echo bye; exit {code}' TERM");
            let script = format!("{trap}; echo {path}; while :; do sleep 0.01; done");
            (script, format!("{path}\nbye\n"), true)
        }
    };
    let wait = !endless && dice.roll(2) == 0;
    match daemon.try_ask(&run(&path, &sh(&script), wait))? {
        Answer::Object(object) => owed.push(Owed {
            cell,
            uid: object.meta().uid,
            path,
            code,
            prints,
            endless,
        }),
        // Its cell has just lost its init.
        Answer::Error { .. } => {}
        other => panic!("{path}: {other:?}"),
    }
    Ok(())
}
