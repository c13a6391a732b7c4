// SPDX-License-Identifier: Apache-2.0
//! Packets: the messages of [`super`] as bytes and back, bounded in every field.
//!
//! Little-endian, no padding, no self-description: both ends have the same [`super::VERSION`], or
//! the connection ends at once. Decoding never panics, never allocates more than the packet's own
//! length justifies, and refuses what is too long, unknown, cut short or followed by something. It
//! does no input or output: the inits read packets with `crate::packet`, the daemon with its own
//! asynchronous sockets.
//!
//! [`field`] has the codecs of single fields, [`messages`] says in which order they stand in a
//! packet.

pub(crate) mod field;
mod messages;
mod sandbox;

pub use messages::{StartHead, encode_sealed, start_head};

/// A packet that is not a message, or a message that is no packet. Each names the field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The packet ends inside this field.
    #[error("the packet ends inside `{0}`")]
    Truncated(&'static str),
    /// The field is longer than its limit.
    #[error("`{field}` is {length} long; the limit is {limit}")]
    TooLong {
        /// The name of the field.
        field: &'static str,
        /// Its length, in bytes or items.
        length: usize,
        /// The most that is allowed, in the same unit.
        limit: usize,
    },
    /// The field has a value that means nothing in this version.
    #[error("`{field}` has the unknown value {value}")]
    Unknown {
        /// The name of the field.
        field: &'static str,
        /// The number that it holds.
        value: u32,
    },
    /// The text is not UTF-8.
    #[error("`{0}` is not UTF-8")]
    NotUtf8(&'static str),
    /// The message is complete, the packet is not.
    #[error("{0} bytes follow the message")]
    Trailing(usize),
    /// No memory for this field.
    #[error("no memory for `{0}`")]
    NoMemory(&'static str),
}

/// A message that goes in a packet of its own.
pub trait Packet: Sized {
    /// Writes the packet to `out`, in place of its content. After an error the content is
    /// undefined.
    ///
    /// # Errors
    /// A field is longer than its limit, or the packet longer than [`super::MAX_PACKET`].
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), CodecError>;

    /// Reads the message of a packet.
    ///
    /// # Errors
    /// [`CodecError`]: the packet is not exactly this message.
    fn decode(packet: &[u8]) -> Result<Self, CodecError>;
}

/// The tag of `CreateCell`.
pub(crate) const CREATE_CELL: u8 = 2;
/// The tag of `KeepDescriptor`.
pub(crate) const KEEP_DESCRIPTOR: u8 = 8;

/// The tag and the number of a request, also of one that can't be decoded: every request that is
/// answered by its number has it right behind the tag.
pub(crate) fn request_number(packet: &[u8]) -> Option<(u8, u64)> {
    let (tag, rest) = packet.split_first()?;
    let number = rest.first_chunk::<8>()?;
    Some((*tag, u64::from_le_bytes(*number)))
}

#[cfg(test)]
mod tests;
