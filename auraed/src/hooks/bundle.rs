// SPDX-License-Identifier: Apache-2.0
//! Bundles: a folder for each container with hooks, `RUN/hooks/UID`. `config.json` is for its
//! hooks, which look there for the container's root, as in a bundle of the OCI runtime
//! specification; `kept.json` is the daemon's own. Gone when the last hook has run.

use std::collections::HashMap;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::hook::{Hook, Moment};
use model::name::Uid;
use model::status::Meta;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

const KEPT: &str = "kept.json";
const CONFIG: &str = "config.json";
const ROOT: &str = "rootfs";

/// What is kept of a container with hooks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) meta: Meta,
    pub(super) hooks: Vec<Hook>,
}

impl Kept {
    pub(super) fn of(&self, moment: Moment) -> impl Iterator<Item = &Hook> {
        self.hooks.iter().filter(move |hook| hook.moment == moment)
    }

    /// What the specification's `config.json` says that is true here.
    fn config(&self) -> Value {
        let mut hooks = Map::new();
        for hook in &self.hooks {
            let of_moment = hooks.entry(hook.moment.name()).or_insert_with(|| json!([]));
            let env: Vec<_> = hook.env.iter().map(|(k, v)| format!("{k}={v}")).collect();
            let said = json!({
                "path": hook.path,
                "args": hook.effective_argv(),
                "env": env,
                "timeout": hook.effective_timeout().as_secs().max(1),
            });
            if let Value::Array(of_moment) = of_moment {
                of_moment.push(said);
            }
        }
        json!({
            "ociVersion": runtime::hooks::OCI_VERSION,
            "root": { "path": ROOT },
            "hooks": hooks,
            "annotations": runtime::hooks::annotations(&self.meta),
        })
    }
}

/// The folder of bundles.
pub(super) struct Bundles(PathBuf);

impl Bundles {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    pub(super) fn folder(&self, uid: Uid) -> PathBuf {
        self.0.join(uid.to_string())
    }

    /// Where hooks see the container's root.
    pub(super) fn root(&self, uid: Uid) -> PathBuf {
        self.folder(uid).join(ROOT)
    }

    /// All that are there. One that was being made when a daemon died owes nothing.
    pub(super) fn found(&self) -> std::io::Result<HashMap<Uid, Arc<Kept>>> {
        let entries = match self.0.read_dir() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(HashMap::new()),
            entries => entries?,
        };
        let mut found = HashMap::new();
        for entry in entries {
            let path = entry?.path();
            let text = std::fs::read(path.join(KEPT));
            let kept = text.and_then(|text| Ok(serde_json::from_slice::<Kept>(&text)?));
            match kept {
                Ok(kept) => drop(found.insert(kept.meta.uid, Arc::new(kept))),
                Err(error) => {
                    tracing::warn!(bundle = %path.display(), %error, "half of a bundle is removed");
                    remove(&path)?;
                }
            }
        }
        Ok(found)
    }

    /// Makes one, or leaves nothing. Blocks.
    pub(super) fn put(&self, kept: &Kept) -> std::io::Result<()> {
        self.try_put(kept).inspect_err(|_| {
            // What stays counts for nothing, and the next daemon removes it.
            let _ = self.remove(kept.meta.uid);
        })
    }

    /// What makes it count comes last.
    fn try_put(&self, kept: &Kept) -> std::io::Result<()> {
        let folder = self.folder(kept.meta.uid);
        let make = |path: &Path, mode| DirBuilder::new().recursive(true).mode(mode).create(path);
        // A hook in a container's namespaces is another user than the node's root.
        make(&self.0, 0o711)?;
        make(&folder, 0o755)?;
        make(&folder.join(ROOT), 0o755)?;
        write(&folder.join(CONFIG), 0o644, &kept.config().to_string())?;
        let half = folder.join("kept.new");
        write(&half, 0o600, &serde_json::to_string(kept)?)?;
        std::fs::rename(half, folder.join(KEPT))
    }

    /// That there is none is no error. Blocks.
    pub(super) fn remove(&self, uid: Uid) -> std::io::Result<()> {
        remove(&self.folder(uid))
    }
}

fn write(path: &Path, mode: u32, text: &str) -> std::io::Result<()> {
    let mut how = OpenOptions::new();
    let file = how.write(true).create(true).truncate(true).mode(mode);
    file.open(path)?.write_all(text.as_bytes())
}

/// Never what a container's root has: it is attached in no namespace but a hook's.
fn remove(folder: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Kept {
        let meta = json!({
            "tenant": "acme", "path": "web", "uid": "0123456789abcdef0123456789abcdef",
            "kind": "cell"
        });
        Kept {
            meta: serde_json::from_value(meta).unwrap(),
            hooks: vec![
                Hook::new(Moment::Poststop, "/bin/late"),
                Hook::new(Moment::CreateRuntime, "/bin/early"),
            ],
        }
    }

    #[test]
    fn what_is_owed_is_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let bundles = Bundles::new(dir.path().join("hooks"));
        assert!(bundles.found().unwrap().is_empty());
        let kept = kept();
        bundles.put(&kept).unwrap();
        let uid = kept.meta.uid;
        let found = bundles.found().unwrap();
        let late: Vec<_> = found[&uid].of(Moment::Poststop).collect();
        assert_eq!((late.len(), &*late[0].path), (1, "/bin/late"));
        let config = std::fs::read(bundles.folder(uid).join(CONFIG)).unwrap();
        let config: Value = serde_json::from_slice(&config).unwrap();
        assert_eq!(config["root"]["path"], "rootfs");
        assert_eq!(config["hooks"]["createRuntime"][0]["path"], "/bin/early");
        // The daemon has died before that one counted.
        std::fs::remove_file(bundles.folder(uid).join(KEPT)).unwrap();
        assert!(bundles.found().unwrap().is_empty());
        assert!(!bundles.folder(uid).exists());
        bundles.remove(uid).unwrap();
    }
}
