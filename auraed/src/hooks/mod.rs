// SPDX-License-Identifier: Apache-2.0
//! Hooks of containers that run on the node: the runtime's port for them ([`Hooks`], ADR 89). A
//! hook is a program of the administrator's, run as plugins of CNI are (crate `programs`), and
//! started by [`program`], which takes it to where it is to run.
//!
//! What hooks a container has is kept in its bundle ([`bundle`]), a folder of the daemon's own:
//! what is there is owed. So the last hooks run once at least, whatever dies in between: the next
//! daemon runs those of a bundle whose cell is no more.

mod bundle;
pub(crate) mod program;

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use model::error::{Error, Reason};
use model::hook::{Hook, Moment};
use model::name::Uid;
use programs::{Apart, Program, Said};
use runtime::hooks::state;
use runtime::ports::{Hooks, NewContainer, Spaces};
use tokio::sync::OnceCell;

use bundle::{Bundles, Kept};

/// The group of what hooks run in, in the node's own beside the daemon's.
const GROUP: &str = "_hooks";
/// For how long a cell's end waits for its hooks. They go on beside it.
const HELD: Duration = Duration::from_secs(10);
/// The most of a hook's words that an error repeats, in bytes.
const MOST_SAID: usize = 512;

/// See the module. Clones share it.
#[derive(Clone)]
pub(crate) struct NodeHooks(Arc<Inner>);

struct Inner {
    bundles: Bundles,
    kept: Mutex<HashMap<Uid, Arc<Kept>>>,
    /// How they are kept apart, once the first one is to run.
    apart: OnceCell<Apart>,
}

impl NodeHooks {
    /// Finds what an earlier daemon has kept. What cells that are no more are owed is done beside.
    ///
    /// # Errors
    /// The daemon's own folder can't be read.
    pub(crate) fn open(run: &std::path::Path) -> anyhow::Result<Self> {
        let bundles = Bundles::new(run.join("hooks"));
        let found = bundles.found()?;
        let living = |uid: &Uid| run.join("cells").join(format!("{uid}.sock")).exists();
        let gone: Vec<_> = found.keys().filter(|uid| !living(uid)).copied().collect();
        let hooks = Self(Arc::new(Inner {
            bundles,
            kept: Mutex::new(found),
            apart: OnceCell::new(),
        }));
        for uid in gone {
            tracing::info!(%uid, "the last hooks of a cell that is no more are run");
            tokio::spawn(hooks.clone().end(uid));
        }
        Ok(hooks)
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<Uid, Arc<Kept>>> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, uid: Uid) -> Option<Arc<Kept>> {
        self.kept().get(&uid).cloned()
    }

    async fn make(self, container: NewContainer) -> Result<(), Error> {
        let NewContainer {
            meta,
            hooks,
            pid,
            spaces,
        } = container;
        let uid = meta.uid;
        let kept = Arc::new(Kept { meta, hooks });
        let put = tokio::task::spawn_blocking({
            let (hooks, kept) = (self.clone(), kept.clone());
            move || hooks.0.bundles.put(&kept)
        });
        let put = put.await.unwrap_or_else(|e| Err(std::io::Error::other(e)));
        put.map_err(|e| Error::internal(format!("the bundle of the hooks: {e}")))?;
        self.kept().insert(uid, kept.clone());
        let now = |place| Now {
            status: "creating",
            pid: Some(pid),
            place,
        };
        let (beside, inside) = (Place::Beside(&spaces), Place::Inside(&spaces));
        self.all(&kept, Moment::CreateRuntime, now(beside)).await?;
        self.all(&kept, Moment::CreateContainer, now(inside)).await
    }

    /// Runs those of a moment; the first that fails ends it.
    async fn all(&self, kept: &Kept, moment: Moment, now: Now<'_>) -> Result<(), Error> {
        for hook in kept.of(moment) {
            self.one(kept, hook, now).await?;
        }
        Ok(())
    }

    async fn one(&self, kept: &Kept, hook: &Hook, now: Now<'_>) -> Result<(), Error> {
        let failed = |why: String| failed(hook, &why);
        let uid = kept.meta.uid;
        let bundle = self.0.bundles.folder(uid);
        let state = state(&kept.meta, now.status, now.pid, &bundle.to_string_lossy());
        let apart = self.apart().await.map_err(|e| failed(e.to_string()))?;
        let apart = now.place.reached(apart, &self.0.bundles.root(uid));
        let program = Program {
            path: PathBuf::from(&hook.path),
            words: hook.effective_argv().iter().map(Into::into).collect(),
            environment: hook.env.iter().map(|(k, v)| (k.into(), v.into())).collect(),
            input: state.to_string().into_bytes(),
            timeout: hook.effective_timeout(),
        };
        let said = program.run(Some(&apart)).await;
        let said = said.map_err(|error| failed(error.to_string()))?;
        match said.status.success() {
            true => Ok(()),
            false => Err(failed(words_of(&said))),
        }
    }

    /// The last hooks; nothing of the cell's is kept then.
    async fn end(self, uid: Uid) {
        let Some(kept) = self.find(uid) else { return };
        let now = Now {
            status: "stopped",
            pid: None,
            place: Place::Node,
        };
        // All of them: none depends on another one that fails.
        for hook in kept.of(Moment::Poststop) {
            note(&kept, self.one(&kept, hook, now).await);
        }
        self.kept().remove(&uid);
        let hooks = self.clone();
        let removed = tokio::task::spawn_blocking(move || hooks.0.bundles.remove(uid)).await;
        if let Err(error) = removed.unwrap_or_else(|e| Err(std::io::Error::other(e))) {
            tracing::warn!(%uid, %error, "the bundle of a cell's hooks stays behind");
        }
    }

    /// At the first time what an earlier daemon's have left is killed and waited for.
    async fn apart(&self) -> std::io::Result<&Apart> {
        let apart = self.0.apart.get_or_try_init(|| async {
            let made = tokio::task::spawn_blocking(|| crate::reserve::programs(GROUP));
            let group = made.await.map_err(std::io::Error::other)?;
            let parent = std::process::id().to_string();
            let starter = ["/proc/self/exe", "hook", "--parent", &parent];
            Ok(Apart {
                group: group.map_err(std::io::Error::other)?.map(Arc::new),
                starter: starter.map(Into::into).to_vec(),
            })
        });
        apart.await
    }
}

/// What a hook is told of its container, and where it runs.
#[derive(Clone, Copy)]
struct Now<'a> {
    status: &'static str,
    pid: Option<i32>,
    place: Place<'a>,
}

/// Where a hook runs.
#[derive(Clone, Copy)]
enum Place<'a> {
    /// On the node.
    Node,
    /// There, and its bundle has the container's root.
    Beside(&'a Spaces),
    /// The same in the container's namespaces.
    Inside(&'a Spaces),
}

impl Place<'_> {
    /// The way there, in words for [`program`].
    fn reached(self, apart: &Apart, root: &std::path::Path) -> Apart {
        let mut apart = apart.clone();
        let (spaces, is_inside) = match self {
            Place::Node => return apart,
            Place::Beside(spaces) => (spaces, false),
            Place::Inside(spaces) => (spaces, true),
        };
        let ours = |fd: &OwnedFd| format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd());
        let mut say = |flag: &str, value: String| apart.starter.extend([flag.into(), value.into()]);
        say("--mounts", ours(&spaces.mounts));
        say("--root", root.to_string_lossy().into_owned());
        if is_inside {
            say("--network", ours(&spaces.network));
            say("--ipc", ours(&spaces.ipc));
            say("--uts", ours(&spaces.uts));
            say("--cgroup", ours(&spaces.cgroup));
            say("--users", ours(&spaces.users));
        }
        apart
    }
}

fn failed(hook: &Hook, why: &str) -> Error {
    let message = format!("the hook {} {}: {why}", hook.moment.name(), hook.path);
    Error::new(Reason::WrongState, message)
        .field("cell.spec.container.hooks")
        .hint("mend the program, or leave out the hook or the device that brings it")
}

/// How it ended, and the end of what it wrote for people.
fn words_of(said: &Said) -> String {
    let from = said.err.len().saturating_sub(MOST_SAID);
    let text = String::from_utf8_lossy(said.err.get(from..).unwrap_or_default()).into_owned();
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.trim().chars().map(plain).collect();
    match text.is_empty() {
        true => said.status.to_string(),
        false => format!("{}: {text}", said.status),
    }
}

/// A hook whose failure changes nothing.
fn note(kept: &Kept, ran: Result<(), Error>) {
    if let Err(error) = ran {
        let (tenant, path) = (&kept.meta.tenant, &kept.meta.path);
        tracing::warn!(%tenant, %path, error = error.message, "a hook has failed");
    }
}

impl Hooks for NodeHooks {
    fn made(&self, container: NewContainer) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(self.clone().make(container))
    }

    fn of(&self, uid: Uid, moment: Moment) -> Vec<Hook> {
        let kept = self.find(uid);
        kept.map_or(Vec::new(), |kept| kept.of(moment).cloned().collect())
    }

    fn started(&self, uid: Uid, pid: Option<u32>) {
        let Some(kept) = self.find(uid) else { return };
        if kept.of(Moment::Poststart).next().is_none() {
            return;
        }
        let pid = pid.and_then(|pid| i32::try_from(pid).ok());
        let hooks = self.clone();
        tokio::spawn(async move {
            let now = Now {
                status: "running",
                pid,
                place: Place::Node,
            };
            note(&kept, hooks.all(&kept, Moment::Poststart, now).await);
        });
    }

    fn gone(&self, uid: Uid) -> BoxFuture<'static, ()> {
        if self.find(uid).is_none() {
            return Box::pin(std::future::ready(()));
        }
        let ending = tokio::spawn(self.clone().end(uid));
        Box::pin(async move {
            let _ = tokio::time::timeout(HELD, ending).await;
        })
    }
}
