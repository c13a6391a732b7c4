// SPDX-License-Identifier: Apache-2.0
//! Methods about unit files: what is enabled and masked.

use model::unit::{FileChange, FileVerb, PresetMode};
use units::glob::matches;

use super::{Call, unit};
use crate::error::Failure;
use crate::serve::Answer;
use crate::wire::message::Body;

/// A change as systemd tells it: what, where, whereto.
type Change = (&'static str, String, String);

fn told(change: FileChange) -> Change {
    let kind = match change.target.is_empty() {
        true => "unlink",
        false => "symlink",
    };
    (kind, change.path, change.target)
}

/// `UNIT_FILE_RUNTIME` of the methods with flags.
const RUNTIME: u64 = 1;
/// `UNIT_FILE_FORCE`: links of others are replaced. Ours never are, which `false` means, too.
const FORCE: u64 = 2;

fn flags(flags: u64) -> Result<bool, Failure> {
    match flags & !(RUNTIME | FORCE) {
        0 => Ok(flags & RUNTIME != 0),
        other => Err(Failure::unsupported(format!(
            "the flags {other:#x} are not known here"
        ))),
    }
}

fn preset_mode(word: &str) -> Result<PresetMode, Failure> {
    match word {
        "" | "full" => Ok(PresetMode::Full),
        "enable-only" => Ok(PresetMode::EnableOnly),
        "disable-only" => Ok(PresetMode::DisableOnly),
        other => {
            let words = format!("{other} is no mode of presets");
            Err(Failure::of_bus("InvalidArgs", words))
        }
    }
}

const fn action(verb: FileVerb) -> &'static str {
    match verb {
        FileVerb::Enable => "schedule.EnableUnits",
        FileVerb::Disable => "schedule.DisableUnits",
        FileVerb::Mask => "schedule.MaskUnits",
        FileVerb::Unmask => "schedule.UnmaskUnits",
        FileVerb::Preset(_) => "schedule.PresetUnits",
        FileVerb::SetDefault => "schedule.SetDefaultUnit",
    }
}

type Names = Vec<String>;

impl Call<'_> {
    /// `None`: it is another method.
    pub(super) async fn files(&self) -> Option<Answer> {
        Some(match self.message.member.as_str() {
            "ListUnitFiles" => self.list_files(&[], &[]).await,
            "ListUnitFilesByPatterns" => self.files_by_patterns().await,
            "GetUnitFileState" => self.file_state().await,
            "GetDefaultTarget" => self.default_target().await,
            _ => return self.change().await,
        })
    }

    async fn change(&self) -> Option<Answer> {
        let member = self.message.member.as_str();
        let changed = match member {
            "EnableUnitFiles" => self.with_force(FileVerb::Enable).await,
            "EnableUnitFilesWithFlags" => self.with_flags(FileVerb::Enable).await,
            "ReenableUnitFiles" => self.reenable().await,
            "DisableUnitFiles" => self.plain(FileVerb::Disable).await,
            "DisableUnitFilesWithFlags" | "DisableUnitFilesWithFlagsAndInstallInfo" => {
                self.with_flags(FileVerb::Disable).await
            }
            "MaskUnitFiles" => self.with_force(FileVerb::Mask).await,
            "UnmaskUnitFiles" => self.plain(FileVerb::Unmask).await,
            "PresetUnitFiles" => self.with_force(FileVerb::Preset(PresetMode::Full)).await,
            "PresetUnitFilesWithMode" => self.preset().await,
            "PresetAllUnitFiles" => self.preset_all().await,
            "SetDefaultTarget" => self.set_default().await,
            _ => return None,
        };
        let (names, changes) = match changed {
            Ok(changed) => changed,
            Err(failure) => return Some(Err(failure)),
        };
        // The answer says, too, whether there is anything to enable, where its type has place.
        let known = super::METHODS.iter().find(|(name, ..)| *name == member);
        let body = match known.is_some_and(|(.., answer)| answer.starts_with('b')) {
            true => Body::of(&(self.have_install(&names).await, changes)),
            false => Body::of(&(changes,)),
        };
        Some(body.map_err(Failure::from))
    }

    async fn carry_out(
        &self,
        verb: FileVerb,
        names: Names,
        runtime: bool,
    ) -> Result<(Names, Vec<Change>), Failure> {
        let about = names.join(" ");
        let permit = self
            .service
            .permit(self.caller, action(verb), &about)
            .await?;
        let units: Result<Vec<_>, _> = names.iter().map(|it| unit(it)).collect();
        let changed = self
            .service
            .units
            .change_files(&permit, verb, units?, runtime);
        let changes = changed.await?.into_iter().map(told).collect();
        Ok((names, changes))
    }

    async fn plain(&self, verb: FileVerb) -> Result<(Names, Vec<Change>), Failure> {
        let (names, runtime): (Names, bool) = self.arguments()?;
        self.carry_out(verb, names, runtime).await
    }

    async fn with_force(&self, verb: FileVerb) -> Result<(Names, Vec<Change>), Failure> {
        let (names, runtime, _force): (Names, bool, bool) = self.arguments()?;
        self.carry_out(verb, names, runtime).await
    }

    async fn with_flags(&self, verb: FileVerb) -> Result<(Names, Vec<Change>), Failure> {
        let (names, given): (Names, u64) = self.arguments()?;
        self.carry_out(verb, names, flags(given)?).await
    }

    async fn reenable(&self) -> Result<(Names, Vec<Change>), Failure> {
        let (names, runtime, _force): (Names, bool, bool) = self.arguments()?;
        let (names, mut all) = self.carry_out(FileVerb::Disable, names, runtime).await?;
        let (names, enabled) = self.carry_out(FileVerb::Enable, names, runtime).await?;
        all.extend(enabled);
        Ok((names, all))
    }

    async fn preset(&self) -> Result<(Names, Vec<Change>), Failure> {
        let (names, mode, runtime, _): (Names, String, bool, bool) = self.arguments()?;
        let verb = FileVerb::Preset(preset_mode(&mode)?);
        self.carry_out(verb, names, runtime).await
    }

    async fn preset_all(&self) -> Result<(Names, Vec<Change>), Failure> {
        let (mode, runtime, _): (String, bool, bool) = self.arguments()?;
        let verb = FileVerb::Preset(preset_mode(&mode)?);
        self.carry_out(verb, Vec::new(), runtime).await
    }

    async fn set_default(&self) -> Result<(Names, Vec<Change>), Failure> {
        let (name, _force): (String, bool) = self.arguments()?;
        self.carry_out(FileVerb::SetDefault, vec![name], false)
            .await
    }

    async fn have_install(&self, names: &[String]) -> bool {
        for name in names {
            let view = self.view(name, true).await;
            if view.is_ok_and(|it| !it.unit.install().is_empty()) {
                return true;
            }
        }
        false
    }

    async fn files_by_patterns(&self) -> Answer {
        let (states, patterns): (Names, Names) = self.arguments()?;
        self.list_files(&states, &patterns).await
    }

    async fn list_files(&self, states: &[String], patterns: &[String]) -> Answer {
        let permit = self
            .service
            .permit(self.caller, "schedule.ListUnits", "")
            .await?;
        let list = self.service.units.list(&permit, true).await?;
        let mut rows: Vec<(String, &'static str)> = Vec::new();
        for status in list {
            let wanted = states.is_empty() || states.iter().any(|it| it == status.file_state);
            let named = patterns.is_empty()
                || patterns
                    .iter()
                    .any(|pattern| matches(pattern, &status.name));
            if !wanted || !named || status.file_state.is_empty() {
                continue;
            }
            // systemctl shows the last part of the path.
            let path = match status.fragment.rsplit_once('/') {
                Some((folder, _)) => format!("{folder}/{}", status.name),
                None => format!("/run/systemd/{}", status.name),
            };
            rows.push((path, status.file_state));
        }
        Ok(Body::of(&(rows,))?)
    }

    async fn file_state(&self) -> Answer {
        let (name,): (String,) = self.arguments()?;
        let view = self.view(&name, true).await.map_err(|failure| {
            match failure.name.ends_with("NoSuchUnit") {
                true => {
                    Failure::of_bus("FileNotFound", format!("Unit file {name} does not exist."))
                }
                false => failure,
            }
        })?;
        match view.status.file_state {
            "" => {
                let words = format!("Unit file {name} does not exist.");
                Err(Failure::of_bus("FileNotFound", words))
            }
            state => Ok(Body::of(&(state,))?),
        }
    }

    async fn default_target(&self) -> Answer {
        let view = self.view("default.target", true).await?;
        Ok(Body::of(&(view.id.as_str(),))?)
    }
}
