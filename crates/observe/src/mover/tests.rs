// SPDX-License-Identifier: Apache-2.0
//! The mover with real pipes, driven round by round, so that turns are counted and no time is.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use futures_util::FutureExt;
use model::observe::Stream;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

use super::*;
use crate::config::RetentionLimits;
use crate::folder::LogKey;

/// What a pipe holds: one page.
const PIPE: usize = 4096;

fn mover(root: &Path) -> Mover {
    with_sender(root).0
}

fn with_sender(root: &Path) -> (Mover, Sender) {
    let config = LogsConfig {
        pipe_bytes: PIPE,
        ..LogsConfig::default()
    };
    let registry = Arc::<Registry>::default();
    let retention =
        Retention::start(root.to_owned(), config.clone(), Arc::clone(&registry)).unwrap();
    let with = Surroundings {
        root: root.to_owned(),
        config,
        boot: [1; 16],
        registry,
        retention,
        syncer: Syncer::start().unwrap(),
    };
    Mover::new(with).unwrap()
}

/// One look, and what comes of it; without the pause.
fn one_round(mover: &mut Mover, sweep: &mut Sweep) {
    let events = mover.look().unwrap().wait().unwrap();
    mover.round(&events, sweep).unwrap();
}

/// Workloads of a tenant that print whenever they can.
struct Printers {
    tenant: Tenant,
    pipes: Vec<File>,
}

impl Printers {
    fn attach(mover: &mut Mover, tenant: &str, first: u8, count: u8) -> Self {
        let tenant: Tenant = tenant.parse().unwrap();
        let pipes = (first..first + count).map(|n| {
            let (read, write) = pipe_with(PipeFlags::NONBLOCK).unwrap();
            fcntl_setpipe_size(&write, PIPE).unwrap();
            let key = LogKey {
                tenant: tenant.clone(),
                uid: Uid([n; 16]),
            };
            let limits = RetentionLimits {
                max_bytes: 1 << 20,
                max_age: Duration::from_secs(3600),
            };
            let sources = vec![(Stream::Stdout, read)];
            mover
                .attach(Attach {
                    key,
                    sources,
                    limits,
                })
                .unwrap();
            File::from(write)
        });
        let pipes = pipes.collect();
        Self { tenant, pipes }
    }

    /// Every pipe is full afterwards.
    fn print(&mut self) {
        for pipe in &mut self.pipes {
            while pipe.write(&[b'x'; PIPE]).is_ok() {}
        }
    }

    fn turns(&self, mover: &Mover) -> usize {
        mover.rooms[&mover.room_of[&self.tenant]].turns
    }
}

#[test]
fn a_tenant_with_many_busy_pipes_has_no_more_turns_than_one_with_a_single_pipe() {
    let root = tempfile::tempdir().unwrap();
    let mut mover = mover(root.path());
    let mut loud = Printers::attach(&mut mover, "loud", 1, 200);
    let mut quiet = Printers::attach(&mut mover, "quiet", 201, 1);
    let mut sweep = Sweep::default();
    for round in 1..=400 {
        loud.print();
        quiet.print();
        one_round(&mut mover, &mut sweep);
        assert_eq!(loud.turns(&mover), round);
        assert_eq!(quiet.turns(&mover), round);
    }
    // Each of the many had two, and none was left out.
    let stored = (1..=200).map(|n| mover.logs[&Uid([n; 16])].stored().0);
    let page = PIPE as u64;
    assert!(stored.into_iter().all(|bytes| bytes == 2 * page));
}

#[test]
fn a_tenant_whose_pipes_are_gone_leaves_nothing_behind() {
    let root = tempfile::tempdir().unwrap();
    let mut mover = mover(root.path());
    let mut printers = Printers::attach(&mut mover, "acme", 1, 3);
    printers.print();
    for n in 1..=3 {
        let drained = mover.drain(Uid([n; 16])).unwrap();
        assert_eq!(drained.stdout_bytes, PIPE as u64);
    }
    assert!(mover.sources.is_empty() && mover.logs.is_empty());
    // And it comes back.
    let mut again = Printers::attach(&mut mover, "acme", 1, 1);
    again.print();
    one_round(&mut mover, &mut Sweep::default());
    assert_eq!(again.turns(&mover), 1);
}

#[test]
fn tenants_that_come_and_go_keep_a_bounded_number_of_rooms() {
    let root = tempfile::tempdir().unwrap();
    let mut mover = mover(root.path());
    let mut stays = Printers::attach(&mut mover, "stays", 201, 1);
    // More tenants than rooms are kept for, each twice; the second time its source is another one
    // of the same log.
    for n in 1..=100 {
        let tenant = format!("tenant-{n}");
        let mut comes = Printers::attach(&mut mover, &tenant, n, 1);
        drop(comes);
        comes = Printers::attach(&mut mover, &tenant, n, 1);
        comes.print();
        assert_eq!(
            mover.drain(Uid([n; 16])).unwrap().stdout_bytes,
            PIPE as u64,
            "{tenant}"
        );
        assert!(mover.rooms.len() <= room::IDLE + 1);
        assert_eq!(mover.rooms.len(), mover.room_of.len());
    }
    // The room of who has a pipe is not among those that went.
    stays.print();
    one_round(&mut mover, &mut Sweep::default());
    assert_eq!(stays.turns(&mover), 1);
}

/// A log of a pipe, and its write end.
fn log(n: u8) -> (Attach, File) {
    let (read, write) = pipe_with(PipeFlags::NONBLOCK).unwrap();
    let tenant = "acme".parse().unwrap();
    let uid = Uid([n; 16]);
    let limits = RetentionLimits {
        max_bytes: 1 << 20,
        max_age: Duration::from_secs(3600),
    };
    let what = Attach {
        key: LogKey { tenant, uid },
        sources: vec![(Stream::Stdout, read)],
        limits,
    };
    (what, File::from(write))
}

#[test]
fn a_log_without_output_begins_and_ends_while_the_thread_sleeps() {
    let root = tempfile::tempdir().unwrap();
    // No thread: what is answered was done by who asked.
    let (mover, mut sender) = with_sender(root.path());
    let mover = Arc::new(Mutex::new(mover));
    sender.mover = Arc::downgrade(&mover);
    let (what, _write) = log(1);
    let uid = what.key.uid;
    sender.attach(what).now_or_never().unwrap().unwrap();
    let drained = sender.drain(uid).now_or_never().unwrap();
    assert_eq!(drained.unwrap(), Drained::default());
    assert!(lock(&mover).logs.is_empty() && lock(&mover).sources.is_empty());
    // What was printed is the thread's to store: by this daemon, or by an earlier one.
    for printed in [&b"twelve bytes"[..], b""] {
        let (what, mut write) = log(2);
        let uid = what.key.uid;
        sender.attach(what).now_or_never().unwrap().unwrap();
        write.write_all(printed).unwrap();
        let mut drain = Box::pin(sender.drain(uid));
        assert!((&mut drain).now_or_never().is_none());
        lock(&mover).obey().unwrap();
        let drained = drain.now_or_never().unwrap().unwrap();
        assert_eq!(drained.stdout_bytes, 12);
    }
    // A thread that is at work isn't waited for: it is asked.
    let (what, _write) = log(3);
    let mut attach = Box::pin(sender.attach(what));
    let mut busy = lock(&mover);
    assert!((&mut attach).now_or_never().is_none());
    busy.obey().unwrap();
    drop(busy);
    attach.now_or_never().unwrap().unwrap();
    // One that has ended takes nothing.
    lock(&mover).stopping = true;
    let (what, _write) = log(4);
    assert!(sender.attach(what).now_or_never().is_none());
    assert!(!lock(&mover).logs.contains_key(&Uid([4; 16])));
}
