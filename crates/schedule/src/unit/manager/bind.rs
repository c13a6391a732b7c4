// SPDX-License-Identifier: Apache-2.0
//! A place of the node is shown to a unit that runs (systemctl(1), `bind`): in the mounts of its
//! main process, and of what that starts from then on. They go with the process. How it is done is
//! in [`crate::unit::sandbox::late`].

use std::os::fd::OwnedFd;
use std::path::Path;

use identity::Permit;
use kernel::pidfd;
use model::error::{Error, Reason};
use units::job::World;
use units::name::UnitName;

use super::orders::Reply;
use super::{Happened, Manager, Order};
use crate::unit::handle::Units;
use crate::unit::sandbox::late::{self, Bind};

impl Manager {
    pub(super) fn bind(&mut self, unit: &UnitName, bind: Bind, reply: Reply<()>) {
        let unit = self.id(unit);
        let process = match self.admits_bind(&unit, &bind) {
            Ok(process) => process,
            Err(error) => {
                let _ = reply.send(Err(error.about("unit", unit.to_string())));
                return;
            }
        };
        self.jobs.spawn_blocking(move || {
            let target = bind.target.display().to_string();
            let bound = late::bind(process, bind).map_err(|error| {
                let words = format!("nothing is mounted at {target}: {error}");
                let refused = Error::new(Reason::WrongState, words);
                let refused = refused.about("unit", unit.to_string());
                match error.kind() {
                    std::io::ErrorKind::NotFound => {
                        refused.hint("check the source, and say --mkdir where the place is new")
                    }
                    _ => refused,
                }
            });
            let _ = reply.send(bound);
            Happened::Nothing
        });
    }

    /// The main process, where that may be.
    fn admits_bind(&self, unit: &UnitName, bind: &Bind) -> Result<OwnedFd, Error> {
        let wrong = |words: String| Error::new(Reason::WrongState, words);
        if let Some(path) = bind.wrong_path() {
            let words = format!("{} is not an absolute path without `..`", path.display());
            return Err(Error::invalid("path", words));
        }
        let Some(loaded) = self.known.table.find(unit) else {
            return Err(Error::not_found("unit", unit.to_string()));
        };
        let hidden = loaded.unit.settings.paths("InaccessiblePaths");
        if hidden
            .iter()
            .any(|it| bind.target.starts_with(Path::new(&it.path)))
        {
            let target = bind.target.display();
            return Err(wrong(format!("{target} is not accessible to {unit}")));
        }
        let process = self
            .main_pid(unit)
            .filter(|_| self.known.activity(unit).is_up());
        let not_running = || wrong(format!("{unit} has no main process: nothing to mount for"));
        let pid = process.ok_or_else(not_running)?;
        let number = i32::try_from(pid).map_err(|_| not_running())?;
        let process = pidfd::open(number).map_err(|_| not_running())?;
        // The number is that of a process of the unit, and has been since the descriptor is there:
        // who looks at the descriptor sees whether it has ended.
        if self.unit_of_process(number).as_ref() != Some(unit) {
            return Err(not_running());
        }
        let own = late::has_own_mounts(pid);
        match own.map_err(|error| wrong(format!("the mounts of {unit}: {error}")))? {
            true => Ok(process),
            false => Err(wrong(format!(
                "{unit} has no mounts of its own: its programs see those of the node"
            ))
            .hint("PrivateMounts=yes or another directive that needs them gives it some")),
        }
    }
}

impl Units {
    /// Mounts a place of the node for the main process of a unit that is up.
    ///
    /// # Errors
    /// `WRONG_STATE`: it has no main process, or none with mounts of its own; the place can't be
    /// reached, or is one of `InaccessiblePaths=`. `INVALID_FIELD`, `NOT_FOUND`, `UNSUPPORTED`.
    pub async fn bind(&self, permit: &Permit, unit: UnitName, bind: Bind) -> Result<(), Error> {
        self.ask(permit, |reply| Order::Bind(unit, bind, reply))
            .await
    }
}
