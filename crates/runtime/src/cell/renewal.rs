// SPDX-License-Identifier: Apache-2.0
//! A cell that outlives its init (ADR 77): one of the administrators' that shares every namespace
//! of the node, with the light cells in it. Nothing in it ends by the init's death, so another init
//! is made for the same group, and is told what the dead one has kept. Cells of others end with
//! their inits, and with the namespaces that are theirs: see [`super::ends`].
//!
//! ```text
//!  link lost ─► what is asked is held, the init is killed
//!            ─► node-init: it has ended ─► another init ─► orphans, Adopt…, what was held
//!  of a light cell: link lost ─► held ─► the cell around it: Light ─► Adopt…, what was held
//! ```
//! An init that dies again and again takes its cell with it in the end.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Duration;

use init::protocol::{CellRequest, ExitHow, ExitRecord, Failure, Step};
use model::error::Error;
use model::lifecycle::cell::Event as CellEnd;
use model::name::Uid;
use rustix::io::Errno;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::init::InitProcess;
use super::main_process::Main;
use super::owner::{Call, Event, Owner};
use crate::create;
use crate::link::LinkError;
use crate::link::cell::CellLink;
use crate::link::node::InitState;

/// How often the inits of a cell may die within [`WITHIN`], with attempts to make one that failed.
const MOST: usize = 5;
const WITHIN: Duration = Duration::from_secs(60);
/// How long to wait before another one is made, by how often that was needed within the time.
const PAUSES: [Duration; MOST] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// Another init of a cell, or of the cell around a light one.
pub(crate) struct Renewed {
    pub(crate) link: CellLink,
    pub(crate) init: InitProcess,
    /// Resolves when it has ended; none of a light cell's.
    pub(crate) exit: Option<oneshot::Receiver<ExitRecord>>,
    /// Where node-init says how orphans end; none of a light cell's.
    pub(crate) orphans: Option<OwnedFd>,
}

/// What an owner keeps of it.
#[derive(Default)]
pub(super) struct Renewal {
    /// When inits were needed within the time.
    needed: VecDeque<Instant>,
    /// Executables whose stop the dead one may not have carried out.
    stopping: Vec<Uid>,
}

impl Renewal {
    /// Another one is needed: how long to wait for it first. `None`: it is given up.
    fn pause(&mut self, now: Instant) -> Option<Duration> {
        self.needed.retain(|at| now.duration_since(*at) < WITHIN);
        let pause = PAUSES.get(self.needed.len()).copied()?;
        self.needed.push_back(now);
        Some(pause)
    }
}

impl Owner {
    /// The init can't be talked to any more. Where the cell outlives it, what is asked is held from
    /// now on, and the init is killed, if it isn't dead already; `false`: the cell ends with it.
    pub(super) fn outlives(&mut self, error: &LinkError) -> bool {
        let shared = &self.cell.shared;
        let serves = *shared.node.state().borrow() == InitState::Serving;
        let is_light = self.cell.record.spec.light;
        // Of the conversation about a light cell alone it is no excuse to break the protocol.
        let may = match error {
            LinkError::Closed | LinkError::Silent(_) => true,
            _ => !is_light && self.ending.is_child(),
        };
        let may = may && (is_light || self.ending.is_child());
        if !serves || !may || self.ending.has_begun() || !self.cell.outlives_its_init() {
            return false;
        }
        tracing::warn!(cell = %self.cell.key.path, %error, "the cell's init is lost, and not the cell");
        self.hold();
        match is_light {
            true => self.serve_again(),
            false => self.ending.await_init(false, &self.cell),
        }
        true
    }

    /// What waits for an answer gets none; what is asked from now on is for the next init.
    fn hold(&mut self) {
        let failure = Failure {
            step: Step::Protocol,
            errno: Errno::AGAIN.raw_os_error(),
            detail: "the cell's init has died; another one takes its place".to_owned(),
        };
        for call in self.exchange.suspend() {
            match call {
                // Said to the next one anyway.
                Call::Adopt(_) | Call::StopIntent(_) | Call::Noted(_) => {}
                Call::Main {
                    uid, reply: None, ..
                } if self.is_found(uid) => self.look_again(uid),
                call => self.refused(call, &failure),
            }
        }
        let stopping = self.executables.values();
        let stopping = stopping.filter(|it| it.record.stop.is_some() && it.exit.is_none());
        self.renewal.stopping = stopping.map(|it| it.uid()).collect();
    }

    /// Whether its main process was found, and the dead init may not have been told.
    fn is_found(&self, uid: Uid) -> bool {
        let executable = self.executables.get(&uid);
        executable.is_some_and(|executable| executable.main == Main::Asked)
    }

    fn look_again(&mut self, uid: Uid) {
        if let Some(executable) = self.executables.get_mut(&uid) {
            executable.main = Main::First;
        }
    }

    /// The init of this cell, which outlives it, has ended so: another one is made. One that was
    /// asked to end has ended what ran in the cell.
    pub(super) fn init_died(&mut self, exit: &ExitRecord) {
        if exit.how == ExitHow::Code(0) {
            return self.not_renewed("the cell's init was told to end");
        }
        self.make_init();
    }

    fn make_init(&mut self) {
        let Some(pause) = self.renewal.pause(Instant::now()) else {
            let why = format!("{MOST} inits of the cell were lost within {WITHIN:?}");
            return self.not_renewed(&why);
        };
        let shared = self.cell.shared.clone();
        let (key, record) = (self.cell.key.clone(), self.cell.record.clone());
        let socket = self.ending.socket();
        self.cell.beside(async move {
            // What kills one again and again has no event to wait for.
            tokio::time::sleep(pause).await;
            let made = create::again::init(&shared, &key, &record, &socket).await;
            Event::Renewed(made.map(Box::new))
        });
    }

    /// The next init of the cell around this light one serves it, too.
    fn serve_again(&self) {
        let (shared, record) = (self.cell.shared.clone(), self.cell.record.clone());
        let socket = self.ending.socket();
        self.cell.beside(async move {
            let served = create::light::again(&shared, &record, &socket).await;
            Event::Renewed(served.map(Box::new))
        });
    }

    /// There is another init, or none could be made.
    pub(super) fn renewed(&mut self, outcome: Result<Box<Renewed>, Error>) {
        if !self.exchange.is_suspended() {
            // The cell was given up meanwhile.
            return outcome.into_iter().for_each(|renewed| renewed.init.kill());
        }
        match outcome {
            Ok(renewed) => self.go_on_with(*renewed),
            Err(error) if self.cell.record.spec.light => self.not_renewed(&error.message),
            Err(error) => {
                tracing::error!(cell = %self.cell.key.path, %error, "no other init was made");
                self.make_init();
            }
        }
    }

    /// The cell ends as if it could not outlive its init.
    fn not_renewed(&mut self, why: &str) {
        tracing::error!(cell = %self.cell.key.path, why, "the cell ends with its init");
        self.exchange.close();
        self.lose(why, CellEnd::Lost);
        self.ending.await_init(false, &self.cell);
    }

    fn go_on_with(&mut self, renewed: Renewed) {
        let Renewed {
            link,
            init,
            exit,
            orphans,
        } = renewed;
        self.ending.become_that_of(&init);
        if let Some(exit) = exit {
            self.cell.await_exit(init.pid(), exit);
        }
        let later = self.exchange.resume(link);
        if let Some(orphans) = orphans {
            let call = Call::Noted("to hear of orphans");
            self.call(call, vec![orphans], |request| CellRequest::Orphans {
                request,
            });
        }
        for uid in self.executables.uids() {
            self.hand_over(uid);
        }
        self.exchange.release(later);
        self.catch_up(init.pid());
        self.cell.status.pid = u32::try_from(init.pid()).ok();
        self.cell.publish();
        let executables = self.executables.uids().len();
        let (cell, pid) = (&self.cell.key.path, init.pid());
        tracing::warn!(%cell, pid, executables, "another init has adopted what runs in the cell");
    }

    fn hand_over(&mut self, uid: Uid) {
        let executable = self.executables.get(&uid);
        let handover = executable.map(|executable| executable.handover(&self.cell));
        match handover {
            Some(Ok(mut handover)) => {
                let fds = std::mem::take(&mut handover.fds);
                self.call(Call::Adopt(uid), fds, |request| handover.request(request));
            }
            Some(Err(why)) => self.not_adopted(uid, &why),
            None => {}
        }
    }

    /// The new init does not keep it: it ends, as all would without a new init.
    pub(super) fn not_adopted(&mut self, uid: Uid, why: &str) {
        tracing::error!(%uid, why, "an executable was not adopted");
        self.reports(uid, |executable, _| executable.lost(why));
    }

    /// What the dead init may have left undone: stops, last words, main processes to be found.
    fn catch_up(&mut self, init: i32) {
        for uid in std::mem::take(&mut self.renewal.stopping) {
            self.stop_written(uid);
        }
        for uid in self.executables.uids() {
            let Some(executable) = self.executables.get_mut(&uid) else {
                continue;
            };
            if let Some(first) = executable.first.filter(|_| executable.main == Main::First) {
                executable.forked(first, init, &self.cell);
            }
            if executable.is_last_said {
                self.grace_over(uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_init_that_dies_again_and_again_is_given_up() {
        let mut renewal = Renewal::default();
        let begin = Instant::now();
        let pauses: Vec<_> = (0..MOST).filter_map(|_| renewal.pause(begin)).collect();
        assert_eq!(pauses, PAUSES);
        assert_eq!(renewal.pause(begin), None);
        assert_eq!(renewal.pause(begin + WITHIN / 2), None);
        // One that dies now and then is made as soon as the first time.
        assert_eq!(renewal.pause(begin + WITHIN), Some(Duration::ZERO));
    }
}
