// SPDX-License-Identifier: Apache-2.0
//! The options of a mount, as mount(8) and the specification have them: what each word does. Pure.

use kernel::mount::{Attributes, Propagation};

/// What the words of one mount ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// For the mount itself.
    pub(crate) set: Attributes,
    pub(crate) clear: Attributes,
    /// For the mounts below it, too.
    pub(crate) set_all: Attributes,
    pub(crate) clear_all: Attributes,
    /// Some: a bind mount; true with what is mounted below.
    pub(crate) bind: Option<bool>,
    /// In their order; true for the mounts below, too.
    pub(crate) propagation: Vec<(Propagation, bool)>,
    /// Some: ids are mapped; true for the mounts below, too.
    pub(crate) id_map: Option<bool>,
    /// The new tmpfs gets what is in the folder that it covers.
    pub(crate) copy_up: bool,
    /// Options of the file system itself.
    pub(crate) data: Vec<String>,
}

/// What a word is.
#[derive(Clone, Copy)]
enum Word {
    Set(Attributes),
    Clear(Attributes),
    SetAll(Attributes),
    ClearAll(Attributes),
    /// Access times: set to this after all of it is cleared.
    Times(Attributes, bool),
    Bind(bool),
    Propagation(Propagation, bool),
    IdMap(bool),
    CopyUp,
    /// A flag of the file system, by the kernel's name.
    Flag,
    /// Taken, and nothing to do.
    Nothing,
}

use Word::{Bind, Clear, ClearAll, CopyUp, Flag, IdMap, Nothing, Set, SetAll, Times};

const WORDS: [(&str, Word); 62] = [
    ("async", Nothing),
    ("atime", Times(Attributes::NONE, false)),
    ("bind", Bind(false)),
    ("defaults", Nothing),
    ("dev", Clear(Attributes::NO_DEV)),
    ("diratime", Clear(Attributes::NO_FOLDER_ACCESS_TIME)),
    ("dirsync", Flag),
    ("exec", Clear(Attributes::NO_EXEC)),
    ("idmap", IdMap(false)),
    ("iversion", Nothing),
    ("lazytime", Flag),
    ("loud", Nothing),
    ("mand", Nothing),
    ("noatime", Times(Attributes::NO_ACCESS_TIME, false)),
    ("nodev", Set(Attributes::NO_DEV)),
    ("nodiratime", Set(Attributes::NO_FOLDER_ACCESS_TIME)),
    ("noexec", Set(Attributes::NO_EXEC)),
    ("noiversion", Nothing),
    ("nolazytime", Nothing),
    ("nomand", Nothing),
    ("norelatime", Nothing),
    ("nostrictatime", Times(Attributes::NONE, false)),
    ("nosuid", Set(Attributes::NO_SUID)),
    ("nosymfollow", Set(Attributes::NO_SYMLINKS)),
    ("private", Word::Propagation(Propagation::Private, false)),
    ("ratime", Times(Attributes::NONE, true)),
    ("rbind", Bind(true)),
    ("rdev", ClearAll(Attributes::NO_DEV)),
    ("rdiratime", ClearAll(Attributes::NO_FOLDER_ACCESS_TIME)),
    ("relatime", Times(Attributes::NONE, false)),
    ("remount", Nothing),
    ("rexec", ClearAll(Attributes::NO_EXEC)),
    ("ridmap", IdMap(true)),
    ("rnoatime", Times(Attributes::NO_ACCESS_TIME, true)),
    ("rnodev", SetAll(Attributes::NO_DEV)),
    ("rnodiratime", SetAll(Attributes::NO_FOLDER_ACCESS_TIME)),
    ("rnoexec", SetAll(Attributes::NO_EXEC)),
    ("rnorelatime", Nothing),
    ("rnostrictatime", Times(Attributes::NONE, true)),
    ("rnosuid", SetAll(Attributes::NO_SUID)),
    ("rnosymfollow", SetAll(Attributes::NO_SYMLINKS)),
    ("ro", Set(Attributes::READ_ONLY)),
    ("rprivate", Word::Propagation(Propagation::Private, true)),
    ("rrelatime", Times(Attributes::NONE, true)),
    ("rro", SetAll(Attributes::READ_ONLY)),
    ("rrw", ClearAll(Attributes::READ_ONLY)),
    ("rshared", Word::Propagation(Propagation::Shared, true)),
    ("rslave", Word::Propagation(Propagation::Slave, true)),
    ("rstrictatime", Times(Attributes::STRICT_ACCESS_TIME, true)),
    ("rsuid", ClearAll(Attributes::NO_SUID)),
    ("rsymfollow", ClearAll(Attributes::NO_SYMLINKS)),
    (
        "runbindable",
        Word::Propagation(Propagation::Unbindable, true),
    ),
    ("rw", Clear(Attributes::READ_ONLY)),
    ("shared", Word::Propagation(Propagation::Shared, false)),
    ("silent", Nothing),
    ("slave", Word::Propagation(Propagation::Slave, false)),
    ("strictatime", Times(Attributes::STRICT_ACCESS_TIME, false)),
    ("suid", Clear(Attributes::NO_SUID)),
    ("symfollow", Clear(Attributes::NO_SYMLINKS)),
    ("sync", Flag),
    ("tmpcopyup", CopyUp),
    (
        "unbindable",
        Word::Propagation(Propagation::Unbindable, false),
    ),
];

/// The words that are known, for `features`.
pub(crate) fn words() -> Vec<&'static str> {
    WORDS.iter().map(|(word, _)| *word).collect()
}

/// How mounts propagate by one of the specification's words.
pub(crate) fn propagation(word: &str) -> Option<(Propagation, bool)> {
    WORDS.iter().find_map(|(known, meaning)| match meaning {
        Word::Propagation(propagation, all) if *known == word => Some((*propagation, *all)),
        _ => None,
    })
}

/// Reads all words of a mount; one that isn't known is the file system's. Where two contradict each
/// other the later one counts.
pub(crate) fn parse(words: &[String]) -> Options {
    let mut out = Options::default();
    for word in words {
        let known = WORDS.iter().find(|(known, _)| known == word);
        match known.map(|(_, meaning)| *meaning) {
            None if word.is_empty() => {}
            None | Some(Flag) => out.data.push(word.clone()),
            Some(meaning) => out.take(meaning),
        }
    }
    out
}

impl Options {
    fn take(&mut self, word: Word) {
        match word {
            Set(attributes) => add(&mut self.set, &mut self.clear, attributes),
            Clear(attributes) => add(&mut self.clear, &mut self.set, attributes),
            SetAll(attributes) => add(&mut self.set_all, &mut self.clear_all, attributes),
            ClearAll(attributes) => add(&mut self.clear_all, &mut self.set_all, attributes),
            Times(attributes, all) => {
                let (set, clear) = match all {
                    false => (&mut self.set, &mut self.clear),
                    true => (&mut self.set_all, &mut self.clear_all),
                };
                *set = set.without(Attributes::ACCESS_TIME) | attributes;
                *clear = *clear | Attributes::ACCESS_TIME;
            }
            Bind(all) => self.bind = Some(all),
            Word::Propagation(propagation, all) => self.propagation.push((propagation, all)),
            IdMap(all) => self.id_map = Some(all),
            CopyUp => self.copy_up = true,
            Flag | Nothing => {}
        }
    }
}

fn add(to: &mut Attributes, from: &mut Attributes, attributes: Attributes) {
    *to = *to | attributes;
    *from = from.without(attributes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Options {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        parse(&words)
    }

    #[test]
    fn the_table_is_sorted_and_has_each_word_once() {
        assert!(WORDS.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn the_later_of_two_words_counts() {
        assert!(of(&["rw", "ro"]).set.has(Attributes::READ_ONLY));
        let back = of(&["ro", "rw"]);
        assert_eq!(back.set, Attributes::NONE);
        assert!(back.clear.has(Attributes::READ_ONLY));
        assert_eq!(of(&["bind", "rbind"]).bind, Some(true));
    }

    #[test]
    fn what_is_not_known_is_the_file_systems() {
        let options = of(&["nosuid", "size=64k", "mode=755", "", "sync"]);
        assert_eq!(options.data, ["size=64k", "mode=755", "sync"]);
        assert_eq!(options.set, Attributes::NO_SUID);
    }

    #[test]
    fn access_times_replace_each_other() {
        let options = of(&["noatime", "strictatime"]);
        assert_eq!(options.set, Attributes::STRICT_ACCESS_TIME);
        assert!(options.clear.has(Attributes::ACCESS_TIME));
        assert_eq!(of(&["noatime", "relatime"]).set, Attributes::NONE);
    }

    #[test]
    fn recursive_words_are_for_the_mounts_below() {
        let options = of(&["rbind", "rro", "nodev"]);
        assert_eq!(options.set_all, Attributes::READ_ONLY);
        assert_eq!(options.set, Attributes::NO_DEV);
        assert_eq!(propagation("rslave"), Some((Propagation::Slave, true)));
        assert_eq!(propagation("ro"), None);
    }
}
