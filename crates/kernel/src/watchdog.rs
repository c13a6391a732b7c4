// SPDX-License-Identifier: Apache-2.0
//! The machine's watchdog (Linux `Documentation/watchdog/watchdog-api.rst`): a device that starts
//! the machine anew unless it is written to in time. It begins with its opening, and goes on when
//! the process that has it ends.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::check;
use crate::{Context, Result};

/// `WDIOC_SETTIMEOUT`: `_IOWR('W', 6, int)`, in seconds. The driver writes back what it took.
const SET_TIMEOUT: libc::c_ulong = 0xC004_5706;
/// Written before the device is closed, it stops the watchdog ("magic close").
const STOP: &[u8] = b"V";
/// Anything else is a sign of life.
const SIGN: &[u8] = b"\0";

/// A watchdog that counts.
#[derive(Debug)]
pub struct Watchdog {
    device: File,
    path: PathBuf,
}

impl Watchdog {
    /// Opens the device, by which it begins to count with the time of its driver.
    ///
    /// # Errors
    /// `ENOENT`: there is no such device. `EBUSY`: another process has it.
    pub fn start(path: &Path) -> Result<Watchdog> {
        let device = File::options().write(true).open(path);
        Ok(Watchdog {
            device: device.call_on("open", path)?,
            path: path.to_owned(),
        })
    }

    /// Sets after which time without a sign the machine starts anew; answers what the driver has
    /// made of it, which counts in its own steps.
    ///
    /// # Errors
    /// `EINVAL`: the device can't count so long or so short. `ENOTTY`, `EOPNOTSUPP`: it has one
    /// time alone.
    pub fn set_timeout(&self, timeout: Duration) -> Result<Duration> {
        let most = libc::c_int::MAX.unsigned_abs();
        let seconds = u32::try_from(timeout.as_secs())
            .unwrap_or(most)
            .clamp(1, most);
        let mut seconds = libc::c_int::try_from(seconds).unwrap_or(libc::c_int::MAX);
        let device = self.device.as_raw_fd();
        // SAFETY: the request reads and writes one `int`, which is there for the whole call.
        let result = unsafe { libc::ioctl(device, SET_TIMEOUT as _, &raw mut seconds) };
        check("ioctl(WDIOC_SETTIMEOUT)", result.into()).map_err(|e| e.on(&self.path))?;
        Ok(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
    }

    /// A sign of life: the time begins anew.
    ///
    /// # Errors
    /// Of the driver.
    pub fn sign(&self) -> Result<()> {
        (&self.device).write_all(SIGN).call_on("write", &self.path)
    }

    /// Stops it, where the kernel lets it be stopped (`nowayout`).
    ///
    /// # Errors
    /// Of the driver.
    pub fn stop(self) -> Result<()> {
        (&self.device).write_all(STOP).call_on("write", &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn a_device_that_is_not_there_and_one_that_is_no_watchdog_are_said() {
        let absent = Watchdog::start(Path::new("/dev/absent")).unwrap_err();
        assert!(absent.is_not_found(), "{absent}");
        let null = Watchdog::start(Path::new("/dev/null")).unwrap();
        let error = null.set_timeout(Duration::from_secs(5)).unwrap_err();
        assert!(error.is(Errno::NOTTY.raw_os_error()), "{error}");
        null.sign().unwrap();
        null.stop().unwrap();
    }
}
