// SPDX-License-Identifier: Apache-2.0
//! Loop devices (loop(4)): a file as a disk. The device goes by itself with its last user, so a
//! file system that is mounted from it keeps it, and nothing is left to be undone after a crash.
//!
//! It knows neither what is in the file nor who wants it; that is `runtime`'s.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode};
use rustix::io::Errno;

use crate::error::check;
use crate::{Context, Error, Result};

/// Where a device is asked for.
const CONTROL: &str = "/dev/loop-control";
/// `LOOP_CTRL_MINOR` of the miscellaneous devices, `Documentation/admin-guide/devices.txt`.
const CONTROL_NUMBER: (u32, u32) = (10, 237);
/// `LOOP_MAJOR`.
const MAJOR: u32 = 7;
/// `LOOP_CTL_GET_FREE` of `linux/loop.h`: the number of a device that has no file.
const GET_FREE: libc::c_ulong = 0x4C82;
/// `LOOP_CONFIGURE`: a file and its settings in one step, since Linux 5.8.
const CONFIGURE: libc::c_ulong = 0x4C0A;
/// `LO_FLAGS_AUTOCLEAR`: it lets go of its file when no process and no mount has it open.
const AUTOCLEAR: u32 = 4;
/// `LO_FLAGS_DIRECT_IO`: what is written isn't kept in memory twice. Where the file's own file
/// system can't, the kernel goes on without.
const DIRECT_IO: u32 = 16;
/// So often another process may be quicker with the device that was free.
const TRIES: usize = 64;

/// `struct loop_info64`.
#[repr(C)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct Config {
    fd: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

/// A loop device that has a file, held open.
#[derive(Debug)]
pub struct Loop {
    /// Without a mount of it, it goes when this is closed.
    _device: OwnedFd,
    path: PathBuf,
}

impl Loop {
    /// A free device with this file, which is open for reading and writing.
    ///
    /// # Errors
    /// `ENOENT`, `ENXIO`, `ENODEV`: the kernel has no loop devices. `EPERM`: without
    /// `CAP_SYS_ADMIN`. `EBUSY`: other processes were quicker again and again.
    pub fn attach(file: impl AsFd) -> Result<Loop> {
        let control = open(
            Path::new(CONTROL),
            FileType::CharacterDevice,
            CONTROL_NUMBER,
        )?;
        let mut tries = 0;
        loop {
            tries += 1;
            match Loop::on_a_free_one(&control, &file) {
                Err(error) if error.errno() == libc::EBUSY && tries < TRIES => {}
                done => return done,
            }
        }
    }

    fn on_a_free_one(control: &File, file: &impl AsFd) -> Result<Loop> {
        // SAFETY: the request has no argument and answers a number.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), GET_FREE as _) };
        let number = check("ioctl(LOOP_CTL_GET_FREE)", number.into())?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let minor = u32::try_from(number).unwrap_or(u32::MAX);
        let device = OwnedFd::from(open(&path, FileType::BlockDevice, (MAJOR, minor))?);
        let config = Config {
            fd: file.as_fd().as_raw_fd().unsigned_abs(),
            block_size: 0,
            info: Info::with(AUTOCLEAR | DIRECT_IO),
            reserved: [0; 8],
        };
        // SAFETY: the request reads one `struct loop_config`, which is there for the whole call.
        let set = unsafe { libc::ioctl(device.as_raw_fd(), CONFIGURE as _, &raw const config) };
        check("ioctl(LOOP_CONFIGURE)", set.into()).map_err(|e| e.on(&path))?;
        Ok(Loop {
            _device: device,
            path,
        })
    }

    /// The device's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Info {
    const fn with(flags: u32) -> Info {
        Info {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            size_limit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags,
            file_name: [0; 64],
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        }
    }
}

/// Opens a device. Where its node isn't there it is made: by its number alone the kernel finds the
/// driver, and loads it. So it is without udev, and in a container with a `/dev` of its own.
fn open(path: &Path, kind: FileType, (major, minor): (u32, u32)) -> Result<File> {
    let open = || File::options().read(true).write(true).open(path);
    match open() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let device = rustix::fs::makedev(major, minor);
            let mode = Mode::RUSR | Mode::WUSR;
            match rustix::fs::mknodat(CWD, path, kind, mode, device) {
                Ok(()) | Err(Errno::EXIST) => open().call_on("open", path),
                Err(errno) => Err(Error::new("mknod", errno).on(path)),
            }
        }
        opened => opened.call_on("open", path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_the_kernels_sizes() {
        assert_eq!((size_of::<Info>(), size_of::<Config>()), (232, 304));
    }
}
