// SPDX-License-Identifier: Apache-2.0
//! The keys that leave a terminal session without ending it: `ctrl-p,ctrl-q` by default.

/// A sequence of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DetachKeys(Vec<u8>);

impl Default for DetachKeys {
    fn default() -> Self {
        Self(vec![0x10, 0x11])
    }
}

/// Parses `ctrl-p,ctrl-q`, as docker writes them; empty: none.
pub(crate) fn parse_keys(text: &str) -> Result<DetachKeys, String> {
    if text.is_empty() {
        return Ok(DetachKeys(Vec::new()));
    }
    text.split(',')
        .map(parse_key)
        .collect::<Result<_, _>>()
        .map(DetachKeys)
}

fn parse_key(text: &str) -> Result<u8, String> {
    let fail = || "write keys as in ctrl-p,ctrl-q or ctrl-a,d".to_owned();
    let key = text.strip_prefix("ctrl-").unwrap_or(text);
    let &[byte] = key.as_bytes() else {
        return Err(fail());
    };
    match (key.len() == text.len(), byte) {
        (true, byte) if byte.is_ascii_graphic() => Ok(byte),
        (false, b'a'..=b'z' | b'@' | b'[' | b'\\' | b']' | b'^' | b'_') => Ok(byte & 0x1f),
        _ => Err(fail()),
    }
}

/// The result of a piece of input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Scanned {
    /// Send this; more may be held back.
    Pass(Vec<u8>),
    /// The keys were pressed; send what came before them.
    Detach(Vec<u8>),
}

/// Looks for the keys in what is typed, holding back what may be their beginning.
#[derive(Debug)]
pub(crate) struct Scanner {
    keys: DetachKeys,
    matched: usize,
}

impl Scanner {
    /// No key typed yet.
    pub(crate) fn new(keys: DetachKeys) -> Self {
        Self { keys, matched: 0 }
    }

    /// Takes the next piece.
    pub(crate) fn scan(&mut self, typed: &[u8]) -> Scanned {
        let keys = self.keys.0.as_slice();
        let mut pass = Vec::with_capacity(typed.len());
        for &byte in typed {
            let mut held = keys.get(..self.matched).unwrap_or_default().to_vec();
            held.push(byte);
            // Not the keys after all? Its end may be their beginning.
            while !keys.starts_with(&held) && !held.is_empty() {
                pass.push(held.remove(0));
            }
            self.matched = held.len();
            if !keys.is_empty() && self.matched == keys.len() {
                self.matched = 0;
                return Scanned::Detach(pass);
            }
        }
        Scanned::Pass(pass)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanner() -> Scanner {
        Scanner::new(DetachKeys::default())
    }

    #[test]
    fn the_keys_detach_also_over_two_pieces() {
        assert_eq!(
            scanner().scan(b"ab\x10\x11cd"),
            Scanned::Detach(b"ab".to_vec())
        );
        let mut scanner = scanner();
        assert_eq!(scanner.scan(b"ab\x10"), Scanned::Pass(b"ab".to_vec()));
        assert_eq!(scanner.scan(b"\x11"), Scanned::Detach(Vec::new()));
    }

    #[test]
    fn what_only_begins_like_the_keys_is_passed_on_whole() {
        let mut scanner = scanner();
        assert_eq!(scanner.scan(b"\x10"), Scanned::Pass(Vec::new()));
        assert_eq!(scanner.scan(b"x"), Scanned::Pass(b"\x10x".to_vec()));
        assert_eq!(
            scanner.scan(b"\x10\x10\x11"),
            Scanned::Detach(b"\x10".to_vec())
        );
    }

    #[test]
    fn keys_that_begin_anew_within_themselves_are_found() {
        let mut scanner = Scanner::new(parse_keys("a,a,b").unwrap());
        assert_eq!(scanner.scan(b"xaaab"), Scanned::Detach(b"xa".to_vec()));
        let mut scanner = Scanner::new(parse_keys("q").unwrap());
        assert_eq!(scanner.scan(b"xq"), Scanned::Detach(b"x".to_vec()));
    }

    #[test]
    fn no_keys_never_detach() {
        let mut scanner = Scanner::new(parse_keys("").unwrap());
        assert_eq!(
            scanner.scan(b"\x10\x11"),
            Scanned::Pass(b"\x10\x11".to_vec())
        );
    }

    #[test]
    fn keys_as_docker_writes_them() {
        assert_eq!(parse_keys("ctrl-p,ctrl-q"), Ok(DetachKeys::default()));
        assert_eq!(parse_keys("ctrl-a,d"), Ok(DetachKeys(vec![1, b'd'])));
        for text in ["ctrl-", "ctrl-ab", "ab", ",", "ctrl-1", "é"] {
            assert!(parse_keys(text).is_err(), "{text}");
        }
    }
}
