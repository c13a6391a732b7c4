// SPDX-License-Identifier: Apache-2.0
//! What the node runs because files say so: a folder of Kubernetes' manifests
//! (`schedule.manifests`), as a kubelet's static pods, and crontabs (`schedule.crontabs`). It is
//! declared with an administrator's rights in the tenant `system`; a file that is gone takes its
//! schedules with it, and one that can't be read changes nothing: the log names it, with the line.
//!
//! Which names files have declared is kept in the state directory, so that a file that went while
//! the daemon was down is noticed, and what users have declared is left alone. Called by `serve`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use identity::{Effect, Identity};
use model::error::Reason;
use model::name::Tenant;
use model::schedule::Spec;
use model::schedule::crontab::{self, Place};
use model::schedule::manifest::{self, ReadConfig};
use model::schedule::request::{Declare, Named, NamedConfig, PutConfig};
use rustix::fs::inotify;
use schedule::Schedules;
use serde::Deserialize;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinSet;

use crate::config::Config;
use crate::schedules::other_cron;

/// How long it must be quiet after a change: editors write a file in several steps.
const QUIET: Duration = Duration::from_millis(200);
/// Looked at all the same after so long: a folder may be made later, or a mount hide it.
const AT_LEAST: Duration = Duration::from_secs(60);
/// The largest file.
const MOST_BYTES: u64 = 1 << 20;
/// The list of what was declared by files, in the state directory: file and names.
const LIST: &str = "schedules-of-files.json";

/// Names by file.
type Names = BTreeMap<PathBuf, Vec<String>>;

/// Begins to keep what files say, where the configuration names any.
pub(crate) fn keep(
    config: &Config,
    schedules: &Schedules,
    identity: &Arc<Identity>,
    beside: &mut JoinSet<()>,
) {
    let files = Files {
        manifests: config.schedule.manifests.clone(),
        crontabs: config.schedule.crontabs.clone(),
        list: config.paths.state.join(LIST),
        schedules: schedules.clone(),
        identity: identity.clone(),
        said: BTreeMap::new(),
    };
    beside.spawn(files.keep());
}

struct Files {
    manifests: PathBuf,
    crontabs: Vec<PathBuf>,
    list: PathBuf,
    schedules: Schedules,
    identity: Arc<Identity>,
    /// What was last told of a file, so that it is told once.
    said: BTreeMap<PathBuf, String>,
}

/// What a file declares.
struct Wishes {
    configs: Vec<ReadConfig>,
    schedules: Vec<(model::name::Label, Spec)>,
}

impl Files {
    async fn keep(mut self) {
        let nothing = self.manifests.as_os_str().is_empty() && self.crontabs.is_empty();
        if nothing && !self.list.exists() {
            return;
        }
        loop {
            // Watched before it is read: a change in between is noticed.
            let watched = self.watch();
            self.look().await;
            if nothing {
                return;
            }
            match watched {
                Ok(watched) => {
                    let changed = tokio::time::timeout(AT_LEAST, changed(&watched));
                    if changed.await.is_ok() {
                        tokio::time::sleep(QUIET).await;
                    }
                }
                Err(error) => {
                    tracing::warn!(error = format!("{error:#}"), "files can't be watched");
                    tokio::time::sleep(AT_LEAST).await;
                }
            }
        }
    }

    fn watch(&self) -> anyhow::Result<AsyncFd<OwnedFd>> {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let watch = inotify::init(flags).context("inotify")?;
        let of = inotify::WatchFlags::CLOSE_WRITE
            | inotify::WatchFlags::CREATE
            | inotify::WatchFlags::DELETE
            | inotify::WatchFlags::MOVE
            | inotify::WatchFlags::DELETE_SELF;
        let folders = self.crontabs.iter().map(|path| match path.is_dir() {
            true => path.as_path(),
            // Editors put another file in its place.
            false => path.parent().unwrap_or(path),
        });
        for path in folders.chain([self.manifests.as_path()]) {
            if path.is_dir() {
                inotify::add_watch(&watch, path, of).with_context(|| path.display().to_string())?;
            }
        }
        Ok(runtime::watched::watch(watch, Interest::READABLE)?)
    }

    /// Declares what files say, and removes what they say no more.
    async fn look(&mut self) {
        let before: Names = std::fs::read(&self.list)
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        let mut now = Names::new();
        for (path, cron) in self.paths() {
            let known = before.get(&path).cloned();
            let wishes = match read(&path, cron) {
                Ok(wishes) => wishes,
                Err(words) => {
                    // What runs goes on.
                    self.tell(&path, &words);
                    now.extend(known.map(|names| (path, names)));
                    continue;
                }
            };
            let names = wishes.schedules.iter().map(|(name, _)| name.to_string());
            let mut names: Vec<_> = names.collect();
            let refused = self.declare(&path, wishes, known.as_deref().unwrap_or_default());
            let refused = refused.await;
            match refused.is_empty() {
                true => drop(self.said.remove(&path)),
                false => self.tell(&path, &refused.join("; ")),
            }
            // What could not be declared now may be there from before.
            names.extend(
                known
                    .unwrap_or_default()
                    .into_iter()
                    .filter(|_| !refused.is_empty()),
            );
            names.sort();
            names.dedup();
            now.insert(path, names);
        }
        let stays = |name: &String| now.values().any(|names| names.contains(name));
        let gone = before.values().flatten().filter(|name| !stays(name));
        let mut kept = Vec::new();
        for name in gone {
            if let Err(error) = self.remove(name).await {
                tracing::error!(schedule = name, %error, "its file is gone; it can't be removed");
                kept.push(name.clone());
            }
        }
        if !kept.is_empty() {
            now.insert(PathBuf::new(), kept);
        }
        if now != before
            && let Err(error) = self.write(&now)
        {
            tracing::error!(
                error = format!("{error:#}"),
                "the list of files can't be kept"
            );
        }
    }

    fn write(&self, names: &Names) -> anyhow::Result<()> {
        let new = self.list.with_extension("new");
        let file = std::fs::File::create(&new)?;
        serde_json::to_writer(&file, names)?;
        file.sync_all()?;
        Ok(std::fs::rename(new, &self.list)?)
    }

    fn tell(&mut self, path: &Path, words: &str) {
        if self.said.get(path).map(String::as_str) != Some(words) {
            tracing::error!(file = %path.display(), "{words}");
            self.said.insert(path.to_owned(), words.to_owned());
        }
    }

    /// Each file, and whether it is a crontab and has a column of users.
    fn paths(&self) -> Vec<(PathBuf, bool)> {
        let mut all = Vec::new();
        let of_manifest = |path: &Path| {
            let end = path.extension().and_then(OsStr::to_str);
            matches!(end, Some("yaml" | "yml" | "json"))
        };
        all.extend(inside(&self.manifests, of_manifest).map(|path| (path, false)));
        // As run-parts has it: no file of an editor or a package manager.
        let of_cron = |path: &Path| {
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or(".");
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            name.bytes().all(plain)
        };
        for given in &self.crontabs {
            match given.is_dir() {
                true => all.extend(inside(given, of_cron).map(|path| (path, true))),
                false if given.exists() => all.push((given.clone(), true)),
                false => {}
            }
        }
        all
    }

    /// Declares what a file says; answers what was refused.
    async fn declare(&self, path: &Path, wishes: Wishes, known: &[String]) -> Vec<String> {
        let mut refused = Vec::new();
        for read in wishes.configs {
            let named = NamedConfig {
                tenant: Tenant::system(),
                config: read.config,
            };
            let what = named.config.to_string();
            if let Err(error) = self.put(named, read.data, read.immutable).await {
                refused.push(format!("{what}: {error}"));
            }
        }
        for (name, spec) in wishes.schedules {
            let named = Named {
                tenant: Tenant::system(),
                name,
            };
            let ours = known.contains(&named.name.to_string());
            let what = named.name.to_string();
            if let Err(error) = self.wish(named, spec, ours).await {
                refused.push(format!("{what}: {error}"));
            } else if !ours {
                tracing::info!(file = %path.display(), schedule = what, "declared");
            }
        }
        refused
    }

    async fn put(
        &self,
        named: NamedConfig,
        data: BTreeMap<String, String>,
        immutable: bool,
    ) -> Result<(), model::error::Error> {
        let put = PutConfig::new(named, data, immutable)?;
        let effect = Effect::on("schedule.PutConfig", &put.named.path());
        let permit = self.identity.node_permit(vec![effect])?;
        self.schedules.put_config(permit, put).await.map(drop)
    }

    async fn wish(&self, named: Named, spec: Spec, ours: bool) -> Result<(), model::error::Error> {
        let of_files = |kind: &str| kind == spec.kind;
        let there = self.schedules.kind_of(&named);
        if !ours && there.as_deref().is_some_and(|kind| !of_files(kind)) {
            let message = format!("somebody else has declared a schedule {}", named.name);
            return Err(model::error::Error::new(Reason::AlreadyExists, message));
        }
        let mut effects = vec![Effect::on("schedule.Declare", &named.path())];
        effects.extend(self.schedules.effects_of_declare(&named, &spec)?);
        let permit = self.identity.node_permit(effects)?;
        let declared = self.schedules.declare(permit, Declare { named, spec });
        declared.await.map(drop)
    }

    async fn remove(&self, name: &str) -> Result<(), model::error::Error> {
        let named = Named {
            tenant: Tenant::system(),
            name: name
                .parse()
                .map_err(|e| model::error::Error::invalid("name", e))?,
        };
        let mut effects = vec![Effect::on("schedule.Remove", &named.path())];
        effects.extend(self.schedules.effects_of_remove(&named)?);
        let permit = self.identity.node_permit(effects)?;
        match self.schedules.remove(permit, &named).await {
            Err(error) if error.reason != Reason::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Resolves when something has changed.
async fn changed(watched: &AsyncFd<OwnedFd>) {
    // An error is looked at by reading the files.
    let _ = watched.readable().await;
}

/// The files of a folder, in the order of their names.
fn inside(folder: &Path, wanted: impl Fn(&Path) -> bool) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.is_file() && wanted(path));
    files.sort();
    files.into_iter()
}

fn read(path: &Path, cron: bool) -> Result<Wishes, String> {
    let size = path.metadata().map_err(|e| e.to_string())?.len();
    if size > MOST_BYTES {
        return Err(format!("has {size} bytes, at most {MOST_BYTES} may be"));
    }
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    match cron {
        true => read_crontab(path, &text),
        false => read_manifest(&text),
    }
}

fn read_manifest(text: &str) -> Result<Wishes, String> {
    let documents = serde_yaml_ng::Deserializer::from_str(text);
    let documents = documents.map(serde_json::Value::deserialize);
    let documents: Result<Vec<_>, _> = documents.collect();
    // The parser names line and column.
    let documents = documents.map_err(|e| e.to_string())?;
    let all = manifest::read(documents).map_err(|problems| {
        let words: Vec<_> = problems.iter().map(|it| it.to_string()).collect();
        words.join("; ")
    })?;
    let schedules = all.schedules.into_iter().map(|it| (it.name, it.spec));
    Ok(Wishes {
        configs: all.configs,
        schedules: schedules.collect(),
    })
}

fn read_crontab(path: &Path, text: &str) -> Result<Wishes, String> {
    if let Some(words) = other_cron() {
        return Err(words);
    }
    let lines = crontab::read(text, true, &zone()).map_err(|problems| {
        let words: Vec<_> = problems.iter().map(ToString::to_string).collect();
        words.join("; ")
    })?;
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let home = |user: &str| {
        let mut lines = passwd.lines().map(|line| line.split(':'));
        let mut fields = lines.find_map(|mut it| (it.next() == Some(user)).then_some(it))?;
        fields.nth(4).map(str::to_owned)
    };
    let file = path
        .file_name()
        .and_then(OsStr::to_str)
        .unwrap_or("crontab");
    let each = lines.iter().map(|line| {
        let name = line.name(file);
        let both = name.and_then(|name| Ok((name, line.spec(&Place::Node(&home))?)));
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
