// SPDX-License-Identifier: Apache-2.0
//! What is enabled and masked: links in folders, and nothing else. `units::install` says which;
//! here they are made.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::Path;

use model::error::{Error, Reason};
use model::unit::{FileChange, FileVerb, PresetMode};
use units::finding::Findings;
use units::install::{Machine, Operation};
use units::load::preset::{FOLDERS, Presets};
use units::name::UnitName;

use super::Manager;
use crate::unit::disk::{self, Disk, OWN};
use crate::unit::news::News;

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
                FileVerb::Preset(mode) => preset(machine, mode, &units),
                FileVerb::SetDefault => units.iter().try_fold(Vec::new(), |mut all, unit| {
                    all.extend(machine.set_default(unit)?);
                    Ok(all)
                }),
            });
            let refused = |words: String| Error::new(Reason::WrongState, words);
            let operations = operations.map_err(refused)?;
            let made = operations.into_iter().map(carry_out);
            let made = made.collect::<Result<Vec<FileChange>, Error>>()?;
            kept(&made)?;
            Ok(made)
        });
        let changed = changed.await;
        let changed = changed.unwrap_or_else(|e| Err(Error::internal(e.to_string())));
        // Some may have been made before one failed.
        self.reread().await;
        self.feed.tell(News::FilesChanged);
        changed
    }
}

fn preset(
    machine: &Machine<'_>,
    mode: PresetMode,
    units: &[UnitName],
) -> Result<Vec<Operation>, String> {
    let mut findings = Findings::default();
    let presets = Presets::read(&Disk, &FOLDERS, &mut findings);
    for finding in findings.iter() {
        tracing::warn!(%finding, "a preset");
    }
    let which = match mode {
        PresetMode::Full => (true, true),
        PresetMode::EnableOnly => (true, false),
        PresetMode::DisableOnly => (false, true),
    };
    match units {
        [] => Ok(machine.preset_all(&presets, which)),
        units => machine.preset_partly(units, &presets, which),
    }
}

/// What is acknowledged outlives a power cut.
fn kept(changes: &[FileChange]) -> Result<(), Error> {
    let folders = changes.iter().filter_map(|it| Path::new(&it.path).parent());
    let folders: BTreeSet<&Path> = folders.collect();
    folders.into_iter().try_for_each(|folder| {
        disk::settle(folder).map_err(|error| {
            let problem = format!("{} can't be forced to disk: {error}", folder.display());
            Error::new(Reason::WrongState, problem)
        })
    })
}

fn carry_out(operation: Operation) -> Result<FileChange, Error> {
    let failed = |path: &str, error: std::io::Error| {
        let errno = error.raw_os_error();
        let error = Error::new(Reason::WrongState, format!("{path}: {error}"));
        errno.map_or(error.clone(), |errno| error.errno(errno))
    };
    match operation {
        Operation::Link { path, target } => {
            if target.starts_with(OWN) {
                let words = format!("{path}: {target} is the daemon's own and has no file");
                return Err(Error::new(Reason::WrongState, words));
            }
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

/// Makes a link under another name and renames it: a reader sees the old one or the new one.
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
