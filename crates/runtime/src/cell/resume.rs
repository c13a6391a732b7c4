// SPDX-License-Identifier: Apache-2.0
//! Taking over a cell from an earlier daemon: what its init kept becomes what the owner knows, and
//! what the earlier daemon had begun goes on.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use kernel::cgroup::{Cgroup, find};
use model::lifecycle::Event as Life;
use model::name::Uid;
use model::object::Kind;
use model::status::Object;
use model::time::Timestamp;

use super::executable::{Executable, exit_of};
use super::executables::Executables;
use super::handover::Spare;
use super::leaf;
use super::main_process::Main;
use super::owner::Owner;
use crate::Shared;
use crate::adopt::orphans::{self, Claim};
use crate::index::Key;
use crate::index::requests::IdempotencyKey;
use crate::link::cell::{Kept, Outputs};
use crate::link::fds::Process;
use crate::ports::LogSource;
use crate::record::{self, CellRecord, ExecutableRecord};
use crate::slices;

/// Held by each who is about to attach a log of an earlier daemon's; nothing is sent.
pub(crate) type Attaching = tokio::sync::mpsc::Sender<std::convert::Infallible>;

/// A workload whose record was read and compared with what the kernel says.
pub(crate) struct Examined {
    executable: Box<Executable>,
    source: LogSource,
    /// Of its main process.
    pidfd: Option<OwnedFd>,
}

/// Looks at what a cell-init keeps, without its owner; `name` is what the kernel calls the cell's
/// group. An error says that it tells of what can't be its own.
pub(crate) fn examine(
    cell: &Cgroup,
    name: &str,
    key: &Key,
    kept: Kept,
) -> Result<Examined, String> {
    let record: ExecutableRecord = record::decode(&kept.record)?;
    let meta = &record.meta;
    let own = meta.uid == record::unwire(kept.state.uid)
        && meta.kind == Kind::Executable
        && meta.tenant == key.tenant
        && meta.path.parent().as_ref() == Some(&key.path);
    if !own {
        return Err(format!(
            "it keeps a record of {}, which is not in its cell",
            meta.path
        ));
    }
    let leaf = leaf_of(cell, &record.leaf()).map_err(|e| e.to_string())?;
    let pid = own_process(|| Ok(name.to_owned()), &leaf, kept.process)?;
    let effective = record.effective().map_err(|error| error.to_string())?;
    let mut executable = Executable::new(record, effective, Arc::new(leaf));
    executable.was_told = true;
    executable.status.pid = pid;
    executable.status.started = Some(Timestamp(kept.state.started_ns));
    executable.adopted_exit = kept.state.exit.as_ref().map(exit_of);
    executable.first = kept.state.first.as_ref().map(exit_of);
    if executable.first.is_some() {
        // The cell-init was told of the main process, or is to be.
        let is_known = kept.state.has_process || kept.state.exit.is_some();
        executable.main = if is_known { Main::Known } else { Main::First };
    }
    let (source, input) = outputs(kept.outputs, kept.stdin);
    executable.input = input.map(Arc::new);
    Ok(Examined {
        executable,
        source,
        pidfd: kept.pidfd,
    })
}

/// Gone where an earlier daemon came to its removal, but not to the acknowledgement.
fn leaf_of(cell: &Cgroup, name: &str) -> Result<Cgroup, kernel::Error> {
    match cell.child(name) {
        Err(error) if error.is_not_found() => cell.ensure(name),
        other => other,
    }
}

/// The process that a cell-init calls its child, as the daemon numbers it; none of one that has
/// ended. An error says that it is another's. `cell` tells what the kernel calls the cell's group.
fn own_process(
    cell: impl FnOnce() -> Result<String, String>,
    leaf: &Cgroup,
    process: Process,
) -> Result<Option<u32>, String> {
    let pid = process.pid;
    let Some(number) = u32::try_from(pid).ok().filter(|pid| *pid > 0) else {
        return Ok(None);
    };
    if process.cgroup.is_some() && process.cgroup == leaf.id().ok() {
        return Ok(Some(number));
    }
    let cell = cell()?;
    match find::group_of_process(pid) {
        Ok(group) if Path::new(&group).starts_with(&cell) => Ok(Some(number)),
        Ok(group) => Err(format!(
            "it calls process {pid} its child, which is in {group}"
        )),
        // It has ended since; its end comes by its parent.
        Err(_) => Ok(None),
    }
}

/// [`own_process`], by the cell's group.
pub(super) fn process_in(
    cell: &Cgroup,
    leaf: &Cgroup,
    process: Process,
) -> Result<Option<u32>, String> {
    let name = || find::group_of_path(cell.path()).map_err(|e| e.to_string());
    own_process(name, leaf, process)
}

impl Owner {
    /// Takes a workload over. An error says that it is told of twice.
    pub(crate) fn adopt(&mut self, examined: Examined, attaching: Attaching) -> Result<(), String> {
        let Examined {
            mut executable,
            source,
            pidfd,
        } = examined;
        let uid = executable.uid();
        if self.executables.get(&uid).is_some() {
            let path = &executable.record.meta.path;
            return Err(format!("it keeps two records of {path}"));
        }
        let _ = executable.step(Life::Started);
        if self.cell.is_frozen() && executable.record.stop.is_none() {
            let _ = executable.step(Life::Freeze);
        }
        if executable.record.stop.is_some() {
            let _ = executable.step(Life::Stop);
        }
        if self.cell.outlives_its_init() {
            executable.spare = Spare::of(pidfd, Some(&source));
        }
        let attached = executable.attach_logs(source, &self.cell);
        self.cell.beside(async move {
            let event = attached.await;
            drop(attaching);
            event
        });
        self.executables.insert(uid, executable);
        Ok(())
    }

    /// The record, and the objects to be published: the cell first, then its executables.
    #[allow(
        clippy::type_complexity,
        reason = "two lists that are taken apart at once"
    )]
    pub(crate) fn parts(&mut self) -> (CellRecord, Object, Vec<(Object, Option<IdempotencyKey>)>) {
        if self.cell.is_frozen() {
            self.cell.step(Life::Freeze);
        }
        if self.cell.record.stop.is_some() {
            self.cell.step(Life::Stop);
        }
        let executables = self.executables.values().map(|executable| {
            let object = Object::Executable(executable.status.clone());
            (object, executable.record.idempotency_key.clone())
        });
        let executables = executables.collect();
        (
            self.cell.record.clone(),
            Object::Cell(self.cell.status.clone()),
            executables,
        )
    }

    /// The uids of what was taken over.
    pub(crate) fn adopted(&self) -> Vec<Uid> {
        self.executables.uids()
    }

    /// Whether the cell's end is all that [`Owner::resume`] will bring about: it was asked to stop,
    /// or the executable that it goes with has ended, and an earlier daemon has told so.
    pub(crate) fn is_to_end(&self) -> bool {
        self.cell.record.stop.is_some() || self.is_orphaned()
    }

    fn is_orphaned(&self) -> bool {
        let goes_with = self.cell.record.goes_with;
        goes_with.is_some_and(|uid| self.executables.get(&uid).is_none())
    }

    /// Goes on with what the earlier daemon had begun. Called when the objects are published.
    pub(crate) fn resume(&mut self) {
        remove_orphans(
            &self.cell.shared,
            &self.cell.group,
            &self.cell.key,
            &self.executables,
        );
        let ask = self.updates.resume(&mut self.cell);
        self.go_on(ask);
        let init = self.ending.init_pid();
        for uid in self.adopted() {
            let Some(executable) = self.executables.get_mut(&uid) else {
                continue;
            };
            if let Some(exit) = executable.adopted_exit.take() {
                self.main_left(uid, exit);
                continue;
            }
            if let Some(first) = executable.first.filter(|_| executable.main == Main::First) {
                executable.forked(first, init, &self.cell);
            }
            if let Some(intent) = executable.record.stop {
                executable.resume_stop(intent, &self.cell);
                self.stop_written(uid);
            } else {
                executable.hold(self.cell.is_frozen(), &self.cell);
            }
        }
        let orphaned = self.is_orphaned();
        if let Some(stop) = self.cell.record.stop {
            let passed = crate::now().since(stop.at);
            self.stop_cell(stop.grace.map(|grace| grace.saturating_sub(passed)));
        } else if orphaned {
            self.stop_cell(None);
        }
    }
}

/// Groups without a record: leaves of starts that a crash cut short, of which no client was told,
/// and nested cells whose init is gone.
fn remove_orphans(shared: &Arc<Shared>, around: &Arc<Cgroup>, cell: &Key, known: &Executables) {
    let Ok(children) = around.children() else {
        return;
    };
    for name in children.iter().filter_map(|name| name.to_str()) {
        if known.values().any(|e| e.leaf_name() == name) {
            continue;
        }
        let Ok(group) = around.child(name) else {
            continue;
        };
        if slices::is_slice(name) {
            let slice = Arc::new(group);
            remove_orphans(shared, &slice, cell, known);
            // Made for a cell that never was.
            slices::tidy(slice.path());
            continue;
        }
        if record::is_left_behind(name) {
            // What may go on without a name does.
            let reclaimed = leaf::reclaim(around.clone(), Arc::new(group), name.to_owned());
            tokio::spawn(reclaimed);
            continue;
        }
        if super::init::marked(&group).is_some() {
            // Beside, and only where no living cell has that name.
            drop(orphans::kill_orphan(shared, around, name));
            continue;
        }
        let Ok(path) = format!("{}/{name}", cell.path).parse() else {
            continue;
        };
        let tenant = cell.tenant.clone();
        let key = Key { tenant, path };
        let claim = orphans::claim(shared, key, Kind::Executable);
        if !matches!(claim, Claim::Taken) {
            leaf::kill(&group);
            if let Err(error) = around.remove(name, std::time::Duration::from_secs(1)) {
                tracing::warn!(%error, "a cgroup stays behind");
            }
        }
    }
}

fn outputs(outputs: Outputs, stdin: Option<OwnedFd>) -> (LogSource, Option<OwnedFd>) {
    match outputs {
        Outputs::Pipes { stdout, stderr } => (LogSource::Pipes { stdout, stderr }, stdin),
        Outputs::Terminal(master) => {
            // Without a second descriptor there is no input; the output matters more.
            let input = master.try_clone().ok();
            (LogSource::Terminal(master), input)
        }
    }
}
