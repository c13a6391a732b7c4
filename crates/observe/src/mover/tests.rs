// SPDX-License-Identifier: Apache-2.0
//! The mover with real pipes, driven round by round, so that turns are counted and no time is.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use model::observe::Stream;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

use super::*;
use crate::config::Keep;
use crate::folder::LogKey;

/// What a pipe holds: one page.
const PIPE: usize = 4096;

fn mover(root: &Path) -> Mover {
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
    Mover::new(with).unwrap().0
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
            let keep = Keep {
                max_bytes: 1 << 20,
                max_age: Duration::from_secs(3600),
            };
            let sources = vec![(Stream::Stdout, read)];
            mover.attach(key, sources, keep).unwrap();
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
        mover.round(&mut sweep).unwrap();
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
    assert!(mover.rooms.is_empty() && mover.room_of.is_empty() && mover.sources.is_empty());
    // And it comes back.
    let mut again = Printers::attach(&mut mover, "acme", 1, 1);
    again.print();
    mover.round(&mut Sweep::default()).unwrap();
    assert_eq!(again.turns(&mover), 1);
}
