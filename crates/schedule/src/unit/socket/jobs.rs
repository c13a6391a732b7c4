// SPDX-License-Identifier: Apache-2.0
//! What takes its time for a socket unit, beside the manager's task: its commands, the making of
//! its descriptors, and waiting for who comes. What follows from that is `state`'s.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;
use rustix::net::SocketFlags;
use tokio::io::Interest;
use units::name::{UnitName, UnitType};
use units::service::{Defaults, Service};
use units::unit::Unit;

use super::rules::Rules;
use super::{Listening, open, place};
use crate::unit::kept::{DescriptorStore, Use};
use crate::unit::program::{self, Told};
use crate::unit::runs::{self, Run, Runs};
use crate::unit::steps::{Commands, Outcome};

/// So many connections that wait are thrown away at once (`FlushPending=`), as systemd has it.
const FLUSHED: usize = 1024;

/// Runs a list of commands. How it went, and words where it didn't.
pub(crate) async fn run_list(
    runs: &Runs,
    first: Run,
    files: &Arc<Unit>,
    lists: &Commands,
    told: &Told,
) -> (Outcome, String) {
    let went = run_each(runs, first.clone(), files, lists, told).await;
    let_go(runs, &first).await;
    went
}

/// A socket unit has its cell for its commands alone.
pub(crate) async fn let_go(runs: &Runs, run: &Run) {
    if let Err(error) = runs.let_go(&run.unit, run.activation).await {
        tracing::warn!(unit = %run.unit, %error, "the cell of a unit stays");
    }
}

async fn run_each(
    runs: &Runs,
    first: Run,
    files: &Arc<Unit>,
    lists: &Commands,
    told: &Told,
) -> (Outcome, String) {
    let service = Service::of(files, Defaults::default()).0;
    let timeout = Rules::of(files).timeout;
    let mut run = first;
    while lists.has(run.step) {
        let ended = run_one(runs, &run, files, &service, told);
        let ended = match timeout.micros().filter(|it| *it > 0) {
            Some(micros) => tokio::time::timeout(Duration::from_micros(micros), ended).await,
            None => Ok(ended.await),
        };
        let (outcome, words) = match ended {
            Ok(done) => done,
            Err(_) => {
                runs.stop_surely(&run, Rules::of(files).grace()).await;
                (Outcome::Timeout, "it took too long".to_owned())
            }
        };
        let ignored = lists.ignores_failure(run.step) && outcome != Outcome::Timeout;
        if outcome != Outcome::Success && !ignored {
            let directive = run.step.phase.directive_of(UnitType::Socket);
            return (outcome, format!("{directive}: {words}"));
        }
        run.step.index += 1;
    }
    (Outcome::Success, String::new())
}

async fn run_one(
    runs: &Runs,
    run: &Run,
    files: &Arc<Unit>,
    service: &Service,
    told: &Told,
) -> (Outcome, String) {
    let (files, rules, step) = (files.clone(), service.clone(), run.step);
    let told = told.clone();
    let (own, slices) = (files.clone(), told.slices.clone());
    let prepared = tokio::task::spawn_blocking(move || {
        program::prepare(&files, &rules, step, &told)?.into_parts()
    });
    let (spec, extras) = match prepared.await {
        Ok(Ok(parts)) => parts,
        Ok(Err(failure)) => return (Outcome::ExitCode, failure.words),
        Err(error) => return (Outcome::Failure, error.to_string()),
    };
    match runs
        .begin(run, spec, (&own.settings, slices), extras, None)
        .await
    {
        Ok(object) => {
            let end = runs.end_of(&object).await;
            (end.outcome(service), format!("it ended with {end:?}"))
        }
        Err(error) => match runs::status_of(&error) {
            Some(_) => (Outcome::ExitCode, error.to_string()),
            None => (Outcome::Failure, error.to_string()),
        },
    }
}

/// Opens all of a unit but what is there, and has node-init keep them. Where one can't be had
/// nothing is left of the others.
pub(crate) async fn open_all(
    descriptors: &DescriptorStore,
    unit: &UnitName,
    files: Arc<Unit>,
    there: &[usize],
) -> Result<Vec<Listening>, String> {
    let skipped = there.to_vec();
    let opened = tokio::task::spawn_blocking(move || {
        let rules = Rules::of(&files);
        let wanted = rules.listens.iter().enumerate();
        let mut all = Vec::new();
        for (at, wanted) in wanted.filter(|(at, _)| !skipped.contains(at)) {
            all.push((at, open::open(&rules, &files.settings, wanted)?));
        }
        place::link(&rules, files.id.as_str());
        Ok::<_, String>(all)
    });
    let opened = opened.await.map_err(|it| it.to_string())??;
    let mut all: Vec<Listening> = Vec::new();
    for (at, fd) in opened {
        let kept = match fd.try_clone() {
            Ok(copy) => {
                descriptors
                    .keep(Use::Socket, unit, &at.to_string(), copy)
                    .await
            }
            Err(error) => Err(model::error::Error::internal(error.to_string())),
        };
        match kept {
            Ok(number) => all.push(Listening { at, fd, number }),
            Err(error) => {
                for one in &all {
                    descriptors.forget(one.number).await;
                }
                return Err(error.to_string());
            }
        }
    }
    Ok(all)
}

/// What has come of waiting.
pub(crate) enum Came {
    /// Something can be read.
    Readable,
    /// A connection was taken.
    Connection(OwnedFd),
    /// One waits, and can't be taken: the daemon or the machine has no descriptor or no memory for
    /// it. Words.
    Full(String),
}

/// Resolves when one of them can be read; with a connection where they accept. What can't be waited
/// for (files of /proc) is left out; without any it never resolves.
///
/// # Errors
/// Words: no client can be waited for any more.
pub(crate) async fn wait_at(fds: Vec<OwnedFd>, accepts: bool) -> Result<Came, String> {
    let mut all = Vec::new();
    for fd in fds {
        if let Ok(watched) = runtime::watched::watch(fd, Interest::READABLE) {
            all.push(watched);
        }
    }
    if all.is_empty() {
        return std::future::pending().await;
    }
    loop {
        let waiting = all.iter().map(|it| Box::pin(it.readable()));
        let (ready, at, _) = select_all(waiting).await;
        let mut ready = ready.map_err(|it| it.to_string())?;
        if !accepts {
            return Ok(Came::Readable);
        }
        let Some(listener) = all.get(at) else {
            continue;
        };
        use rustix::io::Errno;
        match rustix::net::accept_with(listener.get_ref(), SocketFlags::CLOEXEC) {
            Ok(connection) => return Ok(Came::Connection(connection)),
            Err(Errno::AGAIN) => ready.clear_ready(),
            // The peer has gone already, or the network says something: not the listener's end.
            Err(error) if is_of_a_connection(error) => {}
            // It waits in the kernel's queue.
            Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                return Ok(Came::Full(error.to_string()));
            }
            Err(error) => return Err(format!("accept: {error}")),
        }
    }
}

/// accept(2), "Error handling".
fn is_of_a_connection(error: rustix::io::Errno) -> bool {
    use rustix::io::Errno as E;
    [
        E::INTR,
        E::CONNABORTED,
        E::NETDOWN,
        E::PROTO,
        E::NOPROTOOPT,
        E::HOSTDOWN,
        E::NONET,
        E::HOSTUNREACH,
        E::OPNOTSUPP,
        E::NETUNREACH,
        E::PERM,
        E::TIMEDOUT,
    ]
    .contains(&error)
}

/// Takes in and throws away what waits at a descriptor.
pub(crate) fn flush_one(fd: &OwnedFd) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let is_listener = rustix::net::sockopt::socket_acceptconn(fd).unwrap_or(false);
    for _ in 0..FLUSHED {
        let mut wanted = [PollFd::new(fd, PollFlags::IN)];
        let now = Timespec::default();
        if !poll(&mut wanted, Some(&now)).is_ok_and(|it| it > 0) {
            return;
        }
        let done = match is_listener {
            true => rustix::net::accept_with(fd, SocketFlags::CLOEXEC).map(|_| 1),
            false => rustix::io::read(fd, &mut [0_u8; 4096][..]),
        };
        if done.is_err() {
            return;
        }
    }
}
