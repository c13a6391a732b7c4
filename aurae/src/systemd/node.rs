// SPDX-License-Identifier: Apache-2.0
//! The node of this machine, and its units: the connection that all commands here share. It is made
//! with the administrator's own credentials, which root alone can read; a context of a user's
//! configuration counts only where `AURAE_CONFIG` or `AURAE_NODE` names it.

use std::time::Duration;

use api::schedule::v0::units_client::UnitsClient;
use api::schedule::v0::{GetUnitRequest, ListUnitsRequest, UnitDetail, UnitStatus};
use client::{Config, Target};
use tonic::transport::Channel;
use units::glob;

use crate::failure::Failure;
use crate::session::{Session, is_not_found};

/// The largest answer: a list of all units.
const MAX_ANSWER: usize = 64 << 20;
/// How long a job may take: a service may take as long as it wants to start.
pub(super) const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Units are this tenant's.
const TENANT: &str = "system";

/// The connection.
pub(super) struct Node {
    pub(super) session: Session,
}

/// The node that is meant.
fn target() -> Result<Target, Failure> {
    let node = std::env::var("AURAE_NODE").ok();
    match node.is_some() || std::env::var_os("AURAE_CONFIG").is_some() {
        true => Ok(Config::load(&Config::default_path())?.target(node.as_deref())?),
        false => Ok(Target::local()),
    }
}

impl Node {
    pub(super) async fn connect() -> Result<Node, Failure> {
        let session = Session::of_target(target()?, TENANT).await?;
        Ok(Node { session })
    }

    pub(super) fn units(&self) -> UnitsClient<Channel> {
        UnitsClient::new(self.session.node.channel()).max_decoding_message_size(MAX_ANSWER)
    }

    /// Units that are loaded; with `files` all that a folder has.
    pub(super) async fn list(&self, files: bool) -> Result<Vec<UnitStatus>, Failure> {
        let request = self.session.node.unary(ListUnitsRequest { files });
        let list = self.units().list_units(request).await?;
        Ok(list.into_inner().units)
    }

    /// A unit; `None`: there is no such one.
    pub(super) async fn get(&self, name: &str) -> Result<Option<UnitDetail>, Failure> {
        let name = name.to_owned();
        let request = self.session.node.unary(GetUnitRequest { name });
        match self.units().get_unit(request).await {
            Ok(found) => Ok(Some(found.into_inner())),
            Err(status) => {
                let problem = client::Error::from(status);
                match is_not_found(&problem) {
                    true => Ok(None),
                    false => Err(problem.into()),
                }
            }
        }
    }

    /// The whole names that words mean: a pattern is held against these units.
    pub(super) async fn named(
        &self,
        words: &[String],
        among: Among,
    ) -> Result<Vec<String>, Failure> {
        let mut names = Vec::new();
        let mut loaded = None;
        for word in words {
            if !glob::is_pattern(word) {
                names.push(whole(word)?);
                continue;
            }
            let units = match &mut loaded {
                Some(units) => units,
                none => none.insert(self.list(among == Among::Files).await?),
            };
            let pattern = whole(word).unwrap_or_else(|_| with_suffix(word));
            let matching = units.iter().filter(|it| among.has(it));
            let matching = matching.filter(|it| glob::matches(&pattern, &it.name));
            names.extend(matching.map(|it| it.name.clone()));
        }
        let mut seen = std::collections::BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        Ok(names)
    }
}

/// Which units patterns mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Among {
    /// Those that are loaded, and are not down or have a job (systemctl(1), "Parameter Syntax").
    Up,
    /// All that are loaded.
    Loaded,
    /// All that have a file.
    Files,
}

impl Among {
    fn has(self, unit: &UnitStatus) -> bool {
        self != Self::Up || unit.active != "inactive" || unit.job_id != 0
    }
}

/// `ssh` is `ssh.service`; a path is its mount or device.
pub(super) fn whole(word: &str) -> Result<String, Failure> {
    if glob::is_pattern(word) {
        return Ok(with_suffix(word));
    }
    let name = units::install::mangle(word);
    let wrong = |problem| Failure::new(format!("Invalid unit name \"{word}\": {problem}"));
    name.map(|it| it.to_string()).map_err(wrong)
}

fn with_suffix(word: &str) -> String {
    let is_whole = word
        .rsplit_once('.')
        .is_some_and(|(_, suffix)| units::name::UnitType::from_suffix(suffix).is_some());
    match is_whole || word.ends_with('*') {
        true => word.to_owned(),
        false => format!("{word}.service"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_units_as_systemctl_has_them() {
        let whole = |word: &str| whole(word).unwrap();
        assert_eq!(whole("ssh"), "ssh.service");
        assert_eq!(whole("ssh.socket"), "ssh.socket");
        assert_eq!(whole("/home"), "home.mount");
        assert_eq!(whole("user@*"), "user@*");
        assert_eq!(whole("ss?"), "ss?.service");
        assert_eq!(whole("*.timer"), "*.timer");
    }
}
