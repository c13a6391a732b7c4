// SPDX-License-Identifier: Apache-2.0
//! The words of syslog(3) for levels and facilities, by their numbers: what `SyslogLevel=` and
//! `SyslogFacility=` of a unit say, and `-p` and `--facility` of `journalctl`.

/// Levels, the most important first.
pub const LEVELS: [&str; 8] = [
    "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
];

/// Facilities; from 12 to 15 have no name.
pub const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
    "ftp", "12", "13", "14", "15", "local0", "local1", "local2", "local3", "local4", "local5",
    "local6", "local7",
];

/// The number of a level by its name or number.
pub fn level(word: &str) -> Option<u8> {
    number(&LEVELS, word)
}

/// The number of a facility by its name or number.
pub fn facility(word: &str) -> Option<u8> {
    number(&FACILITIES, word)
}

fn number(names: &[&str], word: &str) -> Option<u8> {
    let named = names.iter().position(|name| *name == word);
    let number = named.or_else(|| word.parse().ok());
    u8::try_from(number.filter(|it| *it < names.len())?).ok()
}

/// The priority that stands before a line as `<N>` (sd-daemon(3)), and the line behind it.
pub fn prefixed(line: &[u8]) -> Option<(u8, &[u8])> {
    match line {
        [b'<', digit @ b'0'..=b'7', b'>', rest @ ..] => Some((digit - b'0', rest)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_known_and_nothing_beyond() {
        assert_eq!(
            [level("err"), level("7"), level("8")],
            [Some(3), Some(7), None]
        );
        let known = [
            facility("ftp"),
            facility("local0"),
            facility("12"),
            facility("23"),
        ];
        assert_eq!(known, [Some(11), Some(16), Some(12), Some(23)]);
        assert_eq!([facility("24"), facility("local8"), level("")], [None; 3]);
    }

    #[test]
    fn a_priority_is_one_digit_in_front() {
        assert_eq!(prefixed(b"<3>it broke"), Some((3, &b"it broke"[..])));
        assert_eq!(prefixed(b"<0>"), Some((0, &b""[..])));
        for line in [&b"plain"[..], b"<8>no", b"<3", b"", b" <3>no", b"<33>no"] {
            assert_eq!(prefixed(line), None);
        }
    }
}
