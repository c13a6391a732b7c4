// SPDX-License-Identifier: Apache-2.0
//! An index record: 16 bytes, little-endian.
//!
//! ```text
//! byte  0      7 8        15
//!       payload k time     c     k: kind, c: CRC-8 of the other fifteen
//! ```
//!
//! The payload of data is a 32-bit position in the data file and a 24-bit length; of a gap, a
//! 56-bit count; of an end, the data file's size. Time is `CLOCK_REALTIME` in microseconds, 56
//! bits: good until the year 4253.

use model::observe::{GapReason, Stream};

/// Bytes of a record.
pub const RECORD: usize = 16;
/// The most bytes of one data record.
pub const MAX_BATCH: u32 = (1 << 24) - 1;
/// The most bytes that one gap record counts: 65,536 terabytes.
pub const MAX_GAP: u64 = LOW_56;

const LOW_56: u64 = (1 << 56) - 1;
/// Set where the bytes come from a terminal: read and written, not spliced.
const TERMINAL: u8 = 0x10;

/// What a record says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// Bytes of the data file.
    Data {
        /// The stream that the bytes were written to.
        stream: Stream,
        /// Through a terminal: these bytes can be lost between its buffer and the file.
        terminal: bool,
        /// Where in the data file.
        position: u32,
        /// How many, 1 to [`MAX_BATCH`]; of the last record: at most.
        length: u32,
    },
    /// Bytes that are not there.
    Gap {
        /// The reason that they are missing.
        reason: GapReason,
        /// How many, at most [`MAX_GAP`].
        bytes: u64,
    },
    /// Nothing follows.
    End {
        /// Of the data file.
        size: u32,
    },
}

/// A record of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The entry itself.
    pub entry: Entry,
    /// When it was read (or dropped), in microseconds; 56 bits are kept.
    pub time_us: u64,
}

impl Record {
    /// As it stands in the file. What doesn't fit its field is cut to the field's width.
    pub fn encode(&self) -> [u8; RECORD] {
        let (kind, payload) = match self.entry {
            Entry::Data {
                stream,
                terminal,
                position,
                length,
            } => {
                let flag = if terminal { TERMINAL } else { 0 };
                let length = u64::from(length.min(MAX_BATCH));
                (
                    stream_code(stream) | flag,
                    u64::from(position) | (length << 32),
                )
            }
            Entry::Gap { reason, bytes } => (reason_code(reason), bytes.min(MAX_GAP)),
            Entry::End { size } => (END, u64::from(size)),
        };
        let low = (payload & LOW_56) | (u64::from(kind) << 56);
        let high = self.time_us & LOW_56;
        let check = crc8(low, high);
        let words = u128::from(low) | (u128::from(high | (u64::from(check) << 56)) << 64);
        words.to_le_bytes()
    }

    /// `None`: not a record. That is how an index ends: cut, zeroed or torn.
    pub fn decode(bytes: &[u8; RECORD]) -> Option<Self> {
        let words = u128::from_le_bytes(*bytes);
        let low = u64::try_from(words & u128::from(u64::MAX)).ok()?;
        let top = u64::try_from(words >> 64).ok()?;
        let (high, check) = (top & LOW_56, top >> 56);
        if check != u64::from(crc8(low, high)) {
            return None;
        }
        let kind = u8::try_from(low >> 56).ok()?;
        Some(Self {
            entry: decode_entry(kind, low & LOW_56)?,
            time_us: high,
        })
    }
}

fn decode_entry(kind: u8, payload: u64) -> Option<Entry> {
    if let Some(reason) = reason_of(kind) {
        return Some(Entry::Gap {
            reason,
            bytes: payload,
        });
    }
    if kind == END {
        let size = u32::try_from(payload).ok()?;
        return Some(Entry::End { size });
    }
    let length = u32::try_from(payload >> 32).ok()?;
    let stream = stream_of(kind & !TERMINAL)?;
    (length > 0).then_some(Entry::Data {
        stream,
        terminal: kind & TERMINAL != 0,
        position: u32::try_from(payload & u64::from(u32::MAX)).ok()?,
        length,
    })
}

const END: u8 = 0x40;

fn stream_code(stream: Stream) -> u8 {
    match stream {
        Stream::Stdout => 1,
        Stream::Stderr => 2,
    }
}

fn stream_of(code: u8) -> Option<Stream> {
    match code {
        1 => Some(Stream::Stdout),
        2 => Some(Stream::Stderr),
        _ => None,
    }
}

fn reason_code(reason: GapReason) -> u8 {
    match reason {
        GapReason::Retention => 0x21,
        GapReason::DiskFull => 0x22,
        GapReason::PowerLoss => 0x23,
        GapReason::IoError => 0x24,
    }
}

fn reason_of(code: u8) -> Option<GapReason> {
    match code {
        0x21 => Some(GapReason::Retention),
        0x22 => Some(GapReason::DiskFull),
        0x23 => Some(GapReason::PowerLoss),
        0x24 => Some(GapReason::IoError),
        _ => None,
    }
}

/// CRC-8 (polynomial 0x07) of `low` and the low 56 bits of `high`; begun with ones, so zeros don't
/// pass.
fn crc8(low: u64, high: u64) -> u8 {
    let bytes = low.to_le_bytes();
    let more = high.to_le_bytes();
    let fifteen = bytes.iter().chain(more.iter().take(7));
    fifteen.fold(0xff, |crc, byte| {
        (0..8).fold(crc ^ byte, |crc, _| {
            if crc & 0x80 == 0 {
                crc << 1
            } else {
                (crc << 1) ^ 0x07
            }
        })
    })
}
