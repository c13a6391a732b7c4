// SPDX-License-Identifier: Apache-2.0
//! What udev's daemon says of devices becomes what their units are: one that comes is up, and
//! starts what its rules want; one that goes is down, and what is bound to it stops.

use std::sync::Arc;

use kernel::udev::{self, Events};
use model::unit::JobMode;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use units::job::{JobType, World};

use super::jobs::Wanted;
use super::{Happened, Manager};
use crate::unit::device::{self, Change, Device, Devices};

/// So many events are taken in at once; then others have their turn.
const BURST: usize = 256;

/// Devices, and where they are told of.
#[derive(Default)]
pub(super) struct Watched {
    pub(super) known: Devices,
    events: Option<Arc<AsyncFd<Events>>>,
}

impl Manager {
    /// Listens to udev's daemon, and takes in what it has said before.
    pub(super) async fn watch_devices(&mut self) {
        let opened = Events::open().map_err(std::io::Error::from);
        match opened.and_then(|it| runtime::watched::watch(it, Interest::READABLE)) {
            Ok(events) => self.devices.events = Some(Arc::new(events)),
            Err(error) => tracing::error!(%error, "what udev says of devices is not heard"),
        }
        // What was wanted before was started by the daemon that heard of it.
        if let Ok(all) = tokio::task::spawn_blocking(device::read).await {
            self.devices.known.replace(all);
        }
        self.await_devices();
    }

    fn await_devices(&mut self) {
        let Some(events) = self.devices.events.clone() else {
            return;
        };
        self.jobs.spawn(async move {
            match events.readable().await {
                Ok(mut ready) => {
                    ready.clear_ready();
                    Happened::Devices
                }
                Err(error) => {
                    tracing::error!(%error, "what udev says of devices is not heard any more");
                    Happened::Nothing
                }
            }
        });
    }

    /// Events wait to be taken in.
    pub(super) fn devices_spoke(&mut self) {
        let Some(events) = self.devices.events.clone() else {
            return;
        };
        for _ in 0..BURST {
            match events.get_ref().next() {
                Ok(Some(event)) => {
                    let change = self.devices.known.take(&event);
                    self.devices_are(change);
                }
                Ok(None) => return self.await_devices(),
                Err(error) if udev::were_dropped(&error) => {
                    tracing::warn!("events of devices were lost; udev's database is read again");
                    self.jobs.spawn(async {
                        let read = tokio::task::spawn_blocking(device::read).await;
                        Happened::AllDevices(read.unwrap_or_default())
                    });
                }
                Err(error) => {
                    return tracing::error!(%error, "what udev says of devices is not heard");
                }
            }
        }
        // More wait: others first.
        self.jobs.spawn(async { Happened::Devices });
    }

    /// The database after a loss of events.
    pub(super) fn devices_were_read(&mut self, all: Vec<(String, Device)>) {
        let change = self.devices.known.replace(all);
        self.devices_are(change);
    }

    fn devices_are(&mut self, change: Change) {
        for unit in change.units {
            // The other units aren't loaded.
            if self.known.table.find(&unit).is_none() {
                continue;
            }
            let before = self.known.activity(&unit);
            if self.look_at(&unit) {
                self.changed(&unit, before);
            }
        }
        for unit in change.wants {
            self.wanted.push(Wanted {
                why: "a device that came wants it (SYSTEMD_WANTS=)".to_owned(),
                unit,
                kind: JobType::Start,
                mode: JobMode::Fail,
            });
        }
    }
}
