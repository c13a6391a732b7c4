// SPDX-License-Identifier: Apache-2.0
//! Where the data of a sparse file is: GNU's old form and its pax forms 0.0, 0.1 and 1.0
//! (tar(1) manual, "Storing Sparse Files"). Pure.

use super::error::UnpackError;
use super::pax::integer;
use crate::manifest::MAX_BLOB;

/// The most pieces of one file.
const MAX_PIECES: usize = 1 << 18;

/// What pax records say of a sparse file.
#[derive(Debug, Default)]
pub(crate) struct Announced {
    /// `GNU.sparse.major` and `minor`.
    version: (Option<i64>, Option<i64>),
    /// The path without what tar has made of it for those who don't know the form.
    pub(crate) name: Option<Vec<u8>>,
    size: Option<i64>,
    /// Offsets and lengths by turns, of forms 0.0 and 0.1.
    numbers: Vec<i64>,
    any: bool,
}

/// How a sparse file is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// Not sparse.
    Plain,
    /// The map is in the records.
    Records,
    /// The map is before the data.
    Data,
}

impl Announced {
    /// Takes a record whose key begins with `GNU.sparse.`.
    pub(crate) fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), UnpackError> {
        self.any = true;
        let number = || integer(value).ok_or_else(wrong);
        match key.strip_prefix(b"GNU.sparse.").unwrap_or_default() {
            b"major" => self.version.0 = Some(number()?),
            b"minor" => self.version.1 = Some(number()?),
            b"name" if value.contains(&0) => return Err(wrong()),
            b"name" => self.name = Some(value.to_vec()),
            b"size" | b"realsize" => self.size = Some(number()?),
            b"offset" | b"numbytes" => self.push(number()?)?,
            b"map" => {
                self.numbers.clear();
                for part in value.split(|byte| *byte == b',') {
                    self.push(integer(part).ok_or_else(wrong)?)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn push(&mut self, number: i64) -> Result<(), UnpackError> {
        if self.numbers.len() >= 2 * MAX_PIECES {
            return Err(too_many());
        }
        self.numbers.push(number);
        Ok(())
    }

    /// Which form it is.
    pub(crate) fn form(&self) -> Result<Form, UnpackError> {
        match self.version {
            _ if !self.any => Ok(Form::Plain),
            (Some(1), Some(0)) => Ok(Form::Data),
            (None | Some(0), None | Some(0 | 1)) => Ok(Form::Records),
            _ => Err(UnpackError::stream(
                "a sparse entry is of a version that isn't known",
            )),
        }
    }

    /// The map that the records hold, for `stored` bytes of data.
    pub(crate) fn map(&self, stored: u64) -> Result<Map, UnpackError> {
        let (pairs, rest) = self.numbers.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(wrong());
        }
        Map::new(
            pairs.iter().map(|[offset, length]| (*offset, *length)),
            self.size,
            stored,
        )
    }

    /// The map of form 1.0, from the numbers that stand before the data.
    pub(crate) fn map_of(&self, pieces: Vec<(i64, i64)>, stored: u64) -> Result<Map, UnpackError> {
        Map::new(pieces.into_iter(), self.size, stored)
    }
}

/// The pieces of a sparse file, checked: in order, apart from each other, within its size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Map {
    /// Offset and length of each.
    pub(crate) pieces: Vec<(u64, u64)>,
    /// Size of the file.
    pub(crate) size: u64,
}

impl Map {
    /// Checks pieces against the size of the file and the `stored` bytes of data.
    pub(crate) fn new(
        pieces: impl Iterator<Item = (i64, i64)>,
        size: Option<i64>,
        stored: u64,
    ) -> Result<Self, UnpackError> {
        let natural = |number: i64| u64::try_from(number).map_err(|_| wrong());
        let size = natural(size.ok_or_else(wrong)?)?;
        if size > MAX_BLOB {
            return Err(UnpackError::too_much(
                "the size of a sparse file",
                format!("{MAX_BLOB} bytes"),
            ));
        }
        let mut checked = Vec::new();
        let (mut end, mut sum) = (0_u64, 0_u64);
        for (offset, length) in pieces {
            let (offset, length) = (natural(offset)?, natural(length)?);
            let next = offset.checked_add(length).ok_or_else(wrong)?;
            if offset < end || next > size {
                return Err(wrong());
            }
            end = next;
            sum = sum.saturating_add(length);
            if checked.len() >= MAX_PIECES {
                return Err(too_many());
            }
            checked.push((offset, length));
        }
        if sum != stored {
            return Err(UnpackError::stream(
                "a sparse entry has another size than its map",
            ));
        }
        Ok(Self {
            pieces: checked,
            size,
        })
    }
}

/// The numbers before the data of form 1.0: `COUNT\n`, then `OFFSET\nLENGTH\n` for each piece. Fed
/// block by block.
#[derive(Debug, Default)]
pub(crate) struct MapInData {
    partial: Vec<u8>,
    count: Option<usize>,
    numbers: Vec<i64>,
}

impl MapInData {
    /// Takes the next block; the pieces when it was the last one.
    pub(crate) fn block(&mut self, block: &[u8]) -> Result<Option<Vec<(i64, i64)>>, UnpackError> {
        for byte in block {
            match byte {
                b'\n' => {
                    let number = integer(&self.partial)
                        .filter(|n| *n >= 0)
                        .ok_or_else(wrong)?;
                    self.partial.clear();
                    if self.number(number)? {
                        // What is behind, up to the block's end, is padding.
                        let pairs = self.numbers.as_chunks::<2>().0;
                        return Ok(Some(pairs.iter().map(|[a, b]| (*a, *b)).collect()));
                    }
                }
                digit => self.partial.push(*digit),
            }
            if self.partial.len() > 20 {
                return Err(wrong());
            }
        }
        Ok(None)
    }

    /// Whether that was the last one.
    fn number(&mut self, number: i64) -> Result<bool, UnpackError> {
        match self.count {
            None => {
                let count = usize::try_from(number).map_err(|_| wrong())?;
                if count > MAX_PIECES {
                    return Err(too_many());
                }
                self.count = Some(count);
            }
            Some(_) => self.numbers.push(number),
        }
        Ok(self
            .count
            .is_some_and(|count| self.numbers.len() == 2 * count))
    }
}

fn wrong() -> UnpackError {
    UnpackError::stream("the map of a sparse entry is wrong")
}

fn too_many() -> UnpackError {
    UnpackError::too_much("the pieces of a sparse entry", MAX_PIECES.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pieces: &[(i64, i64)], size: i64, stored: u64) -> Option<Map> {
        Map::new(pieces.iter().copied(), Some(size), stored).ok()
    }

    #[test]
    fn a_map_lies_within_the_file_and_in_order() {
        assert!(map(&[(0, 5), (10, 5)], 20, 10).is_some());
        assert!(map(&[], 20, 0).is_some());
        assert!(map(&[(0, 5), (4, 5)], 20, 10).is_none(), "overlap");
        assert!(map(&[(10, 5), (0, 5)], 20, 10).is_none(), "order");
        assert!(map(&[(16, 5)], 20, 5).is_none(), "behind the end");
        assert!(map(&[(0, 5)], 20, 6).is_none(), "data without a place");
        assert!(map(&[(-1, 5)], 20, 5).is_none());
        assert!(map(&[(i64::MAX, i64::MAX)], i64::MAX, 5).is_none());
    }

    #[test]
    fn a_map_before_the_data_is_read_over_blocks() {
        let mut map = MapInData::default();
        assert_eq!(map.block(b"2\n0\n51").unwrap(), None);
        let pieces = map.block(b"2\n1024\n1\n\0\0\0").unwrap();
        assert_eq!(pieces, Some(vec![(0, 512), (1024, 1)]));
        assert_eq!(
            MapInData::default().block(b"0\n\0").unwrap(),
            Some(Vec::new())
        );
        for bad in [
            &b"-1\n"[..],
            b"x\n",
            b"99999999\n",
            b"0000000000000000000000000",
        ] {
            assert!(MapInData::default().block(bad).is_err());
        }
    }

    #[test]
    fn versions_that_are_not_known_are_refused() {
        let mut announced = Announced::default();
        assert_eq!(announced.form().unwrap(), Form::Plain);
        announced.take(b"GNU.sparse.major", b"2").unwrap();
        assert!(announced.form().is_err());
    }
}
