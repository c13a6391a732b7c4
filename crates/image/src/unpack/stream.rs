// SPDX-License-Identifier: Apache-2.0
//! A layer's bytes on their way to the tar reader: unpacked as their first bytes say (gzip, zstd or
//! not packed at all), counted against a bound, and hashed for the diff id.
//!
//! Only one packing is taken off. A stream that is packed twice is refused by the tar reader, as
//! every other engine does.

use std::io::{self, BufRead, BufReader, Read};

use super::error::UnpackError;
use super::header::BLOCK;
use crate::digest::{Algorithm, Digest, Hasher};

/// The largest window of zstd that is taken, as a power of two: what `zstd` itself takes by
/// default, 128 MiB.
const ZSTD_WINDOW: u32 = 27;

/// Bytes that are read from the compressed stream at once.
const BUFFER: usize = 128 << 10;

/// The tar stream of a layer.
pub(crate) struct TarStream<'a> {
    source: Box<dyn Read + 'a>,
    hasher: Hasher,
    taken: u64,
    limit: u64,
}

impl<'a> TarStream<'a> {
    /// Looks at the first bytes. At most `limit` bytes may come out.
    pub(crate) fn open(
        mut input: impl Read + 'a,
        algorithm: Algorithm,
        limit: u64,
    ) -> Result<Self, UnpackError> {
        let mut magic = Vec::with_capacity(8);
        input
            .by_ref()
            .take(6)
            .read_to_end(&mut magic)
            .map_err(|error| broken(&error))?;
        let first = magic.clone();
        let input = BufReader::with_capacity(BUFFER, io::Cursor::new(magic).chain(input));
        Ok(Self {
            source: plain(&first, input)?,
            hasher: Hasher::new(algorithm),
            taken: 0,
            limit,
        })
    }

    /// Reads some bytes; 0 at the end.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, UnpackError> {
        let read = loop {
            match self.source.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other.map_err(|error| broken(&error))?,
            }
        };
        self.taken = self.taken.saturating_add(read as u64);
        if self.taken > self.limit {
            let limit = format!("{} bytes", self.limit);
            return Err(UnpackError::too_much("what is unpacked", limit));
        }
        self.hasher.update(buffer.get(..read).unwrap_or_default());
        Ok(read)
    }

    /// Reads the next block; `None` at the end of the stream.
    pub(crate) fn block(&mut self) -> Result<Option<[u8; BLOCK]>, UnpackError> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while let Some(rest) = block.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.read(rest)? {
                0 if filled == 0 => return Ok(None),
                0 => return Err(cut()),
                read => filled += read,
            }
        }
        Ok(Some(block))
    }

    /// Reads on to the end.
    pub(crate) fn drain(&mut self, buffer: &mut [u8]) -> Result<(), UnpackError> {
        while self.read(buffer)? > 0 {}
        Ok(())
    }

    /// How many bytes have come, and their digest.
    pub(crate) fn finish(self) -> (u64, Digest) {
        (self.taken, self.hasher.finish())
    }
}

/// Takes the packing off.
fn plain<'a>(first: &[u8], input: impl BufRead + 'a) -> Result<Box<dyn Read + 'a>, UnpackError> {
    let skippable = matches!(first, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]);
    match first {
        [0x1f, 0x8b, ..] => Ok(Box::new(flate2::bufread::MultiGzDecoder::new(input))),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => zstd(input),
        _ if skippable => zstd(input),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => Err(unknown("bzip2")),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Err(unknown("xz")),
        _ => Ok(Box::new(input)),
    }
}

fn zstd<'a>(input: impl BufRead + 'a) -> Result<Box<dyn Read + 'a>, UnpackError> {
    let open = || {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
        decoder.window_log_max(ZSTD_WINDOW)?;
        Ok(Box::new(decoder) as Box<dyn Read + 'a>)
    };
    open().map_err(|error| broken(&error))
}

fn unknown(packing: &str) -> UnpackError {
    UnpackError::stream(format!(
        "it is packed with {packing}: OCI has gzip and zstd alone"
    ))
}

/// The stream ends within an entry.
pub(crate) fn cut() -> UnpackError {
    UnpackError::stream("its stream is cut off")
}

fn broken(error: &io::Error) -> UnpackError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => cut(),
        _ => UnpackError::stream(format!("its stream is broken: {error}")),
    }
}
