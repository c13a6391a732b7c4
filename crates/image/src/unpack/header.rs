// SPDX-License-Identifier: Apache-2.0
//! One header block of a tar stream: ustar (POSIX.1-1988), GNU, star and V7, as tar(5) lays them
//! out. Pure: 512 bytes in, fields out; what a field means together with pax records is `reader`'s
//! matter.

use super::error::UnpackError;

/// Bytes of a block.
pub(crate) const BLOCK: usize = 512;

/// A block whose checksum is right.
#[derive(Debug)]
pub(crate) struct Header<'a> {
    block: &'a [u8; BLOCK],
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    V7,
    Ustar,
    Star,
    Gnu,
}

impl<'a> Header<'a> {
    /// Checks a block; `None` is one of zeros, which ends a stream.
    pub(crate) fn parse(block: &'a [u8; BLOCK]) -> Result<Option<Self>, UnpackError> {
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let header = Self {
            block,
            format: format(block),
        };
        let stored = number(header.field(148, 8));
        let (unsigned, signed) = sums(block);
        // Old tools added up signed characters.
        if stored != Some(unsigned) && stored != Some(signed) {
            return Err(UnpackError::stream(
                "a header has a wrong checksum: it is no tar stream",
            ));
        }
        Ok(Some(header))
    }

    fn field(&self, from: usize, length: usize) -> &'a [u8] {
        self.block
            .get(from..from.saturating_add(length))
            .unwrap_or_default()
    }

    /// A text up to its NUL.
    fn text(&self, from: usize, length: usize) -> &'a [u8] {
        let field = self.field(from, length);
        field.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    fn number(&self, from: usize, length: usize, name: &str) -> Result<i64, UnpackError> {
        number(self.field(from, length))
            .ok_or_else(|| UnpackError::stream(format!("the {name} of a header is no number")))
    }

    /// The type flag.
    pub(crate) fn kind(&self) -> u8 {
        self.block.get(156).copied().unwrap_or_default()
    }

    /// The name, with the prefix before it where the format has one.
    pub(crate) fn path(&self) -> Vec<u8> {
        let name = self.text(0, 100);
        let prefix = match self.format {
            Format::Ustar => self.text(345, 155),
            Format::Star => self.text(345, 131),
            Format::V7 | Format::Gnu => b"",
        };
        match prefix {
            b"" => name.to_vec(),
            prefix => [prefix, b"/", name].concat(),
        }
    }

    /// What a link points to.
    pub(crate) fn link(&self) -> Vec<u8> {
        self.text(157, 100).to_vec()
    }

    /// Permissions with the bits of setuid, setgid and sticky.
    pub(crate) fn mode(&self) -> Result<u32, UnpackError> {
        Ok(u32::try_from(self.number(100, 8, "mode")? & 0o7777).unwrap_or_default())
    }

    /// The owner.
    pub(crate) fn uid(&self) -> Result<i64, UnpackError> {
        self.number(108, 8, "uid")
    }

    /// The group.
    pub(crate) fn gid(&self) -> Result<i64, UnpackError> {
        self.number(116, 8, "gid")
    }

    /// Bytes behind the header.
    pub(crate) fn size(&self) -> Result<i64, UnpackError> {
        self.number(124, 12, "size")
    }

    /// Seconds since 1970.
    pub(crate) fn mtime(&self) -> Result<i64, UnpackError> {
        self.number(136, 12, "mtime")
    }

    /// Major and minor number of a device.
    pub(crate) fn device(&self) -> Result<(i64, i64), UnpackError> {
        if self.format == Format::V7 {
            return Ok((0, 0));
        }
        Ok((self.number(329, 8, "major")?, self.number(337, 8, "minor")?))
    }

    /// GNU's old sparse form: four pieces, whether more blocks of them follow, and the whole size.
    pub(crate) fn old_sparse(&self) -> Result<OldSparse, UnpackError> {
        if self.format != Format::Gnu {
            return Err(UnpackError::stream("a sparse entry isn't in GNU's format"));
        }
        Ok(OldSparse {
            pieces: pieces(self.field(386, 96))?,
            more: self.block.get(482).is_some_and(|byte| *byte != 0),
            size: self.number(483, 12, "whole size")?,
        })
    }
}

/// What a header says of a sparse file.
#[derive(Debug)]
pub(crate) struct OldSparse {
    /// Offset and length of each piece of data.
    pub(crate) pieces: Vec<(i64, i64)>,
    /// Whether a block with more pieces follows.
    pub(crate) more: bool,
    /// Size of the file.
    pub(crate) size: i64,
}

/// Reads a block of further pieces: those, and whether one more block follows.
pub(crate) fn sparse_block(block: &[u8; BLOCK]) -> Result<(Vec<(i64, i64)>, bool), UnpackError> {
    let (pieces_of, rest) = block.split_at(504);
    Ok((
        pieces(pieces_of)?,
        rest.first().is_some_and(|byte| *byte != 0),
    ))
}

fn pieces(field: &[u8]) -> Result<Vec<(i64, i64)>, UnpackError> {
    let wrong = || UnpackError::stream("the map of a sparse entry is no list of numbers");
    let used = |piece: &&[u8]| piece.first().is_some_and(|byte| *byte != 0);
    let piece = |piece: &[u8]| {
        let (offset, length) = piece.split_at_checked(12)?;
        Some((number(offset)?, number(length)?))
    };
    let chunks = field.chunks_exact(24).take_while(used);
    chunks.map(|bytes| piece(bytes).ok_or_else(wrong)).collect()
}

fn format(block: &[u8; BLOCK]) -> Format {
    let at = |from: usize, bytes: &[u8]| block.get(from..).is_some_and(|b| b.starts_with(bytes));
    match () {
        () if at(257, b"ustar  \0") => Format::Gnu,
        () if at(257, b"ustar\0") && at(508, b"tar\0") => Format::Star,
        () if at(257, b"ustar\0") => Format::Ustar,
        () => Format::V7,
    }
}

/// The sum of all bytes with the checksum's own as spaces, by unsigned and by signed bytes.
fn sums(block: &[u8; BLOCK]) -> (i64, i64) {
    let counted = block.iter().enumerate().map(|(at, byte)| match at {
        148..156 => b' ',
        _ => *byte,
    });
    counted.fold((0, 0), |(unsigned, signed), byte| {
        (
            unsigned + i64::from(byte),
            signed + i64::from(byte.cast_signed()),
        )
    })
}

/// Octal digits with spaces or NULs around them, or GNU's base 256 (the top bit set; two's
/// complement). An empty field is 0.
fn number(field: &[u8]) -> Option<i64> {
    match field.first() {
        Some(first) if first & 0x80 != 0 => base_256(field),
        _ => octal(field),
    }
}

fn base_256(field: &[u8]) -> Option<i64> {
    let negative = field.first().is_some_and(|first| first & 0x40 != 0);
    // The top bit is the mark. The next one is the sign, which goes on to the left.
    let start: i128 = if negative { -1 } else { 0 };
    let mut bytes = field.iter().enumerate();
    let value = bytes.try_fold(start, |value, (at, byte)| {
        let byte = match at {
            0 if negative => *byte,
            0 => byte & 0x7f,
            _ => *byte,
        };
        value.checked_mul(256)?.checked_add(i128::from(byte))
    })?;
    i64::try_from(value).ok()
}

fn octal(field: &[u8]) -> Option<i64> {
    let around = |byte: &u8| matches!(byte, b' ' | 0);
    let start = field
        .iter()
        .position(|byte| !around(byte))
        .unwrap_or(field.len());
    let digits = field.get(start..).unwrap_or_default();
    let end = digits.iter().position(around).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at_checked(end)?;
    if !rest.iter().all(around) {
        return None;
    }
    digits.iter().try_fold(0_i64, |value, byte| match byte {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(i64::from(byte - b'0')),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_all_their_forms() {
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"   644 \0"), Some(0o644));
        assert_eq!(number(b"\0\0\0\0"), Some(0));
        assert_eq!(number(&[0x80, 0, 0, 0, 0, 1, 0, 0]), Some(65536));
        assert_eq!(number(&[0xff; 12]), Some(-1));
        assert_eq!(number(&[0xff, 0xff, 0xff, 0xfe]), Some(-2));
        assert_eq!(number(b"0000648\0"), None);
        assert_eq!(number(b"06 44\0"), None);
        assert_eq!(number(b"-1\0"), None);
        let mut large = [0xff; 12];
        large[0] = 0x80;
        assert_eq!(number(&large), None, "more than 63 bits");
        assert_eq!(number(b"777777777777777777777777"), None);
    }

    #[test]
    fn a_block_that_is_no_header_is_refused() {
        assert!(Header::parse(&[0; BLOCK]).unwrap().is_none());
        assert!(Header::parse(&[b'x'; BLOCK]).is_err());
        assert!(Header::parse(&[0xff; BLOCK]).is_err());
    }
}
