// SPDX-License-Identifier: Apache-2.0
//! The requests of `Schedules`, checked, with the caller's tenant filled in.

use super::given::{Config, MAX_CONFIG, Texts};
use super::spec::{MAX_NAME, Spec};
use crate::error::{Error, Result};
use crate::name::{Label, ObjectPath, Tenant};
use crate::request::Scope;

/// Names one schedule.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Named {
    /// The tenant that it belongs to.
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
    /// The schedule's tenant and name.
    pub named: Named,
    /// The wish.
    pub spec: Spec,
}

/// The checked request of `Schedules.List`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct List {
    /// The tenants whose schedules are listed.
    pub scope: Scope,
    /// How many at most.
    pub page_size: usize,
    /// Where the page begins.
    pub page_token: Option<String>,
}

/// The checked request of `Schedules.Watch`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Watch {
    /// The tenants whose schedules are watched.
    pub scope: Scope,
    /// Where to go on.
    pub resume_token: Option<String>,
}

/// Names one config.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NamedConfig {
    /// The tenant that it belongs to.
    pub tenant: Tenant,
    /// The config's kind and name.
    pub config: Config,
}

impl NamedConfig {
    /// The path at which permission is asked for.
    pub fn path(&self) -> ObjectPath {
        ObjectPath::from(self.config.name.clone())
    }
}

/// The checked request of `Schedules.PutConfig`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PutConfig {
    /// The config's tenant, kind and name.
    pub named: NamedConfig,
    /// Its texts.
    pub data: Texts,
    /// It can't be changed.
    pub immutable: bool,
}

impl PutConfig {
    /// Checks the texts.
    ///
    /// # Errors
    /// `INVALID_FIELD` for `data`: a key is no name of a file, or all of it is too much.
    pub fn new(named: NamedConfig, data: Texts, immutable: bool) -> Result<Self> {
        let wrong = |key: &str| {
            let of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            let dots = key == "." || key == "..";
            key.is_empty() || key.len() > 253 || dots || !key.bytes().all(of_name)
        };
        if let Some(key) = data.keys().find(|key| wrong(key)) {
            let problem = format!("has the key {key:?}: letters, digits, `-`, `_` and `.` can be");
            return Err(Error::invalid("data", problem));
        }
        let size: usize = data.iter().map(|(key, text)| key.len() + text.len()).sum();
        if size > MAX_CONFIG {
            let most = MAX_CONFIG >> 10;
            let problem = format!("takes {size} bytes; a config may take {most} KiB");
            return Err(Error::invalid("data", problem));
        }
        Ok(Self {
            named,
            data,
            immutable,
        })
    }
}
