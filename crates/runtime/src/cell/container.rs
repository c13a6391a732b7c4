// SPDX-License-Identifier: Apache-2.0
//! What is different for an executable of a container (ADR 34): the main process is PID 1 of a pid
//! namespace of its own, and has what the image says where its spec says nothing; what runs beside
//! it enters its pid namespace, and has what the main process has. Asked by `start`.

use init::protocol::Pids;
use model::cell::{Access, CellSpec, Mount, Namespace};
use model::container::Defaults;
use model::error::{Error, Reason};
use model::executable::{Effective, ExecutableSpec};
use model::seccomp::Seccomp;
use model::status::Object;

use super::executable::Executable;
use super::executables::Executables;
use super::state::Cell;
use crate::index::{Index, Key};
use crate::record::{self, ExecutableRecord};
use crate::seccomp;

/// The environment variable with the host name, as container runtimes set it.
const HOSTNAME: &str = "HOSTNAME";

/// Puts into a new record what the executable has where its spec says nothing.
pub(super) fn beside(
    mut record: ExecutableRecord,
    executables: &Executables,
    cell: &Cell,
) -> Result<ExecutableRecord, Error> {
    if cell.record.spec.container.is_none() {
        return match record.spec.main {
            true => Err(no_container(cell)),
            false => Ok(record),
        };
    }
    record.defaults = Some(match running(executables) {
        Some(main) if !record.spec.main => {
            check_agent(&record.spec, main)?;
            Defaults {
                capabilities: main.record.spec.capabilities.clone(),
                no_new_privileges: main.record.spec.no_new_privileges,
                seccomp: main.record.spec.seccomp.clone(),
                ..main.effective.defaults_beside()
            }
        }
        _ => {
            let image = cell.record.image.as_ref();
            let mut defaults = image
                .map(|image| image.defaults.clone())
                .unwrap_or_default();
            let hostname = &cell.status.effective.hostname;
            if !hostname.is_empty() {
                let named = defaults.env.entry(HOSTNAME.to_owned());
                named.or_insert_with(|| hostname.clone());
            }
            defaults
        }
    });
    Ok(record)
}

/// Who has the filter of a main process has its agent, a socket of the node. Whose it is, no
/// cell-init says: it could name any.
fn check_agent(spec: &ExecutableSpec, main: &Executable) -> Result<(), Error> {
    let filter = &main.record.spec.seccomp;
    if !main.was_told || spec.seccomp != Seccomp::default() || !seccomp::has_agent(filter)? {
        return Ok(());
    }
    let message = format!(
        "the filter of {} has an agent, and was begun by an earlier daemon",
        main.record.meta.path
    );
    Err(Error::new(Reason::WrongState, message)
        .field("executable.spec.seccomp")
        .hint("give a filter of its own, or run the main process anew"))
}

/// The pid namespace of a new executable.
pub(super) fn pids(
    effective: &Effective,
    executables: &Executables,
    cell: &Cell,
) -> Result<Pids, Error> {
    if cell.record.spec.container.is_none() {
        return Ok(Pids::Cell);
    }
    if executables.all_starting().any(|it| it.effective.main) {
        return Err(wrong_state(
            cell,
            "its main process is being started",
            "try again",
        ));
    }
    // What shares the pids of the cell around is PID 1 of none.
    let shares = cell.record.spec.shares(Namespace::Pid);
    match (running(executables), effective.main) {
        (None, _) | (Some(_), false) if shares => Ok(Pids::Cell),
        (None, true) => Ok(Pids::New),
        (None, false) => Ok(Pids::Cell),
        (Some(main), false) => Ok(Pids::Of(record::wire(main.uid()))),
        (Some(main), true) => {
            let what = format!("{} is its main process already", main.record.meta.path);
            Err(wrong_state(
                cell,
                &what,
                "stop that first, or leave `main` out to run beside it",
            ))
        }
    }
}

/// Whether a new executable may make groups below its own.
pub(super) fn delegates(effective: &Effective, cell: &Cell) -> bool {
    let container = cell.record.spec.container.as_ref();
    effective.main && container.is_some_and(|it| it.delegate_cgroup)
}

/// The main process, where it lives.
fn running(executables: &Executables) -> Option<&Executable> {
    let mut all = executables.values();
    all.find(|it| it.effective.main && it.exit.is_none() && it.adopted_exit.is_none())
}

/// Whether no file of the node can be written from a cell, now or later: a container without a
/// writable mount (an update adds none to it), and among the ids of no other kind of cell.
pub(super) fn is_sealed(cell: &Cell) -> bool {
    let mut spec = cell.record.spec.clone();
    let mut at = cell.key.clone();
    loop {
        if !seals(&spec) {
            return false;
        }
        if !spec.shares(Namespace::User) {
            return true;
        }
        let Some((around, outer)) = at.parent().and_then(|key| spec_of(cell, key)) else {
            return false;
        };
        (at, spec) = (around, outer);
    }
}

/// Whether a cell with this spec is a container that nothing of the node can be written from.
pub(super) fn seals(spec: &CellSpec) -> bool {
    spec.container.is_some() && !spec.mounts.iter().any(Mount::writes)
}

/// Refuses a mount by which the node may be written where something that has the cell's ids may set
/// set-id bits: in a container's nested cell, whose ids are among the container's, and in one that
/// shares the ids of a cell whose programs no filter keeps from it.
pub(crate) fn check_writes(index: &Index, key: &Key, spec: &CellSpec) -> Result<(), Error> {
    let mut mounts = spec.mounts.iter().enumerate();
    let Some((at, mount)) = mounts.find(|(_, mount)| mount.writes()) else {
        return Ok(());
    };
    let field = match mount.access {
        Access::Write => format!("cell.spec.mounts[{at}].access"),
        _ => format!("cell.spec.mounts[{at}].propagation"),
    };
    if !has_filtered_ids(index, key, spec) {
        let problem = "a mount that can be written (or follows what is mounted later) needs a cell \
                       with its own user namespace; this cell shares its parent's";
        return Err(Error::invalid(field, problem));
    }
    let mut around = std::iter::successors(key.parent(), Key::parent);
    let container = around.find(|key| match index.at(key).as_deref() {
        Some(Object::Cell(cell)) => cell.spec.container.is_some(),
        _ => false,
    });
    match container {
        None => Ok(()),
        Some(outer) => {
            let path = outer.path;
            let problem = format!("is for no cell in the container {path}: it could be written");
            Err(Error::invalid(field, problem)
                .hint("mount it read-only, or in a cell that is in no container"))
        }
    }
}

/// Whether the ids of a cell are its own, or shared with cells alone in which a filter keeps
/// programs from setting set-id bits: those are no containers, which the caller looks for, and have
/// the node's files by a template, not by the node's own mounts. So it is in a pod.
fn has_filtered_ids(index: &Index, key: &Key, spec: &CellSpec) -> bool {
    let (mut at, mut spec) = (key.clone(), spec.clone());
    while spec.shares(Namespace::User) {
        let Some(around) = at.parent() else {
            return false;
        };
        match index.at(&around).as_deref() {
            Some(Object::Cell(cell)) if !cell.spec.shares(Namespace::Mount) => {
                spec = cell.spec.clone();
            }
            _ => return false,
        }
        at = around;
    }
    true
}

fn spec_of(cell: &Cell, key: Key) -> Option<(Key, CellSpec)> {
    match &*cell.shared.index.at(&key)? {
        Object::Cell(around) => Some((key, around.spec.clone())),
        Object::Executable(_) => None,
    }
}

fn no_container(cell: &Cell) -> Error {
    let problem = format!(
        "has a meaning only in a container: the cell {} has the node's root",
        cell.key.path
    );
    Error::invalid("executable.spec.main", problem)
        .hint("give the cell a container, or leave `main` out")
}

fn wrong_state(cell: &Cell, what: &str, hint: &str) -> Error {
    let path = cell.key.path.to_string();
    Error::new(Reason::WrongState, format!("in the cell {path}, {what}"))
        .about("cell", path)
        .hint(hint)
}
