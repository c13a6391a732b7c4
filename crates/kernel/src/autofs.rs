// SPDX-License-Identifier: Apache-2.0
//! Mount points that mount when a process uses them: the kernel's autofs, protocol 5, direct mounts
//! (Documentation/filesystems/autofs.rst). Who uses one waits in the kernel; its pipe says so, with
//! a number; an answer to that lets the process go on.
//!
//! The processes of one group, the mounting one's, pass without being held up: they mount there.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};

use crate::{Context, Error, Result};

/// Where mounts of autofs are spoken with.
const DEVICE: &str = "/dev/autofs";
/// `struct autofs_v5_packet`, with its padding.
pub const PACKET: usize = 304;

/// What the kernel says on the pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packet {
    /// A process wants what is to be mounted there.
    Missing {
        /// By which the process is answered.
        token: u32,
    },
    /// What is mounted there was not used for long, and is to be unmounted.
    Expired {
        /// By which the kernel is answered.
        token: u32,
    },
}

impl Packet {
    /// Reads one; `None`: it is of another protocol.
    pub fn parse(bytes: &[u8]) -> Option<Packet> {
        let number = |at: usize| -> Option<u32> {
            Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
        };
        let (version, kind, token) = (number(0)?, number(4)?, number(8)?);
        match (bytes.len(), version, kind) {
            (PACKET, 5, 5) => Some(Packet::Missing { token }),
            (PACKET, 5, 6) => Some(Packet::Expired { token }),
            _ => None,
        }
    }
}

/// Mounts one at `place`. What the kernel says is written to `pipe`; the caller's group passes.
///
/// # Errors
/// `ENODEV`: the kernel has no autofs. Those of mount(2).
pub fn mount_at(place: &Path, pipe: impl AsFd) -> Result<()> {
    let fd = pipe.as_fd().as_raw_fd();
    let options = format!("fd={fd},minproto=5,maxproto=5,direct");
    let options = std::ffi::CString::new(options).map_err(|_| Error::invalid("mount", "NUL"))?;
    mount(
        "aurae",
        place,
        "autofs",
        MountFlags::empty(),
        options.as_c_str(),
    )
    .call_on("mount(autofs)", place)
}

/// `struct autofs_dev_ioctl`, and room for a path.
#[repr(C)]
struct Request {
    version: [u32; 2],
    size: u32,
    mount: i32,
    arguments: [u32; 2],
    path: [u8; 256],
}

/// The part of it without a path.
const HEAD: u32 = 24;

/// A mount of autofs, spoken with.
#[derive(Debug)]
pub struct Control {
    device: File,
    mount: OwnedFd,
}

const OPEN_MOUNT: u8 = 0x74;
const READY: u8 = 0x76;
const FAIL: u8 = 0x77;
const TIMEOUT: u8 = 0x7a;
const EXPIRE: u8 = 0x7c;

impl Control {
    /// Opens the mount at `place`, of the file system of that number.
    ///
    /// # Errors
    /// `ENOENT`: there is no such one, or no /dev/autofs. `ENAMETOOLONG`: more than 255 bytes.
    pub fn open(place: &Path, device_number: u32) -> Result<Control> {
        let device = File::options().read(true).open(DEVICE);
        let device = device.call_on("open", Path::new(DEVICE))?;
        let bytes = place.as_os_str().as_bytes();
        let mut request = Request::new(-1, [device_number, 0]);
        let Some(room) = request.path.get_mut(..bytes.len()) else {
            return Err(Error::new("ioctl(autofs)", Errno::NAMETOOLONG).on(place));
        };
        room.copy_from_slice(bytes);
        if bytes.len() >= request.path.len() {
            return Err(Error::new("ioctl(autofs)", Errno::NAMETOOLONG).on(place));
        }
        request.size = HEAD + u32::try_from(bytes.len() + 1).unwrap_or(u32::MAX);
        request
            .send(&device, OPEN_MOUNT)
            .call_on("ioctl(AUTOFS_OPENMOUNT)", place)?;
        // SAFETY: the kernel has just put this descriptor into this process, for this request.
        let mount = unsafe { std::os::fd::FromRawFd::from_raw_fd(request.mount) };
        Ok(Control { device, mount })
    }

    fn ask(&self, what: u8, arguments: [u32; 2]) -> std::result::Result<(), Errno> {
        Request::new(self.mount.as_raw_fd(), arguments).send(&self.device, what)
    }

    /// Lets the processes that wait under that number go on.
    ///
    /// # Errors
    /// `EINVAL`: no process waits under it.
    pub fn ready(&self, token: u32) -> Result<()> {
        self.ask(READY, [token, 0]).call("ioctl(AUTOFS_READY)")
    }

    /// Has what those processes wanted fail, with that error's number.
    ///
    /// # Errors
    /// `EINVAL`: no process waits under it.
    pub fn fail(&self, token: u32, errno: i32) -> Result<()> {
        let status = (-errno.abs()).cast_unsigned();
        self.ask(FAIL, [token, status]).call("ioctl(AUTOFS_FAIL)")
    }

    /// After which time of no use [`Self::expire`] finds something.
    ///
    /// # Errors
    /// Those of the descriptor.
    pub fn set_timeout(&self, time: Duration) -> Result<()> {
        let seconds = time.as_secs();
        let low = u32::try_from(seconds & 0xffff_ffff).unwrap_or(u32::MAX);
        let high = u32::try_from(seconds >> 32).unwrap_or(0);
        let words = if cfg!(target_endian = "little") {
            [low, high]
        } else {
            [high, low]
        };
        self.ask(TIMEOUT, words).call("ioctl(AUTOFS_TIMEOUT)")
    }

    /// Has the kernel look whether what is mounted was unused for that time; where it was, the pipe
    /// says so, and this waits until that was answered. Whether it was.
    ///
    /// # Errors
    /// What the answer was.
    pub fn expire(&self) -> Result<bool> {
        match self.ask(EXPIRE, [0, 0]) {
            Ok(()) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(errno) => Err(Error::new("ioctl(AUTOFS_EXPIRE)", errno)),
        }
    }
}

impl Request {
    fn new(mount: i32, arguments: [u32; 2]) -> Request {
        Request {
            version: [1, 0],
            size: HEAD,
            mount,
            arguments,
            path: [0; 256],
        }
    }

    fn send(&mut self, device: &File, what: u8) -> std::result::Result<(), Errno> {
        // _IOWR(0x93, what, struct autofs_dev_ioctl)
        let request = (3 << 30) | (HEAD << 16) | (0x93 << 8) | u32::from(what);
        let (fd, room) = (device.as_raw_fd(), &raw mut *self);
        // SAFETY: the structure has the kernel's layout; it reads `size` bytes of it, which are
        // there, and writes the first 24.
        match unsafe { libc::ioctl(fd, request as libc::Ioctl, room) } {
            0.. => Ok(()),
            _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_of_the_protocol_is_read() {
        let packet = |version: u32, kind: u32| {
            let mut bytes = vec![0; PACKET];
            bytes[..4].copy_from_slice(&version.to_ne_bytes());
            bytes[4..8].copy_from_slice(&kind.to_ne_bytes());
            bytes[8..12].copy_from_slice(&7_u32.to_ne_bytes());
            Packet::parse(&bytes)
        };
        assert_eq!(packet(5, 5), Some(Packet::Missing { token: 7 }));
        assert_eq!(packet(5, 6), Some(Packet::Expired { token: 7 }));
        assert_eq!(packet(5, 3), None);
        assert_eq!(packet(4, 5), None);
        assert_eq!(Packet::parse(&[0; 12]), None);
        assert_eq!(size_of::<Request>(), 24 + 256);
        assert_eq!(std::mem::offset_of!(Request, path), 24);
    }
}
