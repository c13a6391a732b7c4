// SPDX-License-Identifier: Apache-2.0
//! Automount units (systemd.automount(5)) on the kernel's autofs: what is done to the mount point.
//! When, and for whom, is [`super::manager`]'s. Everything here blocks.
//!
//! Who uses the point waits until it is answered. mount(8), which runs in a session of its own,
//! would wait with him: so it mounts beside, and the daemon, whose group passes, moves that to the
//! point. It unmounts by itself what has expired, for the same reason.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kernel::autofs::{self, Control};
use kernel::mount;
use units::name::{UnitName, unescape_path};
use units::unit::Unit;
use units::value::Value;

use super::name;

/// What a unit says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rules {
    pub(crate) place: PathBuf,
    mode: u32,
    /// After which time of no use it is unmounted; `None`: never.
    pub(crate) idle: Option<Duration>,
}

/// A point that is there.
pub(crate) struct Point {
    pub(crate) pipe: OwnedFd,
    pub(crate) control: Arc<Control>,
}

impl Rules {
    pub(crate) fn of(unit: &Unit) -> Rules {
        let settings = &unit.settings;
        let own = settings.text("Where").map(str::to_owned);
        let place = own.or_else(|| unescape_path(unit.id.stem()));
        let micros = settings.span("TimeoutIdleSec").and_then(|it| it.micros());
        Rules {
            place: place.unwrap_or_default().into(),
            mode: match settings.get("DirectoryMode") {
                Some(Value::Mode(mode)) => *mode,
                _ => 0o755,
            },
            // systemd.automount(5): 0 is never, as it is by default.
            idle: micros.filter(|it| *it > 0).map(Duration::from_micros),
        }
    }

    /// How often it is looked for what has expired.
    pub(crate) fn period(&self) -> Option<Duration> {
        self.idle.map(|it| (it / 3).max(Duration::from_secs(1)))
    }
}

/// Makes the point.
///
/// # Errors
/// What is in the way, in words.
pub(crate) fn make(rules: &Rules) -> Result<Point, String> {
    let place = &rules.place;
    let told = |error: io::Error| format!("{}: {error}", place.display());
    if is_mounted(place) {
        return Err(format!("{} is a mount point already", place.display()));
    }
    let mut folder = DirBuilder::new();
    folder
        .recursive(true)
        .mode(rules.mode)
        .create(place)
        .map_err(told)?;
    let (pipe, writes) = io::pipe().map_err(told)?;
    autofs::mount_at(place, &writes).map_err(|it| told(it.into()))?;
    let point = open(rules, pipe.into());
    if point.is_err() {
        let _ = mount::unmount(place, true);
    }
    point
}

/// Speaks with a point that is there; `pipe` is where the kernel tells of it.
///
/// # Errors
/// It is gone, in words.
pub(crate) fn open(rules: &Rules, pipe: OwnedFd) -> Result<Point, String> {
    let place = &rules.place;
    let told = |error: kernel::Error| format!("{}: {error}", place.display());
    let number = number_of(place);
    let number = number.ok_or_else(|| format!("{} is no automount", place.display()))?;
    let control = Control::open(place, number).map_err(told)?;
    control
        .set_timeout(rules.idle.unwrap_or_default())
        .map_err(told)?;
    rustix::io::ioctl_fionbio(&pipe, true).map_err(|it| it.to_string())?;
    Ok(Point {
        pipe,
        control: Arc::new(control),
    })
}

/// Takes the point away, with what is mounted there.
pub(crate) fn take_away(place: &Path) {
    while number_of(place).is_some() {
        if let Err(error) = mount::unmount(place, true) {
            return tracing::warn!(place = %place.display(), %error, "an automount stays");
        }
    }
}

/// The number of the file system of the point that is at a place, as stat(2) gives it.
fn number_of(place: &Path) -> Option<u32> {
    let mounts = mount::info::read().ok()?;
    let mut found = mounts.iter().rev().filter(|it| it.target == place);
    let (major, minor) = found.find(|it| it.fs_type == "autofs")?.device;
    u32::try_from(rustix::fs::makedev(major, minor)).ok()
}

/// Whether something is mounted at a place, an automount aside.
pub(crate) fn is_mounted(place: &Path) -> bool {
    let mounts = mount::info::read().unwrap_or_default();
    let mut here = mounts.iter().filter(|it| it.target == place);
    here.any(|it| it.fs_type != "autofs")
}

/// Where mount(8) mounts what goes to the point. `run`: the units' folder.
///
/// # Errors
/// The unit's name can't be one of a folder; or the folder can't be made.
pub(crate) fn stage(run: &Path, unit: &UnitName) -> Result<PathBuf, String> {
    let label = name::label(unit).map_err(|it| it.to_string())?;
    let stage = run.join(format!("{label}.mount"));
    let made = fs::create_dir_all(&stage);
    made.map_err(|error| format!("{}: {error}", stage.display()))?;
    Ok(stage)
}

/// Moves what was mounted beside to the point.
///
/// # Errors
/// Nothing was, or it can't be moved; in words.
pub(crate) fn move_to(stage: &Path, place: &Path) -> Result<(), String> {
    let told = |error: kernel::Error| error.to_string();
    if !is_mounted(stage) {
        return Err(format!("nothing was mounted at {}", stage.display()));
    }
    // A mount below what is shared can't be moved; a copy of it can be anywhere.
    let copy = mount::copy_tree(stage, true).map_err(told)?;
    let moved = mount::attach(copy, place).map_err(told);
    mount::unmount(stage, true).map_err(told)?;
    let _ = fs::remove_dir(stage);
    moved
}

/// Unmounts what the kernel says was not used.
///
/// # Errors
/// It is used again.
pub(crate) fn unmount(place: &Path) -> Result<(), kernel::Error> {
    mount::unmount(place, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::calendar::zones::UtcOnly;
    use units::specifier::NoHost;
    use units::unit::from_texts;

    #[test]
    fn a_point_is_where_its_unit_says() {
        // systemd.automount(5).
        let of = |text: &str| {
            let name = UnitName::parse("srv-a.automount").unwrap();
            let text = format!("[Automount]\n{text}\n");
            let files = [("/x", text.as_bytes())];
            Rules::of(&from_texts(&name, &files, &NoHost, &UtcOnly))
        };
        let plain = of("");
        assert_eq!(
            (plain.place.to_str(), plain.mode, plain.idle),
            (Some("/srv/a"), 0o755, None)
        );
        let idle = of("Where=/srv/a\nDirectoryMode=0700\nTimeoutIdleSec=60");
        assert_eq!(
            (idle.mode, idle.idle),
            (0o700, Some(Duration::from_secs(60)))
        );
        assert_eq!(idle.period(), Some(Duration::from_secs(20)));
        assert_eq!(of("TimeoutIdleSec=0").idle, None);
        assert_eq!(
            of("TimeoutIdleSec=1").period(),
            Some(Duration::from_secs(1))
        );
        assert!(open(&of(""), io::pipe().unwrap().0.into()).is_err());
    }
}
