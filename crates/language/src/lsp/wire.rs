// SPDX-License-Identifier: Apache-2.0
//! Messages on a pair of streams: the frames of the language server protocol. A frame that holds
//! no message is told apart from the end of the stream, so that one bad message ends nothing.

use std::io::{self, BufRead, Write};

use lsp_server::Message;

/// The largest message in bytes: a file at its limit with room for JSON's escapes.
const LARGEST: usize = 32 << 20;

/// The longest line of a header in bytes.
const LONGEST_HEADER: u64 = 4096;

/// What was read.
pub(super) enum Frame {
    Message(Message),
    /// A whole frame that is no message, and why.
    Bad(String),
}

/// The next frame; `None` at the end.
pub(super) fn read(input: &mut impl BufRead) -> io::Result<Option<Frame>> {
    let Some(length) = header(input)? else {
        return Ok(None);
    };
    if length > LARGEST {
        let mut rest = io::Read::take(&mut *input, length as u64);
        io::copy(&mut rest, &mut io::sink())?;
        return Ok(Some(Frame::Bad(format!(
            "a message of {length} bytes; at most {LARGEST} are read"
        ))));
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body)?;
    Ok(Some(match serde_json::from_slice(&body) {
        Ok(message) => Frame::Message(message),
        Err(error) => Frame::Bad(error.to_string()),
    }))
}

/// The length that the header says.
fn header(input: &mut impl BufRead) -> io::Result<Option<usize>> {
    let mut length = None;
    loop {
        let mut line = Vec::new();
        let mut limited = io::Read::take(&mut *input, LONGEST_HEADER);
        let read = limited.read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim();
        if line.is_empty() {
            match length {
                Some(length) => return Ok(Some(length)),
                None => continue,
            }
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok();
        }
    }
}

/// Writes a message whole.
pub(super) fn write(output: &mut impl Write, message: Message) -> io::Result<()> {
    message.write(output)?;
    output.flush()
}
