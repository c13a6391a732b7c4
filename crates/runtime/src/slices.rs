// SPDX-License-Identifier: Apache-2.0
//! Slices (systemd.slice(5)): groups between that of a cell and those of cells in it, so that what
//! all in one use together is limited. One has no name of an object's, no record and no process:
//! the cell `system/nginx` is called so in whichever slice its group is, and where that is the
//! kernel's hierarchy says. What a slice may use is noted on its group, so that the next daemon
//! lifts what is limited no more.
//!
//! ```text
//!   system/system/nginx                          in none
//!   system/system/_web.slice/nginx               in web.slice
//!   system/system/_web.slice/_web-api.slice/app  in web-api.slice, which is in web.slice
//! ```
//! Which there are is the unit manager's to say, whenever it makes a cell in one and when its files
//! have changed. Slices of scopes are elsewhere ([`super::scopes`]): logind reads their names.

use std::path::{Path, PathBuf};

use identity::Effect;
use identity::permit::Permit;
use kernel::cgroup::Cgroup;
use model::error::{Error, Reason};
use model::name::{ObjectPath, Tenant};
use model::resources::Resources;
use rustix::io::Errno;

use super::cell::limits;
use super::index::Key;
use super::{Runtime, Shared};

/// What the name of a slice's group begins with: no cell's or executable's does.
const FIRST: char = '_';
/// What notes its limits, as JSON.
const NOTE: &str = "trusted.aurae.slice";
/// So many are in each other at most.
const DEEPEST: usize = 16;

/// A slice that a cell is to be in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slice {
    /// `web-api.slice`.
    pub name: String,
    /// What all in it may use together.
    pub resources: Resources,
}

/// Whether the group of that name is a slice's.
pub(crate) fn is_slice(name: &str) -> bool {
    name.starts_with(FIRST)
}

/// The path without its slices: what of it are names of objects.
pub(crate) fn without(path: &Path) -> PathBuf {
    let is_object = |it: &&std::ffi::OsStr| it.to_str().is_none_or(|it| !is_slice(it));
    path.iter().filter(is_object).collect()
}

/// Where the group of a cell is, below the one around its tenant's: in the slices that it is in.
pub(crate) fn below(around: &Path, key: &Key) -> PathBuf {
    let mut below = PathBuf::from(key.tenant.as_str());
    for label in key.path.labels() {
        let at = around.join(&below);
        match found(&at, label.as_str(), DEEPEST) {
            Some(in_slices) => below.push(in_slices),
            None => below.push(label.as_str()),
        }
    }
    below
}

/// The group of a cell directly in another one's, in its slices or in none.
pub(crate) fn child(around: &Cgroup, name: &str) -> Result<Cgroup, kernel::Error> {
    match found(around.path(), name, DEEPEST) {
        Some(below) => around.descendant(&below),
        None => around.child(name),
    }
}

fn found(at: &Path, name: &str, depth: usize) -> Option<PathBuf> {
    if at.join(name).exists() {
        return Some(name.into());
    }
    let deeper = depth.checked_sub(1)?;
    let slices = std::fs::read_dir(at).ok()?.flatten();
    let mut slices = slices.filter(|it| it.file_name().to_str().is_some_and(is_slice));
    slices.find_map(|it| {
        let below = found(&it.path(), name, deeper)?;
        Some(Path::new(&it.file_name()).join(below))
    })
}

/// Whether a slice went meanwhile: another cell's end found it empty.
pub(crate) fn went(error: &Error) -> bool {
    let gone = [Errno::NOENT, Errno::NODEV].map(Errno::raw_os_error);
    error.errno.is_some_and(|errno| gone.contains(&errno))
}

/// Makes the slices, each in the one before and the first in the group, with their limits and what
/// those of a cell in them need. The innermost.
///
/// # Errors
/// As for the limits of a cell.
pub(crate) fn enter(
    group: Cgroup,
    slices: &[Slice],
    resources: &Resources,
) -> Result<Cgroup, Error> {
    if slices.len() > DEEPEST {
        let words = format!("is {} slices deep, and may be {DEEPEST}", slices.len());
        return Err(Error::invalid("Slice", words));
    }
    let mut group = group;
    for slice in slices {
        let failed = |e: kernel::Error| {
            Error::new(Reason::Internal, format!("{}: {e}", slice.name)).errno(e.errno())
        };
        limits::enable(&group, &slice.resources)?;
        limits::check_protection(&group, &slice.resources)?;
        group = group
            .ensure(&format!("{FIRST}{}", slice.name))
            .map_err(failed)?;
        limits::enable_usual(&group, &[]).map_err(failed)?;
        limit(&group, &slice.resources)?;
        limits::enable(&group, resources)?;
    }
    Ok(group)
}

/// Gives a slice these limits and no others.
pub(crate) fn limit(slice: &Cgroup, resources: &Resources) -> Result<(), Error> {
    let noted = slice.mark(NOTE).ok().flatten();
    let before = noted.and_then(|it| serde_json::from_slice(&it).ok());
    let before: Resources = before.unwrap_or_default();
    if before == *resources {
        return Ok(());
    }
    let wanted = limits::exactly(resources, &before)?;
    let set = limits::set(slice, &wanted).and_then(|()| {
        let note = serde_json::to_vec(resources).unwrap_or_default();
        let noted = slice.set_mark(NOTE, &note);
        noted.map_err(|e| Error::internal(e.to_string()).errno(e.errno()))
    });
    set.inspect_err(|_| {
        // What is noted holds.
        let back = limits::exactly(&before, resources);
        let _ = back.and_then(|it| limits::set(slice, &it));
    })
}

/// Removes slices that nothing is in any more: this one, and those around it. No other group is.
pub(crate) fn tidy(innermost: &Path) {
    let name = |it: &Path| Some(it.file_name()?.to_str()?.to_owned());
    let slices = innermost.ancestors();
    let slices = slices.take_while(|it| name(it).is_some_and(|name| is_slice(&name)));
    for slice in slices {
        // Busy, or not empty: something is in it.
        if rustix::fs::rmdir(slice).is_err() {
            return;
        }
    }
}

impl Shared {
    /// Where the group of a cell is below the one around its tenant's.
    pub(crate) fn group_below(&self, key: &Key) -> PathBuf {
        below(self.around(key.tenant.as_str()).path(), key)
    }
}

impl Runtime {
    /// Gives the innermost of these slices of a cell those limits, where its group is there. Blocks
    /// for a few system calls.
    ///
    /// # Errors
    /// As for the limits of a cell. `PERMISSION_DENIED`: the permit isn't for that cell's update.
    pub fn limit_slice(
        &self,
        permit: &Permit,
        tenant: &Tenant,
        cell: &ObjectPath,
        slices: &[String],
        resources: &Resources,
    ) -> Result<(), Error> {
        permit.demand(tenant, &Effect::on("runtime.UpdateCell", cell))?;
        let folder = self.folder_of_slice(tenant, cell, slices);
        let Ok(group) = Cgroup::open(&folder) else {
            return Ok(());
        };
        if let Some(Ok(around)) = folder.parent().map(Cgroup::open) {
            limits::enable(&around, resources)?;
            limits::check_protection(&around, resources)?;
        }
        limit(&group, resources)
    }

    /// The folder of the innermost of these slices of a cell, whether or not it is there.
    pub fn folder_of_slice(
        &self,
        tenant: &Tenant,
        cell: &ObjectPath,
        slices: &[String],
    ) -> PathBuf {
        let mut folder = self.folder_of(tenant, cell);
        folder.extend(slices.iter().map(|it| format!("{FIRST}{it}")));
        folder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_found_in_whichever_slice_its_group_is_and_empty_slices_go() {
        // Folders stand for groups: they have names as well.
        let base = tempfile::tempdir().unwrap();
        let cell = base.path().join("blue/all");
        let inner = cell.join("_web.slice/_web-api.slice");
        std::fs::create_dir_all(inner.join("app/main")).unwrap();
        std::fs::create_dir_all(cell.join("plain")).unwrap();
        let of = |path: &str| {
            let key = Key {
                tenant: "blue".parse().unwrap(),
                path: path.parse().unwrap(),
            };
            below(base.path(), &key).to_str().unwrap().to_owned()
        };
        let in_slices = "blue/all/_web.slice/_web-api.slice/app";
        assert_eq!(of("all/app"), in_slices);
        assert_eq!(of("all/app/main"), format!("{in_slices}/main"));
        assert_eq!(of("all/plain"), "blue/all/plain");
        assert_eq!(of("all/none/main"), "blue/all/none/main");
        // What is a cell's is no slice's: a name is not looked for in other cells.
        assert_eq!(of("all/main"), "blue/all/main");
        assert_eq!(without(Path::new(in_slices)), Path::new("blue/all/app"));

        tidy(&inner);
        assert!(inner.exists());
        std::fs::remove_dir_all(inner.join("app")).unwrap();
        tidy(&inner);
        assert!(!cell.join("_web.slice").exists() && cell.exists());
        std::fs::remove_dir(cell.join("plain")).unwrap();
        tidy(&cell);
        assert!(cell.exists());
    }
}
