// SPDX-License-Identifier: Apache-2.0
//! The head of a segment's index: where the segment begins, and in which boot of the machine it was
//! written.

use super::FormatError;

/// Bytes of a header; a multiple of a record's.
pub const HEADER: usize = 96;
/// Changes with every change of a byte's meaning.
pub(super) const VERSION: u16 = 1;
const MAGIC: &[u8; 8] = b"AURAELOG";

/// What is known when a segment is begun. Eight bytes before the checksum are spare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The kernel's boot id. A segment of another boot may have lost its tail.
    pub boot: [u8; 16],
    /// The offset of its first byte in the whole output.
    pub base: u64,
    /// `CLOCK_REALTIME`, microseconds: no record of an earlier segment is later, but for a clock
    /// set back.
    pub created_us: u64,
    /// Bytes of standard output before it, kept or dropped by retention since.
    pub stdout_before: u64,
    /// Bytes of standard error before it. What `base` has more was never stored.
    pub stderr_before: u64,
    /// How many bytes of the log to keep, for retention after its end.
    pub keep_bytes: u64,
    /// How many seconds to keep it.
    pub keep_s: u64,
}

impl Header {
    /// As it stands in the file.
    pub fn encode(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        let parts: [&[u8]; 9] = [
            MAGIC,
            &u64::from(VERSION).to_le_bytes(),
            &self.boot,
            &self.base.to_le_bytes(),
            &self.created_us.to_le_bytes(),
            &self.stdout_before.to_le_bytes(),
            &self.stderr_before.to_le_bytes(),
            &self.keep_bytes.to_le_bytes(),
            &self.keep_s.to_le_bytes(),
        ];
        let mut bytes = parts.iter().flat_map(|part| part.iter());
        for (slot, byte) in out.iter_mut().zip(&mut bytes) {
            *slot = *byte;
        }
        if let Some((body, check)) = out.split_last_chunk_mut::<8>() {
            *check = fnv1a(body).to_le_bytes();
        }
        out
    }

    /// Reads the header that `index` begins with.
    ///
    /// # Errors
    /// It is cut short, damaged, or of another version.
    pub fn decode(index: &[u8]) -> Result<Self, FormatError> {
        let head: &[u8; HEADER] = index.first_chunk().ok_or(FormatError::Short)?;
        let (body, check) = head.split_last_chunk::<8>().ok_or(FormatError::Short)?;
        if u64::from_le_bytes(*check) != fnv1a(body) || !body.starts_with(MAGIC) {
            return Err(FormatError::Damaged);
        }
        let version = u16::try_from(word(body, 8)).map_err(|_| FormatError::Damaged)?;
        if version != VERSION {
            return Err(FormatError::Version(version));
        }
        let boot = body.get(16..32).and_then(|b| b.first_chunk());
        Ok(Self {
            boot: *boot.ok_or(FormatError::Short)?,
            base: word(body, 32),
            created_us: word(body, 40),
            stdout_before: word(body, 48),
            stderr_before: word(body, 56),
            keep_bytes: word(body, 64),
            keep_s: word(body, 72),
        })
    }
}

/// The little-endian word at `at`; 0 past the end, which no caller reaches.
fn word(bytes: &[u8], at: usize) -> u64 {
    let chunk = bytes.get(at..).and_then(|rest| rest.first_chunk());
    chunk.map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

/// FNV-1a, 64 bits: the header is written once and read seldom, and no attacker forges it against
/// himself.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
