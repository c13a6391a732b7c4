// SPDX-License-Identifier: Apache-2.0
//! Checks on texts that several fields share, and how much room a text takes in a record. Pure; the
//! specs call it.

use crate::error::{Error, Result};

/// The longest path, in bytes (the kernel's `PATH_MAX` less the final NUL).
pub const MAX_PATH_BYTES: usize = 4095;

/// The bytes that `text` takes in a record: records are JSON, where quotes, backslashes and control
/// characters are escaped.
pub fn weight(text: &str) -> usize {
    let escaped = |b: u8| match b {
        b'"' | b'\\' => 2,
        0..=0x1f => 6,
        _ => 1,
    };
    2 + text.bytes().map(escaped).sum::<usize>()
}

/// Checks a text that is shown to people or written into one-line files.
///
/// # Errors
/// `INVALID_FIELD`, naming `field`: it has a control character in it (C0, DEL or C1).
pub fn check_printable(field: &str, text: &str) -> Result<()> {
    match text.chars().find(|c| c.is_control()) {
        None => Ok(()),
        Some(c) => Err(Error::invalid(
            field,
            format!("contains the control character U+{:04X}", u32::from(c)),
        )),
    }
}

/// Checks the length of a text, in bytes.
///
/// # Errors
/// `INVALID_FIELD`, naming `field`: it has more than `max`.
pub fn check_length(field: &str, text: &str, max: usize) -> Result<()> {
    if text.len() <= max {
        return Ok(());
    }
    let problem = format!("has {} bytes; at most {max} are allowed", text.len());
    Err(Error::invalid(field, problem))
}

/// Checks the length of a list, in elements.
///
/// # Errors
/// `INVALID_FIELD`, naming `field`: it has more than `max`.
pub fn check_count(field: &str, count: usize, max: usize) -> Result<()> {
    if count <= max {
        return Ok(());
    }
    let problem = format!("has {count} elements; at most {max} are allowed");
    Err(Error::invalid(field, problem))
}

/// Checks an absolute path, which must be in its shortest form: no `.`, `..`, `//` or final `/`, no
/// control characters. It is not repaired, so that the path in the request and the path that is
/// used are the same text.
///
/// # Errors
/// `INVALID_FIELD`, naming `field`: it isn't so, has more than [`MAX_PATH_BYTES`], or a part of
/// more than 255 bytes.
pub fn check_absolute_path(field: &str, path: &str) -> Result<()> {
    let fail = |problem: &str| Err(Error::invalid(field, problem));
    check_length(field, path, MAX_PATH_BYTES)?;
    check_printable(field, path)?;
    let Some(below_root) = path.strip_prefix('/') else {
        return fail("must be an absolute path, beginning with '/'");
    };
    if below_root.is_empty() {
        return Ok(());
    }
    for part in below_root.split('/') {
        match part {
            "" => return fail("must not contain '//' or end with '/'"),
            "." | ".." => return fail("must not contain '.' or '..'"),
            part if part.len() > 255 => return fail("has a part of more than 255 bytes"),
            _ => {}
        }
    }
    Ok(())
}

/// Checks a relative path in its shortest form.
///
/// # Errors
/// As [`check_absolute_path`], and where it is empty or absolute.
pub fn check_relative_path(field: &str, path: &str) -> Result<()> {
    match path.chars().next() {
        None => Err(Error::invalid(field, "must not be empty")),
        Some('/') => Err(Error::invalid(field, "must be relative")),
        Some(_) => check_absolute_path(field, &format!("/{path}")),
    }
}

/// Whether `path` is `outer` or below it; both absolute and in shortest form.
pub fn is_path_within(path: &str, outer: &str) -> bool {
    if outer == "/" {
        return path.starts_with('/');
    }
    path.strip_prefix(outer)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_absolute_and_shortest() {
        for good in ["/", "/srv", "/srv/www data/ü"] {
            check_absolute_path("f", good).unwrap();
        }
        for bad in [
            "", "srv", "/srv/", "//srv", "/a/../b", "/a/./b", "/a\nb", "/a\0b",
        ] {
            assert!(check_absolute_path("f", bad).is_err(), "{bad:?}");
        }
        assert!(check_absolute_path("f", &format!("/{}", "x".repeat(256))).is_err());
        assert!(check_absolute_path("f", &"/x".repeat(2048)).is_err());
    }

    #[test]
    fn a_path_is_within_itself_and_its_parents_only() {
        assert!(is_path_within("/a/b", "/a"));
        assert!(is_path_within("/a", "/a"));
        assert!(is_path_within("/a", "/"));
        assert!(!is_path_within("/ab", "/a"));
        assert!(!is_path_within("/a", "/a/b"));
    }

    #[test]
    fn a_weight_is_the_size_in_json() {
        for text in ["", "plain", "\"\\", "\n\t\u{1}\u{1f}", "ü\u{7f}"] {
            // serde_json writes short escapes for \n and \t: never more than the weight says.
            assert!(serde_json::to_string(text).unwrap().len() <= weight(text));
        }
        assert_eq!(weight("\u{1}"), 8);
    }
}
