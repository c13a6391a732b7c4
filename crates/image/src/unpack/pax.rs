// SPDX-License-Identifier: Apache-2.0
//! Pax records (POSIX.1-2001, pax(1) "pax Header Block"): what an extended header says of the entry
//! behind it. Keys that have no effect here are skipped, as Go's `archive/tar` and so every other
//! engine does.

use super::error::UnpackError;
use super::sparse::Announced;

/// The most bytes of one extended header.
pub(crate) const MAX_HEADER: u64 = 1 << 20;
/// The most bytes of all extended attributes of an entry, names and values: what the kernel's VFS
/// takes for one value, twice.
const MAX_XATTRS: usize = 128 << 10;

/// The prefix of an extended attribute's key.
const XATTR: &[u8] = b"SCHILY.xattr.";

/// What the records before an entry say. Later ones win.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) link: Option<Vec<u8>>,
    pub(crate) size: Option<i64>,
    pub(crate) uid: Option<i64>,
    pub(crate) gid: Option<i64>,
    /// Seconds and nanoseconds.
    pub(crate) mtime: Option<(i64, u32)>,
    /// Name and value.
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) sparse: Announced,
}

impl Records {
    /// Reads the data of an extended header.
    pub(crate) fn read(&mut self, mut data: &[u8]) -> Result<(), UnpackError> {
        while !data.is_empty() {
            let (record, rest) = split(data)
                .ok_or_else(|| UnpackError::stream("a record of a pax header is broken"))?;
            data = rest;
            self.take(record)?;
        }
        Ok(())
    }

    fn take(&mut self, record: &[u8]) -> Result<(), UnpackError> {
        let wrong = |what: &str| UnpackError::stream(format!("the pax record {what} is wrong"));
        let mut parts = record.splitn(2, |byte| *byte == b'=');
        let (Some(key), Some(value)) = (parts.next(), parts.next()) else {
            return Err(wrong("without ="));
        };
        if let Some(name) = key.strip_prefix(XATTR) {
            return self.xattr(name, value);
        }
        if key.starts_with(b"GNU.sparse.") {
            return self.sparse.take(key, value);
        }
        // An empty value leaves what the header says.
        if value.is_empty() {
            return Ok(());
        }
        match key {
            b"path" | b"linkpath" if value.contains(&0) => return Err(wrong("of a path")),
            b"path" => self.path = Some(value.to_vec()),
            b"linkpath" => self.link = Some(value.to_vec()),
            b"size" => self.size = Some(integer(value).ok_or_else(|| wrong("size"))?),
            b"uid" => self.uid = Some(integer(value).ok_or_else(|| wrong("uid"))?),
            b"gid" => self.gid = Some(integer(value).ok_or_else(|| wrong("gid"))?),
            b"mtime" => self.mtime = Some(time(value).ok_or_else(|| wrong("mtime"))?),
            _ => {}
        }
        Ok(())
    }

    fn xattr(&mut self, name: &[u8], value: &[u8]) -> Result<(), UnpackError> {
        if name.is_empty() || name.len() > 255 || name.contains(&0) {
            return Err(UnpackError::stream(
                "an extended attribute has a wrong name",
            ));
        }
        self.xattrs.retain(|(other, _)| other != name);
        self.xattrs.push((name.to_vec(), value.to_vec()));
        let size: usize = self
            .xattrs
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum();
        if size > MAX_XATTRS {
            let limit = format!("{MAX_XATTRS} bytes");
            return Err(UnpackError::too_much(
                "the extended attributes of an entry",
                limit,
            ));
        }
        Ok(())
    }
}

/// `LENGTH KEY=VALUE\n`, where the length counts itself: the record without it, and the rest.
fn split(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = data.iter().take(20).position(|byte| *byte == b' ')?;
    let length: usize = usize::try_from(integer(data.get(..space)?)?).ok()?;
    let (record, rest) = data.split_at_checked(length)?;
    let record = record.get(space + 1..)?.strip_suffix(b"\n")?;
    Some((record, rest))
}

/// A decimal number; a sign before it only where it is negative.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// `SECONDS[.FRACTION]`: seconds rounded down, and nanoseconds.
fn time(text: &[u8]) -> Option<(i64, u32)> {
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let whole = parts.next()?;
    let seconds = integer(whole)?;
    let fraction = parts.next().unwrap_or_default();
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = fraction
        .iter()
        .copied()
        .chain(std::iter::repeat(b'0'))
        .take(9);
    let nanos = digits.fold(0, |value, digit| value * 10 + u32::from(digit - b'0'));
    match (whole.starts_with(b"-"), nanos) {
        (true, 1..) => Some((seconds.checked_sub(1)?, 1_000_000_000 - nanos)),
        _ => Some((seconds, nanos)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &str, value: &str) -> Vec<u8> {
        let body = format!(" {key}={value}\n");
        let mut length = body.len();
        while length != body.len() + length.to_string().len() {
            length = body.len() + length.to_string().len();
        }
        format!("{length}{body}").into_bytes()
    }

    #[test]
    fn records_are_read_and_the_last_one_wins() {
        let mut records = Records::default();
        let all = [
            record("path", "a"),
            record("path", "b=\nc"),
            record("uid", "70000"),
            record("mtime", "-1.25"),
            record("comment", "x"),
            record("size", ""),
            record("SCHILY.xattr.user.a", "v"),
        ];
        records.read(&all.concat()).unwrap();
        assert_eq!(records.path.as_deref(), Some(&b"b=\nc"[..]));
        assert_eq!((records.uid, records.size), (Some(70000), None));
        assert_eq!(records.mtime, Some((-2, 750_000_000)));
        assert_eq!(records.xattrs, [(b"user.a".to_vec(), b"v".to_vec())]);
    }

    #[test]
    fn broken_records_are_refused() {
        let huge = record("SCHILY.xattr.user.a", &"x".repeat(MAX_XATTRS));
        for bytes in [
            b"5 a=b".to_vec(),
            b"99 a=b\n".to_vec(),
            b"-1 a=b\n".to_vec(),
            b"x a=b\n".to_vec(),
            b"5 ab\n".to_vec(),
            b"0 ".to_vec(),
            b" ".to_vec(),
            record("path", "a\0b"),
            record("size", "+1"),
            record("uid", "99999999999999999999"),
            record("mtime", "1.x"),
            record("SCHILY.xattr.", "x"),
            huge,
        ] {
            assert!(
                Records::default().read(&bytes).is_err(),
                "{:?}",
                bytes.get(..20)
            );
        }
    }
}
