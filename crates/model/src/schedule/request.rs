// SPDX-License-Identifier: Apache-2.0
//! The requests of `Schedules`, checked, with the caller's tenant filled in.

use super::spec::{MAX_NAME, Spec};
use crate::error::{Error, Result};
use crate::name::{Label, ObjectPath, Tenant};

/// Names one schedule.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Named {
    /// Whose.
    pub tenant: Tenant,
    /// A name of its own: of no object of the runtime.
    pub name: Label,
}

impl Named {
    /// The path at which permission is asked for.
    pub fn path(&self) -> ObjectPath {
        ObjectPath::from(self.name.clone())
    }

    /// The path of a run: the name, `-` and the number.
    ///
    /// # Errors
    /// Never for a name that [`check_name`] took.
    pub fn run(&self, number: u64) -> Result<ObjectPath> {
        let path = format!("{}-{number}", self.name);
        path.parse().map_err(|e| Error::invalid("name", e))
    }
}

/// Checks that there is room for a run's number after a name.
///
/// # Errors
/// `INVALID_FIELD` for `name`.
pub fn check_name(name: &Label) -> Result<()> {
    if name.as_str().len() <= MAX_NAME {
        return Ok(());
    }
    let problem = format!("is longer than {MAX_NAME} characters: each run's name has its number");
    Err(Error::invalid("name", problem))
}

/// The checked request of `Schedules.Declare`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Declare {
    /// Which.
    pub named: Named,
    /// The wish.
    pub spec: Spec,
}
