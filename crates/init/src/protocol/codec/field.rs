// SPDX-License-Identifier: Apache-2.0
//! Codecs of single fields: numbers, bounded bytes, text and lists, options.
//!
//! A codec is a small value such as `Bytes(512)`, so a message's layout reads as a table in
//! [`super::messages`].

use super::CodecError;
use crate::protocol::{MAX_PACKET, Uid};

type Result<T> = std::result::Result<T, CodecError>;

/// The rest of a packet.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(packet: &'a [u8]) -> Self {
        Self { rest: packet }
    }

    pub(crate) fn take(&mut self, count: usize, field: &'static str) -> Result<&'a [u8]> {
        let (head, tail) = self
            .rest
            .split_at_checked(count)
            .ok_or(CodecError::Truncated(field))?;
        self.rest = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N]> {
        let (head, tail) = self
            .rest
            .split_first_chunk()
            .ok_or(CodecError::Truncated(field))?;
        self.rest = tail;
        Ok(*head)
    }

    pub(crate) fn finish(self) -> Result<()> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(CodecError::Trailing(left)),
        }
    }
}

/// A packet that is being encoded.
pub(crate) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    limit: usize,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        Self::bounded(out, MAX_PACKET)
    }

    /// One of at most `limit` bytes.
    pub(crate) fn bounded(out: &'a mut Vec<u8>, limit: usize) -> Self {
        out.clear();
        Self { out, limit }
    }

    pub(crate) fn put(&mut self, bytes: &[u8], field: &'static str) -> Result<()> {
        let length = self.out.len().saturating_add(bytes.len());
        if length > self.limit {
            return Err(CodecError::TooLong {
                field,
                length,
                limit: self.limit,
            });
        }
        self.out
            .try_reserve(bytes.len())
            .map_err(|_| CodecError::NoMemory(field))?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }
}

/// How a value of type `T` stands in a packet. `name` is the field's, for errors.
pub(crate) trait Field<T> {
    fn put(&self, value: &T, name: &'static str, to: &mut Writer<'_>) -> Result<()>;
    fn get(&self, name: &'static str, from: &mut Reader<'_>) -> Result<T>;
}

/// A value of a fixed layout.
pub(crate) struct Plain;
/// Bytes, at most so many.
pub(crate) struct Bytes(pub(crate) usize);
/// UTF-8, at most so many bytes.
pub(crate) struct Text(pub(crate) usize);
/// At most so many items.
pub(crate) struct List<F>(pub(crate) usize, pub(crate) F);
/// A codec of an optional field: a byte that is 0 or 1, then the field.
pub(crate) struct Maybe<F>(pub(crate) F);
/// Success, or why not.
pub(crate) struct Outcome<F>(pub(crate) F);

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Field<$number> for Plain {
            fn put(&self, value: &$number, name: &'static str, to: &mut Writer<'_>) -> Result<()> {
                to.put(&value.to_le_bytes(), name)
            }
            fn get(&self, name: &'static str, from: &mut Reader<'_>) -> Result<$number> {
                Ok(<$number>::from_le_bytes(from.array(name)?))
            }
        }
    )*};
}
numbers!(u8, u16, u32, u64, i8, i16, i32);

impl Field<bool> for Plain {
    fn put(&self, value: &bool, name: &'static str, to: &mut Writer<'_>) -> Result<()> {
        to.put(&[u8::from(*value)], name)
    }
    fn get(&self, name: &'static str, from: &mut Reader<'_>) -> Result<bool> {
        match from.array(name)? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(CodecError::Unknown {
                field: name,
                value: other.into(),
            }),
        }
    }
}

impl Field<Uid> for Plain {
    fn put(&self, value: &Uid, name: &'static str, to: &mut Writer<'_>) -> Result<()> {
        to.put(&value.0, name)
    }
    fn get(&self, name: &'static str, from: &mut Reader<'_>) -> Result<Uid> {
        Ok(Uid(from.array(name)?))
    }
}

impl Field<[u8; 32]> for Plain {
    fn put(&self, value: &[u8; 32], name: &'static str, to: &mut Writer<'_>) -> Result<()> {
        to.put(value, name)
    }
    fn get(&self, name: &'static str, from: &mut Reader<'_>) -> Result<[u8; 32]> {
        from.array(name)
    }
}

impl<A, B> Field<(A, B)> for Plain
where
    Plain: Field<A> + Field<B>,
{
    fn put(&self, value: &(A, B), name: &'static str, to: &mut Writer<'_>) -> Result<()> {
        self.put(&value.0, name, to)?;
        self.put(&value.1, name, to)
    }
    fn get(&self, name: &'static str, from: &mut Reader<'_>) -> Result<(A, B)> {
        Ok((self.get(name, from)?, self.get(name, from)?))
    }
}

impl<A, B, C> Field<(A, B, C)> for Plain
where
    Plain: Field<A> + Field<B> + Field<C>,
{
    fn put(&self, value: &(A, B, C), name: &'static str, to: &mut Writer<'_>) -> Result<()> {
        self.put(&value.0, name, to)?;
        self.put(&value.1, name, to)?;
        self.put(&value.2, name, to)
    }
    fn get(&self, name: &'static str, from: &mut Reader<'_>) -> Result<(A, B, C)> {
        Ok((
            self.get(name, from)?,
            self.get(name, from)?,
            self.get(name, from)?,
        ))
    }
}

fn put_length(length: usize, limit: usize, field: &'static str, to: &mut Writer<'_>) -> Result<()> {
    match u32::try_from(length) {
        Ok(short) if length <= limit => Plain.put(&short, field, to),
        _ => Err(CodecError::TooLong {
            field,
            length,
            limit,
        }),
    }
}

fn get_length(limit: usize, field: &'static str, from: &mut Reader<'_>) -> Result<usize> {
    let value: u32 = Plain.get(field, from)?;
    let length = usize::try_from(value).unwrap_or(usize::MAX);
    if length > limit {
        return Err(CodecError::TooLong {
            field,
            length,
            limit,
        });
    }
    Ok(length)
}

impl Bytes {
    fn slice<'a>(&self, name: &'static str, from: &mut Reader<'a>) -> Result<&'a [u8]> {
        let length = get_length(self.0, name, from)?;
        from.take(length, name)
    }
}

impl Field<Vec<u8>> for Bytes {
    fn put(&self, value: &Vec<u8>, name: &'static str, to: &mut Writer<'_>) -> Result<()> {
        put_length(value.len(), self.0, name, to)?;
        to.put(value, name)
    }
    fn get(&self, name: &'static str, from: &mut Reader<'_>) -> Result<Vec<u8>> {
        let slice = self.slice(name, from)?;
        let mut owned = Vec::new();
        owned
            .try_reserve_exact(slice.len())
            .map_err(|_| CodecError::NoMemory(name))?;
        owned.extend_from_slice(slice);
        Ok(owned)
    }
}

impl Field<String> for Text {
    fn put(&self, value: &String, name: &'static str, to: &mut Writer<'_>) -> Result<()> {
        put_length(value.len(), self.0, name, to)?;
        to.put(value.as_bytes(), name)
    }
    fn get(&self, name: &'static str, from: &mut Reader<'_>) -> Result<String> {
        let bytes = Bytes(self.0).get(name, from)?;
        String::from_utf8(bytes).map_err(|_| CodecError::NotUtf8(name))
    }
}

impl<T, F: Field<T>> Field<Vec<T>> for List<F> {
    fn put(&self, value: &Vec<T>, name: &'static str, to: &mut Writer<'_>) -> Result<()> {
        put_length(value.len(), self.0, name, to)?;
        value.iter().try_for_each(|item| self.1.put(item, name, to))
    }
    fn get(&self, name: &'static str, from: &mut Reader<'_>) -> Result<Vec<T>> {
        let length = get_length(self.0, name, from)?;
        // Every item takes a byte at least: a packet can't ask for more than it brings.
        if length > from.rest.len() {
            return Err(CodecError::Truncated(name));
        }
        let mut items = Vec::new();
        for _ in 0..length {
            items
                .try_reserve(1)
                .map_err(|_| CodecError::NoMemory(name))?;
            items.push(self.1.get(name, from)?);
        }
        Ok(items)
    }
}

impl<T, F: Field<T>> Field<Option<T>> for Maybe<F> {
    fn put(&self, value: &Option<T>, name: &'static str, to: &mut Writer<'_>) -> Result<()> {
        Plain.put(&value.is_some(), name, to)?;
        value
            .as_ref()
            .map_or(Ok(()), |value| self.0.put(value, name, to))
    }
    fn get(&self, name: &'static str, from: &mut Reader<'_>) -> Result<Option<T>> {
        match Plain.get(name, from)? {
            true => Ok(Some(self.0.get(name, from)?)),
            false => Ok(None),
        }
    }
}

impl<E, F: Field<E>> Field<std::result::Result<(), E>> for Outcome<F> {
    fn put(
        &self,
        value: &std::result::Result<(), E>,
        name: &'static str,
        to: &mut Writer<'_>,
    ) -> Result<()> {
        Plain.put(&value.is_err(), name, to)?;
        value
            .as_ref()
            .err()
            .map_or(Ok(()), |error| self.0.put(error, name, to))
    }
    fn get(&self, name: &'static str, from: &mut Reader<'_>) -> Result<std::result::Result<(), E>> {
        match Plain.get(name, from)? {
            true => Ok(Err(self.0.get(name, from)?)),
            false => Ok(Ok(())),
        }
    }
}
