// SPDX-License-Identifier: Apache-2.0
//! What the node runs because files say so: a folder of Kubernetes' manifests
//! (`schedule.manifests`), as a kubelet's static pods, and crontabs (`schedule.crontabs`,
//! `schedule.user_crontabs`). It is declared with an administrator's rights in the tenant `system`;
//! a file that is gone takes its schedules with it, and one that can't be read changes nothing: the
//! log names it, with the line.
//!
//! What files have declared is kept in the state directory, by name and with a hash of the wish: a
//! file that went while the daemon was down is noticed, what users have declared is left alone, and
//! a wish that is as it was isn't declared again, so that a job that has ended does not run anew.
//! Called by `serve`.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use identity::{Effect, Identity};
use model::error::Reason;
use model::name::Tenant;
use model::schedule::Spec;
use model::schedule::crontab::Mailer;
use model::schedule::request::{Declare, Named, NamedConfig, PutConfig};
use rustix::fs::inotify;
use schedule::Schedules;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinSet;

mod accounts;
mod files;
mod list;
mod read;

use files::{Accounts, Sources};
use list::{CONFIG, Names, hash, is_known, listed, owners};
use read::{Read, Wishes};

use crate::config::Config;

/// How long it must be quiet after a change: editors write a file in several steps.
const QUIET: Duration = Duration::from_millis(200);
/// Looked at all the same after so long: a folder may be made later, or a mount hide it.
const AT_LEAST: Duration = Duration::from_secs(60);
/// The list of what was declared by files, in the state directory.
const LIST: &str = "schedules-of-files.json";

/// Begins to keep what files say, where the configuration names any.
pub(crate) fn keep(
    config: &Config,
    schedules: &Schedules,
    identity: &Arc<Identity>,
    beside: &mut JoinSet<()>,
) {
    let files = Files {
        sources: Sources {
            manifests: config.schedule.manifests.clone(),
            crontabs: config.schedule.crontabs.clone(),
            users: config.schedule.user_crontabs.clone(),
        },
        mailer: mailer(&config.schedule.sendmail),
        list: config.paths.state.join(LIST),
        schedules: schedules.clone(),
        identity: identity.clone(),
        said: BTreeMap::new(),
    };
    beside.spawn(files.keep());
}

/// This program by its path, where jobs find it, too. After an upgrade another one is there.
fn mailer(sendmail: &Path) -> Mailer {
    let own = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/usr/sbin/auraed"));
    let own = own.to_string_lossy();
    Mailer {
        program: own.strip_suffix(" (deleted)").unwrap_or(&own).to_owned(),
        sendmail: sendmail.to_string_lossy().into_owned(),
    }
}

struct Files {
    sources: Sources,
    mailer: Mailer,
    list: PathBuf,
    schedules: Schedules,
    identity: Arc<Identity>,
    /// What was last told of a file, so that it is told once.
    said: BTreeMap<PathBuf, String>,
}

impl Files {
    async fn keep(mut self) {
        let nothing = self.sources.are_none();
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
        let folders = self
            .sources
            .crontabs
            .iter()
            .map(|path| match path.is_dir() {
                true => path.as_path(),
                // Editors put another file in its place.
                false => path.parent().unwrap_or(path),
            });
        let others = [&self.sources.manifests, &self.sources.users].map(PathBuf::as_path);
        for path in folders.chain(others) {
            if path.is_dir() {
                inotify::add_watch(&watch, path, of).with_context(|| path.display().to_string())?;
            }
        }
        Ok(runtime::watched::watch(watch, Interest::READABLE)?)
    }

    /// Declares what files say, and removes what they say no more.
    async fn look(&mut self) {
        let before = match self.list() {
            Ok(before) => before,
            Err(words) => return self.tell(&self.list.clone(), &words),
        };
        let Ok((reads, unknown)) = self.read(&before).await else {
            return;
        };
        let mut now = Names::new();
        for (source, words) in unknown {
            // What runs goes on.
            self.tell(&source, &words);
            let of_it = |path: &Path| path == source || path.parent() == Some(&source);
            let stays = before.iter().filter(|(path, _)| of_it(path));
            now.extend(stays.map(|(path, names)| (path.clone(), names.clone())));
        }
        let wished = reads.iter().map(|(path, wishes)| {
            let names = match wishes {
                Ok(wishes) => wishes.names(),
                Err(_) => before
                    .get(path)
                    .into_iter()
                    .flat_map(BTreeMap::keys)
                    .cloned()
                    .collect(),
            };
            (path.as_path(), names)
        });
        let owners = owners(&before, &now, wished);
        if let Err(error) = self.claim(&before, &owners) {
            return tracing::error!(
                error = format!("{error:#}"),
                "nothing is declared: the list of files can't be kept"
            );
        }
        for (path, wishes) in reads {
            let wishes = match wishes {
                Ok(wishes) => wishes,
                Err(words) => {
                    self.tell(&path, &words);
                    let known = before.get(&path).cloned();
                    now.extend(known.map(|names| (path, names)));
                    continue;
                }
            };
            let (names, refused) = self.declare(&path, wishes, &before, &owners).await;
            match refused.is_empty() {
                true => drop(self.said.remove(&path)),
                false => self.tell(&path, &refused.join("; ")),
            }
            now.insert(path, names);
        }
        self.remove_gone(&before, &mut now).await;
        if let Err(error) = self.write(&now) {
            tracing::error!(
                error = format!("{error:#}"),
                "the list of files can't be kept"
            );
        }
    }

    /// What files say by now, and what isn't known.
    async fn read(&self, before: &Names) -> anyhow::Result<(Vec<Read>, Vec<(PathBuf, String)>)> {
        let (sources, mailer) = (self.sources.clone(), self.mailer.clone());
        let folders = before.keys().filter_map(|path| path.parent());
        let folders: BTreeSet<_> = folders.map(Path::to_owned).collect();
        let reading = move || {
            let accounts = Accounts::of_node();
            let seen = files::see(&sources, &accounts, |path| folders.contains(path));
            let reads = seen.found.into_iter().map(|found| {
                let text = found.text;
                let wishes =
                    text.and_then(|text| read::read(&found.path, &found.kind, &text, &mailer));
                (found.path, wishes)
            });
            (reads.collect(), seen.unknown)
        };
        Ok(tokio::task::spawn_blocking(reading).await?)
    }

    /// Removes what no file says any more.
    async fn remove_gone(&self, before: &Names, now: &mut Names) {
        let stays: BTreeSet<_> = now.values().flat_map(BTreeMap::keys).cloned().collect();
        let gone = before.values().flat_map(BTreeMap::keys);
        let gone = gone.filter(|name| !name.starts_with(CONFIG) && !stays.contains(*name));
        for name in gone {
            if let Err(error) = self.remove(name).await {
                tracing::error!(schedule = name, %error, "its file is gone; it can't be removed");
                let kept = now.entry(PathBuf::new()).or_default();
                kept.insert(name.clone(), String::new());
            }
        }
    }

    /// What an earlier look has declared.
    fn list(&self) -> Result<Names, String> {
        let text = match std::fs::read(&self.list) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Names::new()),
            Err(error) => return Err(format!("nothing of files is changed: {error}")),
        };
        listed(&text).map_err(|error| {
            format!(
                "nothing of files is changed: it can't be read ({error}). Put it right, or remove \
                 it, and then the schedules that files have declared"
            )
        })
    }

    /// Writes down what is about to be declared: it is known as a file's whenever the daemon dies.
    fn claim(&self, before: &Names, owners: &BTreeMap<String, PathBuf>) -> anyhow::Result<()> {
        let mut all = before.clone();
        for (name, path) in owners {
            if is_known(before, name) || self.is_of_others(name) {
                continue;
            }
            let names = all.entry(path.clone()).or_default();
            names.entry(name.clone()).or_default();
        }
        self.write(&all)
    }

    /// A user has declared that one.
    fn is_of_others(&self, name: &str) -> bool {
        let named = name.parse().ok().map(|name| Named {
            tenant: Tenant::system(),
            name,
        });
        named.is_some_and(|named| self.schedules.kind_of(&named).is_some())
    }

    fn write(&self, names: &Names) -> anyhow::Result<()> {
        if self.list().is_ok_and(|known| known == *names) {
            return Ok(());
        }
        let new = self.list.with_extension("new");
        let file = std::fs::File::create(&new)?;
        serde_json::to_writer(&file, names)?;
        file.sync_all()?;
        std::fs::rename(new, &self.list)?;
        let folder = self.list.parent().context("the state has no folder")?;
        Ok(std::fs::File::open(folder)?.sync_all()?)
    }

    fn tell(&mut self, path: &Path, words: &str) {
        if self.said.get(path).map(String::as_str) != Some(words) {
            tracing::error!(file = %path.display(), "{words}");
            self.said.insert(path.to_owned(), words.to_owned());
        }
    }

    /// Declares what a file says, as far as that is new. Answers what of it is a file's from now
    /// on, and what was refused.
    async fn declare(
        &self,
        path: &Path,
        wishes: Wishes,
        before: &Names,
        owners: &BTreeMap<String, PathBuf>,
    ) -> (BTreeMap<String, String>, Vec<String>) {
        let (mut names, mut refused) = (BTreeMap::new(), Vec::new());
        let known = |name: &str| before.values().find_map(|names| names.get(name)).cloned();
        for read in wishes.configs {
            let named = NamedConfig {
                tenant: Tenant::system(),
                config: read.config,
            };
            let key = format!("{CONFIG}{}", named.config);
            let fresh = hash(&(&read.data, read.immutable));
            let known = before.get(path).and_then(|names| names.get(&key));
            let same = known.is_some() && known == fresh.as_ref();
            let what = named.config.to_string();
            if !same && let Err(error) = self.put(named, read.data, read.immutable).await {
                refused.push(format!("{what}: {error}"));
            } else {
                names.insert(key, fresh.unwrap_or_default());
            }
        }
        for (name, spec) in wishes.schedules {
            let what = name.to_string();
            if let Some(other) = owners.get(&what).filter(|other| *other != path) {
                let other = other.display();
                refused.push(format!(
                    "{what}: {other} has declared a schedule of that name"
                ));
                continue;
            }
            let named = Named {
                tenant: Tenant::system(),
                name,
            };
            let (known, fresh) = (known(&what), hash(&spec));
            let there = self.schedules.kind_of(&named).is_some();
            // A job that has gone after its end has done its work.
            let done = spec.job.is_some_and(|job| job.remove_after.is_some());
            if known.is_some() && known == fresh && (there || done) {
                names.extend(fresh.map(|fresh| (what, fresh)));
                continue;
            }
            match self.wish(named, spec, known.is_some() || !there).await {
                Ok(()) => {
                    tracing::info!(file = %path.display(), schedule = what, "declared");
                    names.insert(what, fresh.unwrap_or_default());
                }
                Err(error) => {
                    refused.push(format!("{what}: {error}"));
                    // What could not be declared now may be there from before.
                    names.extend(known.map(|known| (what, known)));
                }
            }
        }
        (names, refused)
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
        if !ours {
            let message = format!(
                "a schedule {} is there that no file has declared",
                named.name
            );
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
        if self.schedules.kind_of(&named).is_none() {
            return Ok(());
        }
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
