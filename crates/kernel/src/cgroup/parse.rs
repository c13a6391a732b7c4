// SPDX-License-Identifier: Apache-2.0
//! The formats of a group's files, read: pure.
//!
//! The kernel adds keys with time, so unknown ones are passed over and absent ones are zero.

use super::Events;

/// Reads words that are separated by white space.
pub(super) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// One number a line.
pub(super) fn numbers(text: &str) -> Vec<i32> {
    text.lines()
        .filter_map(|line| line.trim().parse().ok())
        .collect()
}

/// The value of `key` in lines of `key value`.
pub(super) fn flat(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        line.strip_prefix(key)?
            .strip_prefix(' ')?
            .trim()
            .parse()
            .ok()
    })
}

/// A single number, or `max` for none.
pub(super) fn single(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// `MAJOR:MINOR`.
pub(super) fn device(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Lines of `MAJOR:MINOR key=value key=value`. A value that is no number is passed over.
pub(super) fn nested(text: &str) -> impl Iterator<Item = ((u32, u32), Vec<(&str, u64)>)> {
    text.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        let device = device(fields.next()?)?;
        let pair = |field: &str| -> Option<(usize, u64)> {
            let (key, value) = field.split_once('=')?;
            Some((key.len(), value.parse().ok()?))
        };
        let values = fields
            .filter_map(|f| pair(f).and_then(|(n, v)| Some((f.get(..n)?, v))))
            .collect();
        Some((device, values))
    })
}

/// Reads the text of `cgroup.events`.
pub(super) fn events(text: &str) -> Events {
    Events {
        populated: flat(text, "populated") == Some(1),
        frozen: flat(text, "frozen") == Some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn events_are_read_whatever_else_is_there() {
        let text = "populated 1\nnew_key 1\nfrozen 0\n";
        assert_eq!(
            events(text),
            Events {
                populated: true,
                frozen: false
            }
        );
        assert_eq!(events(""), Events::default());
    }

    #[test]
    fn a_key_is_not_found_in_a_longer_one() {
        assert_eq!(
            flat("oom_kill 3\noom 7\noom_group_kill 1\n", "oom"),
            Some(7)
        );
        assert_eq!(flat("usage_usec 5\n", "usage"), None);
    }

    #[test]
    fn io_stat_of_two_devices_is_read() {
        let text = "8:0 rbytes=1 wbytes=2 rios=3\n253:1 rbytes=9\nbroken\n7:0 \n";
        let read: Vec<_> = nested(text).collect();
        assert_eq!(
            read[0],
            ((8, 0), vec![("rbytes", 1), ("wbytes", 2), ("rios", 3)])
        );
        assert_eq!(read[1], ((253, 1), vec![("rbytes", 9)]));
        assert_eq!(read[2], ((7, 0), vec![]));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            values in prop::collection::btree_map("[a-z_]{1,12}", any::<u64>(), 0..12),
        ) {
            let text: String = values.iter().map(|(k, v)| format!("{k} {v}\n")).collect();
            for (key, value) in &values {
                prop_assert_eq!(flat(&text, key), Some(*value));
            }
        }

        #[test]
        fn nothing_makes_the_parsers_fall_over(text in "\\PC{0,100}") {
            let _ = (words(&text), numbers(&text), events(&text), nested(&text).count());
        }
    }
}
