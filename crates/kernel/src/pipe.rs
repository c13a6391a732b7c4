// SPDX-License-Identifier: Apache-2.0
//! Pipes: making them, their size, and moving what is in them to a file without touching it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};

use crate::{Context, Error, Result};

/// A pipe, both ends close-on-exec and blocking: (read end, write end).
///
/// # Errors
/// `EMFILE`, `ENFILE`: the process or the machine has no descriptors left, or the user has too many
/// pages in pipes (`fs.pipe-user-pages-hard`).
pub fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC).call("pipe2")
}

/// Makes the descriptor's *open file* non-blocking, or blocking again: every copy of the
/// descriptor, in any process, is concerned.
///
/// # Errors
/// `EBADF`: an `O_PATH` descriptor.
pub fn set_nonblocking(fd: impl AsFd, nonblocking: bool) -> Result<()> {
    rustix::io::ioctl_fionbio(fd, nonblocking).call("ioctl(FIONBIO)")
}

/// Asks for room for `bytes` bytes and returns what it has now.
///
/// # Errors
/// `EPERM`: more than `fs.pipe-max-size` (1 MiB), or than the user's share of pipe pages, without
/// `CAP_SYS_RESOURCE`. `EBUSY`: more is in it. `EBADF`: no pipe.
pub fn set_size(pipe: impl AsFd, bytes: usize) -> Result<usize> {
    rustix::pipe::fcntl_setpipe_size(pipe, bytes).call("fcntl(F_SETPIPE_SZ)")
}

/// How many bytes it has room for, if every write fills whole pages.
///
/// # Errors
/// `EBADF`: no pipe.
pub fn size(pipe: impl AsFd) -> Result<usize> {
    rustix::pipe::fcntl_getpipe_size(pipe).call("fcntl(F_GETPIPE_SZ)")
}

/// How many bytes are in it now.
///
/// # Errors
/// `ENOTTY`: a kind of file that doesn't count its bytes.
pub fn readable_bytes(pipe: impl AsFd) -> Result<u64> {
    rustix::io::ioctl_fionread(pipe).call("ioctl(FIONREAD)")
}

/// The result of a [`splice_to_file`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spliced {
    /// Moved this many bytes; at least 1.
    Moved(usize),
    /// The pipe is empty and has writers.
    Empty,
    /// The pipe is empty and all its writers are gone.
    End,
}

/// Moves at most `length` bytes from a pipe to a file at `offset`, never waiting for the pipe.
///
/// Exact under `SIGKILL`: a byte is in the pipe or in the file. The file should have one writer.
///
/// # Errors
/// `ENOSPC`, `EDQUOT`, `EIO`, `EFBIG`: the bytes stay in the pipe. `EINVAL`: the file is
/// `O_APPEND`, or its file system has no `splice`.
pub fn splice_to_file(
    pipe: impl AsFd,
    file: impl AsFd,
    offset: u64,
    length: usize,
) -> Result<Spliced> {
    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
    let mut at = offset;
    let moved = rustix::io::retry_on_intr(|| {
        rustix::pipe::splice(
            pipe.as_fd(),
            None,
            file.as_fd(),
            Some(&mut at),
            length,
            flags,
        )
    });
    match moved {
        Ok(0) => Ok(Spliced::End),
        Ok(count) => Ok(Spliced::Moved(count)),
        Err(Errno::AGAIN) => Ok(Spliced::Empty),
        Err(errno) => Err(Error::new("splice", errno)),
    }
}

/// Reads and throws away what is in a pipe, at most `length` bytes, never waiting. Returns how many
/// bytes they were.
///
/// # Errors
/// `ENOTTY`: a kind of file that doesn't count its bytes.
pub fn discard(pipe: impl AsFd, length: usize) -> Result<usize> {
    let mut buffer = [0u8; 16 * 1024];
    let mut total = 0;
    while total < length {
        let present = usize::try_from(readable_bytes(&pipe)?).unwrap_or(usize::MAX);
        let want = present.min(length - total).min(buffer.len());
        if want == 0 {
            break;
        }
        let slice = buffer.get_mut(..want).unwrap_or_default();
        let read = rustix::io::retry_on_intr(|| rustix::io::read(pipe.as_fd(), &mut *slice));
        total += read.call("read")?;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    #[test]
    fn what_is_in_a_pipe_moves_to_a_file_s_offset() {
        let (reader, writer) = pipe().unwrap();
        let file = tempfile::tempfile().unwrap();
        assert_eq!(
            splice_to_file(&reader, &file, 0, 100).unwrap(),
            Spliced::Empty
        );
        let mut writer = File::from(writer);
        writer.write_all(b"hello world").unwrap();
        assert_eq!(readable_bytes(&reader).unwrap(), 11);
        assert_eq!(
            splice_to_file(&reader, &file, 3, 5).unwrap(),
            Spliced::Moved(5)
        );
        assert_eq!(
            splice_to_file(&reader, &file, 8, 100).unwrap(),
            Spliced::Moved(6)
        );
        drop(writer);
        assert_eq!(
            splice_to_file(&reader, &file, 14, 100).unwrap(),
            Spliced::End
        );
        let mut text = [1; 14];
        file.read_exact_at(&mut text, 0).unwrap();
        assert_eq!(&text, b"\0\0\0hello world");
    }

    #[test]
    fn a_full_pipe_can_be_emptied_without_a_place_to_put_it() {
        let (reader, writer) = pipe().unwrap();
        assert!(set_size(&writer, 256 * 1024).unwrap() >= 256 * 1024);
        assert_eq!(size(&reader).unwrap(), 256 * 1024);
        File::from(writer).write_all(&[7; 100_000]).unwrap();
        assert_eq!(discard(&reader, 60_000).unwrap(), 60_000);
        assert_eq!(discard(&reader, usize::MAX).unwrap(), 40_000);
        assert_eq!(discard(&reader, usize::MAX).unwrap(), 0);
    }
}
