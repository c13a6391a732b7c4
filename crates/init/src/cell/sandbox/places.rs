// SPDX-License-Identifier: Apache-2.0
//! From entries to places: which one counts where several are about the same path, and what is
//! read-only or without programs by what is above. Pure; a path has no symbolic links any more.

use std::path::{Path, PathBuf};

use kernel::mount::Attributes;

use crate::protocol::sandbox::{Entry, Kind};

/// A place, and what becomes of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    /// The entry that counts, by its number.
    pub(super) entry: usize,
    pub(super) read_only: bool,
    pub(super) no_exec: bool,
    /// It is what is above, with the same attributes: nothing needs to be mounted.
    pub(super) as_above: bool,
    /// It is in something that is mounted here, and not in what is there anyway.
    pub(super) in_new: bool,
}

impl Place {
    pub(super) fn attributes(&self) -> Attributes {
        let mut all = Attributes::NONE;
        if self.read_only {
            all = all | Attributes::READ_ONLY;
        }
        if self.no_exec {
            all = all | Attributes::NO_EXEC;
        }
        all
    }
}

/// The stricter, the lower.
const fn rank(kind: &Kind) -> u8 {
    match kind {
        Kind::Inaccessible => 0,
        Kind::Bind { .. } => 1,
        Kind::Temporary { .. } => 2,
        Kind::Devices => 3,
        Kind::Processes { .. } => 4,
        Kind::Kernel => 5,
        Kind::Queues => 6,
        Kind::ReadOnly => 7,
        Kind::ReadWrite => 8,
        Kind::NoExec => 9,
        Kind::Exec => 10,
    }
}

/// Whether it shows what is there anyway, with other attributes.
pub(super) const fn shows_the_same(kind: &Kind) -> bool {
    rank(kind) >= rank(&Kind::ReadOnly)
}

/// The places of entries, found at these paths: parents before what is in them.
pub(super) fn places(entries: &[Entry], mut found: Vec<(PathBuf, usize)>) -> Vec<Place> {
    let kind_of = |number: usize| entries.get(number).map(|entry| &entry.kind);
    found.sort_by(|(a, first), (b, second)| {
        let ranks = (kind_of(*first).map(rank), kind_of(*second).map(rank));
        a.cmp(b).then(ranks.0.cmp(&ranks.1))
    });
    let mut places: Vec<Place> = Vec::new();
    for same in found.chunk_by(|(a, _), (b, _)| a == b) {
        let Some((path, entry)) = same.first() else {
            continue;
        };
        let kinds: Vec<&Kind> = same.iter().filter_map(|(_, it)| kind_of(*it)).collect();
        let above = above(&places, path);
        let hidden = above.is_some_and(|it| kind_of(it.entry) == Some(&Kind::Inaccessible));
        if !hidden {
            let in_new = above.is_some_and(|it| {
                it.in_new || kind_of(it.entry).is_some_and(|kind| !shows_the_same(kind))
            });
            let place = Place {
                in_new,
                ..place(path, *entry, &kinds, above)
            };
            places.push(place);
        }
    }
    places
}

/// The nearest place that has this one in it.
fn above<'a>(places: &'a [Place], path: &Path) -> Option<&'a Place> {
    let all = places.iter().filter(|it| path.starts_with(&it.path));
    all.max_by_key(|it| it.path.components().count())
}

fn place(path: &Path, entry: usize, kinds: &[&Kind], above: Option<&Place>) -> Place {
    let has = |kind: &Kind| kinds.contains(&kind);
    let (above_read_only, above_no_exec) =
        above.map_or((false, false), |it| (it.read_only, it.no_exec));
    let first = kinds.first();
    let same = first.is_some_and(|it| shows_the_same(it));
    let own = match first {
        Some(Kind::Inaccessible) => true,
        Some(Kind::Bind { read_only, .. }) => *read_only,
        Some(Kind::Temporary { attributes, .. }) => attributes & Attributes::READ_ONLY.bits() != 0,
        // The folder of devices is, what is mounted in it isn't: see `devices`.
        _ => false,
    };
    let read_only = match same {
        true if has(&Kind::ReadOnly) => true,
        true if has(&Kind::ReadWrite) => false,
        true => above_read_only,
        false => own || has(&Kind::ReadOnly),
    };
    let no_exec = match (has(&Kind::NoExec), has(&Kind::Exec)) {
        (true, _) => true,
        (false, true) => false,
        (false, false) => above_no_exec,
    };
    Place {
        path: path.to_owned(),
        entry,
        read_only,
        no_exec,
        in_new: false,
        as_above: same && (read_only, no_exec) == (above_read_only, above_no_exec),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: Kind) -> Entry {
        Entry {
            target: Vec::new(),
            in_root: false,
            optional: false,
            kind,
            why: String::new(),
        }
    }

    fn bind(read_only: bool) -> Kind {
        Kind::Bind {
            source: b"/x".to_vec(),
            recursive: true,
            read_only,
        }
    }

    /// Path, read-only, without programs, mounted.
    fn of(wanted: &[(&str, Kind)]) -> Vec<(String, bool, bool, bool)> {
        let entries: Vec<Entry> = wanted.iter().map(|(_, kind)| entry(kind.clone())).collect();
        let paths = wanted.iter().enumerate();
        let found = paths.map(|(number, (path, _))| (PathBuf::from(path), number));
        let places = places(&entries, found.collect());
        let show = |it: Place| {
            let path = it.path.display().to_string();
            (path, it.read_only, it.no_exec, !it.as_above)
        };
        places.into_iter().map(show).collect()
    }

    fn row(path: &str, flags: [bool; 3]) -> (String, bool, bool, bool) {
        (path.to_owned(), flags[0], flags[1], flags[2])
    }

    #[test]
    fn the_nearest_word_about_writing_counts_and_the_strictest_of_one_path() {
        let strict = [
            ("/var/lib/a", Kind::ReadWrite),
            ("/", Kind::ReadOnly),
            ("/home", Kind::ReadWrite),
            ("/home", Kind::ReadOnly),
            ("/tmp", bind(false)),
            ("/var/lib/a/b", Kind::ReadWrite),
            ("/srv", bind(true)),
        ];
        let expected = [
            row("/", [true, false, true]),
            row("/home", [true, false, false]),
            row("/srv", [true, false, true]),
            row("/tmp", [false, false, true]),
            row("/var/lib/a", [false, false, true]),
            row("/var/lib/a/b", [false, false, false]),
        ];
        assert_eq!(of(&strict), expected);
    }

    #[test]
    fn programs_are_a_question_of_their_own() {
        let wanted = [
            ("/", Kind::NoExec),
            ("/usr", Kind::Exec),
            ("/usr", Kind::ReadOnly),
            ("/var", Kind::ReadWrite),
            ("/tmp", bind(false)),
        ];
        let expected = [
            row("/", [false, true, true]),
            row("/tmp", [false, true, true]),
            row("/usr", [true, false, true]),
            row("/var", [false, true, false]),
        ];
        assert_eq!(of(&wanted), expected);
    }

    #[test]
    fn what_is_below_something_that_cannot_be_seen_is_not_there() {
        let wanted = [
            ("/home", Kind::Inaccessible),
            ("/home/a", Kind::ReadWrite),
            ("/homes", Kind::ReadOnly),
        ];
        let expected = [
            row("/home", [true, false, true]),
            row("/homes", [true, false, true]),
        ];
        assert_eq!(of(&wanted), expected);
    }
}
