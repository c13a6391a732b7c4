// SPDX-License-Identifier: Apache-2.0
//! Requests that most stories begin with: a cell, a program in it. What a story is about it adds
//! itself.

use api::runtime::v0 as wire;

use crate::table::Whom::{self, Administrator, Owner};
use crate::table::{argv, at};

/// Asks for a cell.
pub(crate) fn cell(whom: Whom, path: &str, spec: wire::CellSpec) -> wire::RunCellRequest {
    let cell = wire::Cell {
        r#ref: at(whom, path),
        spec: Some(spec),
        ..Default::default()
    };
    wire::RunCellRequest {
        cell: Some(cell),
        ..Default::default()
    }
}

/// Asks for a cell that shares all that the node has, in the owner's tenant: it can be made
/// wherever a node runs, by an administrator.
pub(crate) fn shared_cell(path: &str) -> wire::RunCellRequest {
    use wire::Namespace::{Cgroup, Ipc, Mount, Net, Pid, User, Uts};
    let spec = wire::CellSpec {
        share: [User, Mount, Pid, Net, Ipc, Uts, Cgroup]
            .map(Into::into)
            .into(),
        ..Default::default()
    };
    cell(Administrator, path, spec)
}

/// Asks for an executable, as a member of the owner's tenant.
pub(crate) fn executable(path: &str, spec: wire::ExecutableSpec) -> wire::RunExecutableRequest {
    let executable = wire::Executable {
        r#ref: at(Owner, path),
        spec: Some(spec),
        ..Default::default()
    };
    wire::RunExecutableRequest {
        executable: Some(executable),
        ..Default::default()
    }
}

/// What is asked of the executable, to be changed.
pub(crate) fn spec(request: &mut wire::RunExecutableRequest) -> &mut wire::ExecutableSpec {
    request.executable.as_mut().unwrap().spec.as_mut().unwrap()
}

/// The same, of which nothing but the words matters.
pub(crate) fn program(path: &str, words: &[&str]) -> wire::RunExecutableRequest {
    executable(path, argv(words))
}
