// SPDX-License-Identifier: Apache-2.0
//! The lines before the first message (D-Bus Specification, "Authentication Protocol"). The kernel
//! says who the other end is; the lines only have to be said. No descriptors are passed.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{
    AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader,
};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// The longest line.
const LINE: u64 = 512;
/// Lines until the first message.
const LINES: usize = 16;
/// How long all of them may take.
const HANDSHAKE: Duration = Duration::from_secs(30);

fn wrong(words: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words)
}

async fn line(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<String> {
    let mut line = Vec::new();
    from.take(LINE).read_until(b'\n', &mut line).await?;
    let text = line
        .strip_suffix(b"\r\n")
        .ok_or_else(|| wrong("a line has no end"))?;
    String::from_utf8(text.to_vec()).map_err(|_| wrong("a line is no text"))
}

/// Lets a peer in whose uid the kernel has given.
///
/// # Errors
/// It doesn't keep to the protocol, or takes too long.
pub(crate) async fn serve(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    uid: u32,
    guid: &str,
) -> io::Result<()> {
    let served = tokio::time::timeout(HANDSHAKE, talk(from, to, uid, guid));
    served.await.map_err(|_| io::ErrorKind::TimedOut)?
}

async fn talk(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    uid: u32,
    guid: &str,
) -> io::Result<()> {
    if from.read_u8().await? != 0 {
        return Err(wrong("the first byte isn't zero"));
    }
    let own: String = uid
        .to_string()
        .bytes()
        .map(|b| format!("{b:02x}"))
        .collect();
    let mut accepted = false;
    for _ in 0..LINES {
        let line = line(from).await?;
        let mut words = line.split(' ');
        let ok = format!("OK {guid}\r\n");
        let answer = match (words.next().unwrap_or_default(), words.next(), words.next()) {
            ("BEGIN", ..) if accepted => return Ok(()),
            ("AUTH", Some("EXTERNAL"), None) => "DATA\r\n",
            ("AUTH", Some("EXTERNAL"), Some(hex)) if hex == own => {
                accepted = true;
                &ok
            }
            ("DATA", hex, None) if hex.is_none_or(|it| it.is_empty() || it == own) => {
                accepted = true;
                &ok
            }
            ("AUTH", ..) => "REJECTED EXTERNAL\r\n",
            _ => "ERROR\r\n",
        };
        to.write_all(answer.as_bytes()).await?;
    }
    Err(wrong("it doesn't come to an end"))
}

/// Connects to a bus.
///
/// # Errors
/// It isn't there, takes no client of this user, or takes too long.
pub(crate) async fn connect(path: &Path) -> io::Result<(BufReader<OwnedReadHalf>, OwnedWriteHalf)> {
    let connected = tokio::time::timeout(HANDSHAKE, handshake(path));
    connected.await.map_err(|_| io::ErrorKind::TimedOut)?
}

async fn handshake(path: &Path) -> io::Result<(BufReader<OwnedReadHalf>, OwnedWriteHalf)> {
    let (from, mut to) = UnixStream::connect(path).await?.into_split();
    let mut from = BufReader::new(from);
    let uid = rustix::process::geteuid().as_raw().to_string();
    let hex: String = uid.bytes().map(|b| format!("{b:02x}")).collect();
    to.write_all(format!("\0AUTH EXTERNAL {hex}\r\n").as_bytes())
        .await?;
    if !line(&mut from).await?.starts_with("OK ") {
        return Err(wrong("the bus takes no client of this user"));
    }
    to.write_all(b"BEGIN\r\n").await?;
    Ok((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn said(lines: &str, uid: u32) -> (io::Result<()>, String) {
        let mut answers = Vec::new();
        let mut from = BufReader::new(lines.as_bytes());
        let served = serve(&mut from, &mut answers, uid, "abc").await;
        (served, String::from_utf8(answers).unwrap())
    }

    #[tokio::test]
    async fn a_peer_says_what_the_kernel_has_said_or_nothing() {
        // What sd-bus sends, all at once; then what libdbus does.
        let (served, answers) = said(
            "\0AUTH EXTERNAL\r\nDATA\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n",
            0,
        )
        .await;
        served.unwrap();
        assert_eq!(answers, "DATA\r\nOK abc\r\nERROR\r\n");
        let (served, answers) = said("\0AUTH EXTERNAL 30\r\nBEGIN\r\n", 0).await;
        served.unwrap();
        assert_eq!(answers, "OK abc\r\n");
        for wrong in [
            "\0AUTH EXTERNAL 31\r\nBEGIN\r\n",
            "\0BEGIN\r\n",
            "xAUTH EXTERNAL 30\r\nBEGIN\r\n",
            "\0AUTH EXTERNAL 30\nBEGIN\r\n",
            "\0AUTH ANONYMOUS\r\nBEGIN\r\n",
        ] {
            assert!(said(wrong, 0).await.0.is_err(), "{wrong}");
        }
        let long = format!("\0AUTH {}\r\n", "x".repeat(600));
        assert!(said(&long, 0).await.0.is_err());
    }
}
