// SPDX-License-Identifier: Apache-2.0
//! Wires the journal's sockets to the node: where they are, and whose a sender is. Called by
//! `serve`; what comes is `observe::journal`'s.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::BoxFuture;
use identity::Identity;
use init::protocol::{Role, Welcome};
use model::error::Error;
use model::name::{InvalidName, Tenant};
use observe::Logs;
use observe::journal::{Journal, JournalConfig, Keep, Kept, Owner, Owners, RateLimit, Words};
use runtime::{NodeInit, Runtime};
use schedule::unit::{UNIT, Units};

use crate::config::Config;
use crate::host;
use crate::syslog::Feed;

/// Where systemd's journal has its sockets.
const FOLDER: &str = "/run/systemd/journal";
/// Where programs look for a syslog.
const LINK: &str = "/dev/log";

/// The cell that units run in: in the tenant `system` it is administrators'.
const CELL: &str = "system";

/// Makes the sockets where the daemon's init is PID 1, or the configuration says so. Where they
/// can't be made, the node goes on without.
pub(crate) async fn start(
    config: &Config,
    welcome: &Welcome,
    logs: &Logs,
    runtime: &Runtime,
    units: &Units,
    init: &NodeInit,
    words: Words,
) -> Option<Journal> {
    let own = config.journal.folder.as_os_str().is_empty();
    if welcome.role != Role::Machine && !config.journal.enabled {
        return None;
    }
    let settings = JournalConfig {
        folder: folder(config),
        link: own.then(|| PathBuf::from(LINK)),
        kernel: own.then(|| config.paths.run.join("kernel-messages")),
        max_bytes: config.journal.max_size.0,
        limit: limit(config),
        boot_id: host::boot_id().replace('-', ""),
    };
    let owners = Arc::new(Known {
        runtime: runtime.clone(),
        units: units.clone(),
    });
    let store = Arc::new(Descriptors { init: init.clone() });
    match Journal::start(settings, logs, owners, store, words).await {
        Ok(journal) => Some(journal),
        Err(error) => {
            tracing::error!(%error, "the journal's sockets can't be made: programs log nowhere");
            None
        }
    }
}

fn folder(config: &Config) -> PathBuf {
    let folder = &config.journal.folder;
    match folder.as_os_str().is_empty() {
        true => PathBuf::from(FOLDER),
        false => folder.clone(),
    }
}

fn limit(config: &Config) -> RateLimit {
    RateLimit {
        interval: config.journal.rate_interval.0,
        burst: config.journal.rate_burst,
        ..RateLimit::default()
    }
}

/// What units print, for the syslog that has its socket beside the journal's.
pub(crate) fn feed(
    config: &Config,
    logs: &Logs,
    runtime: &Runtime,
    identity: &Arc<Identity>,
    started: SystemTime,
) -> Result<Feed, InvalidName> {
    Ok(Feed {
        runtime: runtime.clone(),
        identity: identity.clone(),
        logs: logs.clone(),
        cell: CELL.parse()?,
        to: folder(config).join("syslog"),
        limit: limit(config),
        begun: started.into(),
    })
}

/// Whose descriptors they are at node-init.
const OWNER: &str = "journal";

/// Keeps the journal's descriptors with node-init (ADR 53).
struct Descriptors {
    init: NodeInit,
}

impl Keep for Descriptors {
    fn keep<'a>(&'a self, name: &'a str, fd: OwnedFd) -> BoxFuture<'a, Result<u64, Error>> {
        Box::pin(self.init.keep_descriptor(OWNER, name, fd))
    }

    fn forget(&self, number: u64) -> BoxFuture<'_, ()> {
        Box::pin(self.init.drop_descriptor(number))
    }

    fn left(&self) -> BoxFuture<'_, Result<Vec<Kept>, Error>> {
        Box::pin(async {
            let all = self.init.kept_descriptors().await?.into_iter();
            let own = all.filter(|it| it.owner == OWNER);
            Ok(own
                .map(|it| Kept {
                    number: it.number,
                    name: it.name,
                    fd: it.fd,
                })
                .collect())
        })
    }
}

/// Knows whose a cgroup is.
struct Known {
    runtime: Runtime,
    units: Units,
}

impl Owners for Known {
    fn owner(&self, group: &str) -> BoxFuture<'_, Owner> {
        let object = self.runtime.object_of_group(Path::new(group));
        Box::pin(async move {
            let Some(object) = object else {
                return Owner::default();
            };
            let meta = object.meta();
            let in_cell = meta.path.labels().first().map(|it| it.as_str()) == Some(CELL);
            let is_units = meta.tenant == Tenant::system() && in_cell;
            let unit = match meta.labels.get(UNIT) {
                // Any user may give such a label to objects of their own; what is in the cell of
                // units is the manager's.
                Some(label) if is_units => self.units.of_label(label).await,
                _ => None,
            };
            Owner {
                tenant: meta.tenant.to_string(),
                path: meta.path.to_string(),
                unit,
            }
        })
    }
}
