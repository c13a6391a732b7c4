// SPDX-License-Identifier: Apache-2.0
//! What a file wishes: a manifest's documents or a crontab's lines as schedules, or why it can't be
//! taken. Reads the node's accounts and its time zone. Called by `declared`, off the async threads.

use std::ffi::OsStr;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use model::name::{Label, Tenant};
use model::schedule::Spec;
use model::schedule::crontab::{self, Mailer, Place};
use model::schedule::manifest::{self, ReadConfig};
use serde::Deserialize;

use super::files::Kind;
use crate::other_cron;

/// So many faults of a file are told: who writes a crontab of a user's doesn't fill the log.
const MOST_FAULTS: usize = 8;

/// A file, and what it says or why that can't be taken.
pub(super) type Read = (PathBuf, Result<Wishes, String>);

/// What a file declares.
pub(super) struct Wishes {
    pub(super) configs: Vec<ReadConfig>,
    pub(super) schedules: Vec<(Label, Spec)>,
}

impl Wishes {
    pub(super) fn names(&self) -> Vec<String> {
        let names = self.schedules.iter().map(|(name, _)| name.to_string());
        names.collect()
    }
}

/// What the text of a file wishes.
pub(super) fn read(
    path: &Path,
    kind: &Kind,
    text: &str,
    mailer: &Mailer,
) -> Result<Wishes, String> {
    match kind {
        Kind::Manifest => read_manifest(text),
        Kind::Crontab => read_crontab(path, None, text, mailer),
        Kind::OfUser(user) => read_crontab(path, Some(user), text, mailer),
    }
}

fn faults(all: &[impl Display]) -> String {
    let mut words: Vec<_> = all
        .iter()
        .take(MOST_FAULTS)
        .map(|it| it.to_string())
        .collect();
    if let Some(more) = all.len().checked_sub(MOST_FAULTS).filter(|it| *it > 0) {
        words.push(format!("and {more} more"));
    }
    words.join("; ")
}

fn read_manifest(text: &str) -> Result<Wishes, String> {
    let documents = serde_yaml_ng::Deserializer::from_str(text);
    let documents = documents.map(serde_json::Value::deserialize);
    let documents: Result<Vec<_>, _> = documents.collect();
    // The parser names line and column.
    let documents = documents.map_err(|e| e.to_string())?;
    let all = manifest::read(documents).map_err(|problems| faults(&problems))?;
    let system = Tenant::system();
    all.only_in(&system).map_err(|problems| faults(&problems))?;
    let schedules = all.schedules.into_iter().map(|it| (it.name, it.spec));
    Ok(Wishes {
        configs: all.configs,
        schedules: schedules.collect(),
    })
}

/// `user`: whose file it is; its lines name none. Otherwise each line names one.
fn read_crontab(
    path: &Path,
    user: Option<&str>,
    text: &str,
    mailer: &Mailer,
) -> Result<Wishes, String> {
    if let Some(words) = other_cron::look() {
        return Err(words);
    }
    let lines = crontab::read(text, user.is_none(), &zone());
    let mut lines = lines.map_err(|problems| faults(&problems))?;
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let home = |user: &str| {
        let mut lines = passwd.lines().map(|line| line.split(':'));
        let mut fields = lines.find_map(|mut it| (it.next() == Some(user)).then_some(it))?;
        fields.nth(4).map(str::to_owned)
    };
    let place = Place::Node {
        home: &home,
        mailer,
    };
    let own = path.file_name().and_then(OsStr::to_str);
    let file = match user {
        Some(user) => format!("user-{user}"),
        None => own.unwrap_or("crontab").to_owned(),
    };
    let each = lines.iter_mut().map(|line| {
        if let Some(user) = user {
            user.clone_into(&mut line.user);
        }
        let name = line.name(&file);
        let both = name.and_then(|name| Ok((name, line.spec(&place)?)));
        both.map_err(|e| format!("line {}: {e}", line.number))
    });
    Ok(Wishes {
        configs: Vec::new(),
        schedules: each.collect::<Result<_, _>>()?,
    })
}

/// The node's own time zone, which cron's times are of; UTC where it isn't known.
fn zone() -> String {
    let link = std::fs::read_link("/etc/localtime").unwrap_or_default();
    let link = link.to_string_lossy();
    let name = link
        .split_once("zoneinfo/")
        .map(|(_, name)| name.to_owned());
    let named = || std::fs::read_to_string("/etc/timezone").ok();
    let name = name.or_else(named).unwrap_or_default();
    let name = name.trim();
    match model::schedule::cron::zone(name) {
        Ok(_) => name.to_owned(),
        Err(_) => String::new(),
    }
}
