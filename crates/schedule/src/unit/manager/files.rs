// SPDX-License-Identifier: Apache-2.0
//! What is enabled and masked: links in folders, and nothing else. `units::install` says which;
//! here they are made.

use std::os::unix::fs::symlink;
use std::path::Path;

use model::error::{Error, Reason};
use model::unit::{FileChange, FileVerb};
use units::install::Operation;
use units::name::UnitName;

use super::Manager;

impl Manager {
    /// Makes and removes links, and reads all files again, as systemctl(1) does.
    pub(super) async fn change_files(
        &mut self,
        verb: FileVerb,
        units: Vec<UnitName>,
        runtime: bool,
    ) -> Result<Vec<FileChange>, Error> {
        // What is there now counts, not what was read before.
        self.reread().await;
        let table = self.known.table.clone();
        let changed = tokio::task::spawn_blocking(move || {
            let operations = table.installed(runtime, |machine| match verb {
                FileVerb::Enable => machine.enable(&units),
                FileVerb::Disable => machine.disable(&units),
                FileVerb::Mask => machine.mask(&units),
                FileVerb::Unmask => Ok(machine.unmask(&units)),
            });
            let refused = |words: String| Error::new(Reason::WrongState, words);
            let operations = operations.map_err(refused)?;
            operations.into_iter().map(carry_out).collect()
        });
        let changed = changed.await;
        let changed = changed.unwrap_or_else(|e| Err(Error::internal(e.to_string())));
        // Some may have been made before one failed.
        self.reread().await;
        changed
    }
}

fn carry_out(operation: Operation) -> Result<FileChange, Error> {
    let failed = |path: &str, error: std::io::Error| {
        let errno = error.raw_os_error();
        let error = Error::new(Reason::WrongState, format!("{path}: {error}"));
        errno.map_or(error.clone(), |errno| error.errno(errno))
    };
    match operation {
        Operation::Link { path, target } => {
            link(&path, &target).map_err(|error| failed(&path, error))?;
            Ok(FileChange { path, target })
        }
        Operation::Unlink { path } => {
            std::fs::remove_file(&path).map_err(|error| failed(&path, error))?;
            Ok(FileChange {
                path,
                target: String::new(),
            })
        }
    }
}

/// Makes a link under another name and renames it: whoever looks sees the old one or the new one.
fn link(path: &str, target: &str) -> std::io::Result<()> {
    let place = Path::new(path);
    if let Some(folder) = place.parent() {
        std::fs::create_dir_all(folder)?;
    }
    if std::fs::symlink_metadata(place).is_ok_and(|it| !it.is_symlink()) {
        return Err(std::io::Error::from(std::io::ErrorKind::AlreadyExists));
    }
    let draft = format!("{path}.aurae-new");
    let _ = std::fs::remove_file(&draft);
    symlink(target, &draft)?;
    std::fs::rename(&draft, place)
}
