// SPDX-License-Identifier: Apache-2.0
//! What units print goes to a syslog, too, where one listens at systemd's socket for it: Debian's
//! rsyslog writes /var/log/syslog from that alone. Called by `serve` where the node has a journal;
//! what came through the journal's sockets goes there as it comes (`observe::journal`).
//!
//! ```text
//! runtime: a unit's program has begun ──► follower of its log ──► lines ──► one socket ──► syslog
//! ```
//! The output is stored first, by a mover that knows nothing of this, and followed as by any other
//! reader: a syslog that is slow holds up neither a unit nor its log, and one that isn't there gets
//! nothing. A unit that prints without end gets as much through as the journal's limit allows, and
//! what is passed over is counted. The next daemon goes on with what it stores itself: what one
//! that was killed had stored and not passed on yet is missing there, some milliseconds' worth.

mod budget;
mod follow;
mod lines;
mod socket;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use identity::{Effect, Identity};
use model::error::Error;
use model::name::{ObjectPath, Tenant, Uid};
use model::object::Kind;
use model::request::{Filter, Scope, WatchQuery};
use model::selector::Selector;
use model::status::{ExecutableStatus, Object};
use model::time::Timestamp;
use observe::journal::RateLimit;
use observe::{LogKey, Logs};
use runtime::{Runtime, WatchKind, Watcher};
use schedule::unit::Printed;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use follow::Follower;

/// The action that the watch is.
const WATCH: &str = "runtime.Watch";
/// Messages that wait for the socket: whose follower has more waits, too.
const WAITING: usize = 64;

/// What is followed, and where it goes.
pub(crate) struct Feed {
    pub(crate) runtime: Runtime,
    pub(crate) identity: Arc<Identity>,
    pub(crate) logs: Logs,
    /// The cell of all units.
    pub(crate) cell: ObjectPath,
    /// The syslog's socket.
    pub(crate) to: PathBuf,
    /// Of what each program prints.
    pub(crate) limit: RateLimit,
    /// What this daemon has stored, it has stored since then.
    pub(crate) begun: Timestamp,
}

/// Which logs are known, and followed.
struct Known {
    /// With what tells a follower that its program has ended, by being dropped.
    seen: HashMap<Uid, Option<oneshot::Sender<()>>>,
    /// What was seen before all is told again: what is not told by the end of that is gone.
    before: HashMap<Uid, Option<oneshot::Sender<()>>>,
    /// Whether all that there was at first has been told.
    is_complete: bool,
    followers: JoinSet<()>,
    socket: mpsc::Sender<Vec<u8>>,
}

impl Feed {
    /// Follows what units print for as long as the daemon runs.
    pub(crate) async fn run(self) {
        let mut watcher = match self.watch() {
            Ok(watcher) => watcher,
            Err(error) => {
                tracing::error!(%error, "what units print isn't passed on to a syslog");
                return;
            }
        };
        let (socket, messages) = mpsc::channel(WAITING);
        let mut known = Known {
            seen: HashMap::new(),
            before: HashMap::new(),
            is_complete: false,
            followers: JoinSet::new(),
            socket,
        };
        let passed_on = socket::pass_on(messages, self.to.clone());
        tokio::pin!(passed_on);
        loop {
            tokio::select! {
                event = watcher.next() => match (event.kind, event.object.as_deref()) {
                    (WatchKind::Reset, _) => known.before.extend(known.seen.drain()),
                    (WatchKind::SnapshotEnd, _) => {
                        known.before.clear();
                        known.is_complete = true;
                    }
                    (WatchKind::Removed, Some(gone)) => {
                        known.seen.remove(&gone.meta().uid);
                    }
                    (_, Some(Object::Executable(status))) => self.look(status, &mut known),
                    _ => {}
                },
                Some(_ended) = known.followers.join_next() => {}
                () = &mut passed_on => return,
            }
        }
    }

    fn watch(&self) -> Result<Watcher, Error> {
        let effects = vec![Effect::below(WATCH, &self.cell)];
        let permit = self.identity.node_permit(effects).map_err(Error::from)?;
        let filter = Filter {
            scope: Scope::Tenant(Tenant::system()),
            selector: Selector::default(),
            kinds: [Kind::Executable].into(),
            below: Some(self.cell.clone()),
        };
        let query = WatchQuery {
            filter,
            resume_token: None,
        };
        self.runtime.watch(permit, query)
    }

    /// Follows it, where it is new and a unit's.
    fn look(&self, status: &ExecutableStatus, known: &mut Known) {
        let (uid, has_ended) = (status.meta.uid, status.state.is_final());
        let seen = known.seen.remove(&uid);
        if let Some(tells) = seen.or_else(|| known.before.remove(&uid)) {
            known.seen.insert(uid, tells.filter(|_| !has_ended));
            return;
        }
        let (tells, ended) = oneshot::channel();
        known.seen.insert(uid, (!has_ended).then_some(tells));
        // What had ended by the time the daemon began was another one's.
        let is_old = !known.is_complete && has_ended;
        let Some(printed) = Printed::of(status).filter(|_| !is_old) else {
            return;
        };
        let follower = Follower {
            logs: self.logs.clone(),
            key: LogKey {
                tenant: Tenant::system(),
                uid,
            },
            since: (!known.is_complete).then_some(self.begun),
            limit: self.limit,
            printed,
            ended,
            to: known.socket.clone(),
        };
        known.followers.spawn(follower.run());
    }
}
