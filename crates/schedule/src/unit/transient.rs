// SPDX-License-Identifier: Apache-2.0
//! Units that a call has made (systemd-run(1)): files in the folder of transient units, so that
//! files say of them, too, what is wished. The manager reads and runs them as all others. Here they
//! are written, and removed once their units have ended.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use identity::Permit;
use model::error::{Error, Reason};
use model::unit::{JobDone, JobMode, UnitStatus, Verb};
use tokio::sync::Notify;
use units::name::{UnitName, UnitType};

use super::handle::Units;
use super::manager::Order;
use super::table::Folders;

/// The largest file, in bytes.
const LARGEST: usize = 64 << 10;
/// Files of transient units that may be there.
const MOST: usize = 1024;
/// Between two looks at the units whose files are there. A file goes when its unit was found down
/// twice, so that a client that waits for its result has that long to ask.
const LOOK: Duration = Duration::from_secs(10);

/// A unit that is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transient {
    /// Its name.
    pub unit: UnitName,
    /// What its file says.
    pub text: String,
    /// The unit that is started in its place, and what the file of that says: its timer, socket,
    /// path or automount, of the same name.
    pub starter: Option<(UnitType, String)>,
}

/// The folder of their files.
#[derive(Debug, Default)]
pub(super) struct Folder {
    path: PathBuf,
    more: Notify,
}

impl Folder {
    /// The one beside that of units until the next reboot: `/run/systemd/transient`.
    pub(super) fn beside(folders: &Folders) -> Folder {
        let parent = Path::new(&folders.runtime).parent();
        Folder {
            path: parent
                .unwrap_or(Path::new("/run/systemd"))
                .join("transient"),
            more: Notify::new(),
        }
    }

    fn names(&self) -> Vec<UnitName> {
        let entries = std::fs::read_dir(&self.path)
            .into_iter()
            .flatten()
            .flatten();
        let names = entries.filter_map(|it| it.file_name().into_string().ok());
        names.filter_map(|it| UnitName::parse(&it).ok()).collect()
    }

    /// Writes a file that isn't there. It is whole or absent, whatever ends the daemon.
    fn write(&self, unit: &UnitName, text: &str) -> Result<(), Error> {
        let path = self.path.join(unit.as_str());
        let failed = |error: std::io::Error| {
            let reason = match error.kind() {
                std::io::ErrorKind::AlreadyExists => Reason::AlreadyExists,
                _ => Reason::WrongState,
            };
            let failed = Error::new(reason, format!("{}: {error}", path.display()));
            match error.raw_os_error() {
                Some(errno) => failed.errno(errno),
                None => failed,
            }
        };
        std::fs::create_dir_all(&self.path).map_err(failed)?;
        // No unit has such a name.
        let draft = self.path.join(format!(".{unit}.new"));
        let _ = std::fs::remove_file(&draft);
        let mut open = std::fs::OpenOptions::new();
        let mut file = open
            .write(true)
            .create_new(true)
            .open(&draft)
            .map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        // Unlike a rename it replaces nothing.
        let linked = std::fs::hard_link(&draft, &path);
        let _ = std::fs::remove_file(&draft);
        linked.map_err(failed)
    }

    /// Whether a unit's file is one of these.
    pub(super) fn has(&self, fragment: &str) -> bool {
        Path::new(fragment).parent() == Some(&self.path)
    }

    pub(super) fn remove(&self, unit: &UnitName) {
        let path = self.path.join(unit.as_str());
        if let Err(error) = std::fs::remove_file(&path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "a transient unit's file stays");
        }
    }
}

/// What can be transient, beside scopes, which are made of processes.
const KINDS: [UnitType; 7] = [
    UnitType::Service,
    UnitType::Slice,
    UnitType::Timer,
    UnitType::Socket,
    UnitType::Path,
    UnitType::Mount,
    UnitType::Automount,
];

/// What starts units of this type.
const fn starters(kind: UnitType) -> &'static [UnitType] {
    match kind {
        UnitType::Service => &[UnitType::Timer, UnitType::Socket, UnitType::Path],
        UnitType::Mount => &[UnitType::Automount],
        _ => &[],
    }
}

/// What is wrong with a draft; the unit that is started in its place.
fn checked(draft: &Transient) -> Result<Option<UnitName>, Error> {
    let unit = &draft.unit;
    if !KINDS.contains(&unit.kind()) {
        let kinds = KINDS.map(|it| it.to_string()).join(", ");
        let words = format!("is of no type that can be transient: those are {kinds}");
        return Err(Error::invalid("name", words));
    }
    if unit.is_template() {
        return Err(Error::invalid("name", "is a template: name an instance"));
    }
    let texts = [
        ("text", Some(&draft.text)),
        ("timer_text", draft.starter.as_ref().map(|(_, text)| text)),
    ];
    for (field, text) in texts {
        if text.is_some_and(|it| it.len() > LARGEST) {
            let words = format!("is longer than {LARGEST} bytes");
            return Err(Error::invalid(field, words));
        }
    }
    if draft.text.is_empty() {
        return Err(Error::invalid("text", "says nothing"));
    }
    let Some((kind, _)) = &draft.starter else {
        return Ok(None);
    };
    if !starters(unit.kind()).contains(kind) {
        let words = format!("is a {}, which no {kind} starts", unit.kind());
        return Err(Error::invalid("name", words));
    }
    let starter = UnitName::parse(&format!("{}.{kind}", unit.stem()));
    starter
        .map(Some)
        .map_err(|problem| Error::invalid("name", problem))
}

impl Units {
    /// Writes a unit's file, and starts it, or what starts it. Answers as [`Units::job`].
    ///
    /// # Errors
    /// `ALREADY_EXISTS`: a unit of that name has a file, or is up. `LIMIT_EXCEEDED`: 1,024 are
    /// there. `WRONG_STATE`: the file can't be written, or the unit can't be started; then its file
    /// is removed.
    pub async fn start_transient(
        &self,
        permit: &Permit,
        draft: Transient,
        wait: bool,
    ) -> Result<JobDone, Error> {
        let starter = checked(&draft)?;
        let mut files = vec![(draft.unit.clone(), draft.text)];
        files.extend(starter.zip(draft.starter.map(|(_, text)| text)));
        for (unit, _) in &files {
            self.is_free(permit, unit).await?;
        }
        let first = files.last().map_or(draft.unit, |(unit, _)| unit.clone());
        let written = self.write(files).await?;
        let started = match self.reload(permit).await {
            Ok(()) => {
                self.job(permit, first, Verb::Start, JobMode::Fail, wait)
                    .await
            }
            Err(error) => Err(error),
        };
        self.transient.more.notify_one();
        if started.is_err() {
            written.iter().for_each(|unit| self.transient.remove(unit));
            self.reload(permit).await?;
        }
        started
    }

    pub(super) async fn is_free(&self, permit: &Permit, unit: &UnitName) -> Result<(), Error> {
        let there = match self.get(permit, unit.clone()).await {
            Ok(detail) => detail.status,
            Err(error) if error.reason == Reason::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let file = Path::new(&there.fragment);
        let is_own = self.transient.has(&there.fragment);
        if is_own && there.active == "inactive" && there.job.is_none() {
            // It has ended, and gives way before it is tidied.
            self.transient.remove(unit);
            return Ok(());
        }
        let is_there = !there.fragment.is_empty() && file.exists();
        // A slice is up without a file as soon as a unit in it is: it gets one.
        let may_be_up = unit.kind() == UnitType::Slice && there.job.is_none();
        match is_there || !(is_down(&there) || may_be_up) {
            true => {
                let words = format!("the unit {unit} is there already");
                Err(Error::new(Reason::AlreadyExists, words).about("unit", unit.to_string()))
            }
            false => Ok(()),
        }
    }

    /// Takes back files whose units are not to be.
    pub(super) fn take_back(&self, units: &[UnitName]) {
        units.iter().for_each(|unit| self.transient.remove(unit));
    }

    /// There are more to be tidied.
    pub(super) fn look_again(&self) {
        self.transient.more.notify_one();
    }

    /// Writes all or none.
    pub(super) async fn write(
        &self,
        files: Vec<(UnitName, String)>,
    ) -> Result<Vec<UnitName>, Error> {
        let folder = self.transient.clone();
        let written = tokio::task::spawn_blocking(move || {
            if folder.names().len() + files.len() > MOST {
                let words = format!("{MOST} transient units are there");
                return Err(Error::new(Reason::LimitExceeded, words)
                    .hint("`systemctl reset-failed` lets failed ones go"));
            }
            let mut written = Vec::new();
            for (unit, text) in files {
                if let Err(error) = folder.write(&unit, &text) {
                    written.iter().for_each(|unit| folder.remove(unit));
                    return Err(error);
                }
                written.push(unit);
            }
            Ok(written)
        });
        let broken = |error: tokio::task::JoinError| Err(Error::internal(error.to_string()));
        written.await.unwrap_or_else(broken)
    }

    /// Removes the files of units that have ended, as long as the manager is there: those of an
    /// earlier daemon, too. A failed one stays until it is reset, as in systemd, unless it has
    /// `CollectMode=inactive-or-failed`.
    pub(super) fn tidy(&self) {
        let units = self.clone();
        tokio::spawn(async move {
            let mut down: Vec<UnitName> = Vec::new();
            loop {
                let folder = units.transient.clone();
                let names = tokio::task::spawn_blocking(move || folder.names()).await;
                let names = names.unwrap_or_default();
                if names.is_empty() {
                    units.transient.more.notified().await;
                    continue;
                }
                tokio::time::sleep(LOOK).await;
                let Some(now_down) = units.those_down(&names).await else {
                    return;
                };
                for unit in now_down.iter().filter(|it| down.contains(it)) {
                    units.transient.remove(unit);
                }
                down = now_down;
            }
        });
    }

    /// Which of them are down; `None`: the manager has ended.
    async fn those_down(&self, names: &[UnitName]) -> Option<Vec<UnitName>> {
        let list = self.ask_by_itself(|reply| Order::List(false, reply)).await;
        let list = list.ok()?;
        let is_down = |unit: &&UnitName| {
            let status = list.iter().find(|it| it.name == unit.as_str());
            let starters = starters(unit.kind()).iter();
            let mut starters = starters.map(|kind| format!("{}.{kind}", unit.stem()));
            let is_up = |name: String| {
                let mut all = list.iter();
                all.any(|it| it.name == name && it.active == "active")
            };
            status.is_none_or(is_over) && !starters.any(is_up)
        };
        Some(names.iter().filter(is_down).cloned().collect())
    }
}

fn is_down(status: &UnitStatus) -> bool {
    matches!(status.active, "inactive" | "failed")
}

/// Whether nothing is to be had of it any more.
fn is_over(status: &UnitStatus) -> bool {
    let collected = || {
        let text = std::fs::read_to_string(&status.fragment);
        text.is_ok_and(|it| it.contains("CollectMode=inactive-or-failed"))
    };
    match status.active {
        "inactive" => status.job.is_none(),
        "failed" => status.job.is_none() && collected(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(name: &str, text: &str) -> Transient {
        Transient {
            unit: UnitName::parse(name).unwrap(),
            text: text.to_owned(),
            starter: None,
        }
    }

    #[test]
    fn what_can_not_be_transient_is_refused_with_its_field() {
        let field = |draft: Transient| checked(&draft).unwrap_err().field.clone().unwrap();
        assert_eq!(field(draft("a.target", "")), "name");
        assert_eq!(field(draft("a@.service", "")), "name");
        assert_eq!(field(draft("a.service", &"x".repeat(LARGEST + 1))), "text");
        assert_eq!(field(draft("a.service", "")), "text");
        let with = |name: &str, kind| {
            let starter = Some((kind, "x".to_owned()));
            checked(&Transient {
                starter,
                ..draft(name, "x")
            })
        };
        let timer = with("a.service", UnitType::Timer).unwrap().unwrap();
        assert_eq!(timer.as_str(), "a.timer");
        let automount = with("srv-a.mount", UnitType::Automount).unwrap().unwrap();
        assert_eq!(automount.as_str(), "srv-a.automount");
        assert!(with("srv-a.mount", UnitType::Timer).is_err());
        assert_eq!(checked(&draft("a.service", "x")).unwrap(), None);
    }

    #[test]
    fn a_file_is_written_whole_and_replaces_none() {
        let folder = std::env::temp_dir().join(format!("aurae-transient-{}", std::process::id()));
        let folder = Folder {
            path: folder,
            more: Notify::new(),
        };
        let unit = UnitName::parse("a.service").unwrap();
        folder.write(&unit, "one").unwrap();
        let again = folder.write(&unit, "two").unwrap_err();
        assert_eq!(again.reason, Reason::AlreadyExists);
        let read = std::fs::read_to_string(folder.path.join("a.service")).unwrap();
        assert_eq!((read.as_str(), folder.names()), ("one", vec![unit.clone()]));
        folder.remove(&unit);
        assert_eq!(std::fs::read_dir(&folder.path).unwrap().count(), 0);
        std::fs::remove_dir(&folder.path).unwrap();
    }
}
