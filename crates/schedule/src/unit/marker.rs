// SPDX-License-Identifier: Apache-2.0
//! Marks of units that are to be reloaded or restarted later (`Markers=` of
//! org.freedesktop.systemd1(5)): packages set them, `systemctl reload-or-restart --marked` does it.
//! They go when the unit is down, and that of a reload when it reloads.

use std::collections::BTreeSet;

use model::error::Error;
use serde::{Deserialize, Serialize};
use units::job::Activity;

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Marker {
    NeedsReload,
    NeedsRestart,
}

/// Those of a unit.
pub(crate) type Markers = BTreeSet<Marker>;

impl Marker {
    const ALL: [Marker; 2] = [Self::NeedsReload, Self::NeedsRestart];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::NeedsReload => "needs-reload",
            Self::NeedsRestart => "needs-restart",
        }
    }
}

/// How the marks of a unit are to be others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// These, and no others.
    All(Markers),
    /// Each of these is set or taken away; the last word of a mark counts.
    Each(Vec<(Marker, bool)>),
}

impl Change {
    /// Words such as `needs-restart`, all of them or none with a `+` or `-`.
    ///
    /// # Errors
    /// `INVALID_FIELD`: no such mark; or some have a sign, and others none.
    pub(crate) fn parse(words: &str) -> Result<Change, Error> {
        let wrong = |words: String| Error::invalid("Markers", words);
        let mut each = Vec::new();
        let mut signs = BTreeSet::new();
        for word in words.split_whitespace() {
            let bare = word.strip_prefix(['+', '-']).unwrap_or(word);
            let known = Marker::ALL.into_iter().find(|it| it.as_str() == bare);
            let marker = known.ok_or_else(|| wrong(format!("Unknown marker \"{bare}\".")))?;
            signs.insert(bare != word);
            each.push((marker, !word.starts_with('-')));
        }
        match (signs.contains(&true), signs.contains(&false)) {
            (true, true) => Err(wrong(
                "\"+\" and \"-\" stand before all words or none".into(),
            )),
            (true, false) => Ok(Change::Each(each)),
            (false, _) => Ok(Change::All(each.into_iter().map(|(it, _)| it).collect())),
        }
    }

    pub(crate) fn apply(self, markers: &mut Markers) {
        match self {
            Self::All(all) => *markers = all,
            Self::Each(each) => {
                for (marker, is_set) in each {
                    match is_set {
                        true => markers.insert(marker),
                        false => markers.remove(&marker),
                    };
                }
            }
        }
    }
}

/// What is left of them when a unit has become another.
pub(crate) fn outlive(markers: &mut Markers, before: Activity, now: Activity) {
    match now {
        Activity::Inactive | Activity::Failed => markers.clear(),
        Activity::Reloading if before != now => {
            markers.remove(&Marker::NeedsReload);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(words: &[&str]) -> Vec<&'static str> {
        let mut markers = Markers::new();
        for words in words {
            Change::parse(words).unwrap().apply(&mut markers);
        }
        markers.iter().map(|it| it.as_str()).collect()
    }

    #[test]
    fn words_replace_and_signs_add() {
        assert_eq!(after(&["needs-restart"]), ["needs-restart"]);
        assert_eq!(after(&["needs-restart", "needs-reload"]), ["needs-reload"]);
        let both = ["needs-reload", "needs-restart"];
        assert_eq!(after(&["+needs-restart", "+needs-reload"]), both);
        assert_eq!(after(&["needs-reload needs-restart"]), both);
        assert_eq!(
            after(&["needs-reload", "-needs-reload +needs-restart"]),
            ["needs-restart"]
        );
        assert!(after(&["needs-restart", ""]).is_empty());
    }

    #[test]
    fn other_words_are_refused() {
        for wrong in [
            "restart",
            "+",
            "needs-reload +needs-restart",
            "-needs-start",
        ] {
            assert!(Change::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn they_go_with_what_they_are_about() {
        let left = |before, now| {
            let mut markers = Markers::from(Marker::ALL);
            outlive(&mut markers, before, now);
            markers.len()
        };
        assert_eq!(left(Activity::Deactivating, Activity::Inactive), 0);
        assert_eq!(left(Activity::Active, Activity::Failed), 0);
        assert_eq!(left(Activity::Active, Activity::Reloading), 1);
        assert_eq!(left(Activity::Reloading, Activity::Reloading), 2);
        assert_eq!(left(Activity::Activating, Activity::Active), 2);
    }
}
