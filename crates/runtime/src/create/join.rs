// SPDX-License-Identifier: Apache-2.0
//! Namespaces of other cells that a new cell joins: whose they are, and that they may be had. The
//! spawner enters them by the descriptor of the other cell's init, so it is that very cell, or
//! none.
//!
//! A cell that has a namespace from another one itself has none to give: what its path leads to
//! could be the node's. So nothing is followed here, and a refusal names the cell to ask for.

use std::os::fd::OwnedFd;

use ::init::protocol::Namespaces;
use model::cell::{CellSpec, Namespace};
use model::error::{Error, Reason};
use model::lifecycle::State;
use model::name::ObjectPath;
use model::network::Mode;
use model::status::Object;

use super::init_of;
use super::launch::bit;
use super::network::asked_around;
use crate::Shared;
use crate::index::Key;
use crate::record::CellRecord;

/// Which namespaces of which init.
pub(super) type Joined = Vec<(Namespaces, OwnedFd)>;

/// The cells whose namespaces a new one joins.
///
/// # Errors
/// `NOT_FOUND`, `WRONG_STATE`: there is no such cell that runs. `INVALID_FIELD`: the namespace
/// isn't its own. `PERMISSION_DENIED`: a network below a cell that is to have none.
pub(super) fn find(shared: &Shared, key: &Key, record: &CellRecord) -> Result<Joined, Error> {
    let joined = record.spec.join.iter();
    joined
        .map(|(kind, path)| {
            let found = one(shared, key, (*kind, path), record.by_administrator);
            found.map_err(|e| e.field(format!("cell.spec.join[{}]", kind.as_str())))
        })
        .collect()
}

fn one(
    shared: &Shared,
    key: &Key,
    (kind, path): (Namespace, &ObjectPath),
    by_administrator: bool,
) -> Result<(Namespaces, OwnedFd), Error> {
    let other = Key {
        tenant: key.tenant.clone(),
        path: path.clone(),
    };
    let object = shared.index.at(&other);
    let Some(Object::Cell(cell)) = object.as_deref() else {
        return Err(Error::not_found("cell", path.to_string()));
    };
    if !matches!(cell.state, State::Running | State::Frozen) {
        let message = format!("the cell {path} is {}", cell.state);
        return Err(Error::new(Reason::WrongState, message).about("cell", path.to_string()));
    }
    is_own(&cell.spec, kind, path)?;
    let is_kept_from = asked_around(shared, key) == Some(Mode::None);
    if kind == Namespace::Net && is_kept_from && !by_administrator {
        let problem = "a network below a cell that is to have none is an administrator's to give";
        return Err(Error::new(Reason::PermissionDenied, problem));
    }
    Ok((Namespaces(bit(kind)), init_of(shared, &other)?))
}

/// Whether the cell has made that namespace.
fn is_own(spec: &CellSpec, kind: Namespace, path: &ObjectPath) -> Result<(), Error> {
    let name = kind.as_str();
    if let Some(third) = spec.join.get(&kind) {
        let problem = format!("{path} has the {name} namespace of {third}: name that cell");
        return Err(Error::invalid("", problem));
    }
    if spec.shares_around(kind) {
        let problem = format!("{path} shares the {name} namespace of the cell around it");
        let error = Error::invalid("", problem);
        return Err(error.hint("name the cell that has made it; the node's is never joined"));
    }
    Ok(())
}
