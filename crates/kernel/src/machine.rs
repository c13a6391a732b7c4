// SPDX-License-Identifier: Apache-2.0
//! The machine as a whole: what it is, its name, power, kernel modules, entropy.

use std::ffi::CStr;
use std::fs::File;
use std::path::Path;

use rustix::io::Errno;
use rustix::rand::GetRandomFlags;
use rustix::system::RebootCommand;

use crate::error::check;
use crate::{Context, Error, Result};

/// The running kernel and the host's name (uname(2)).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Uname {
    /// The host's name in the caller's UTS namespace.
    pub hostname: String,
    /// The kernel's release (`6.1.0-18-cloud-amd64`).
    pub release: String,
    /// The kernel's build: number, options and date.
    pub version: String,
    /// The hardware's name (`x86_64`).
    pub machine: String,
}

/// The running kernel and the host's name.
pub fn uname() -> Uname {
    let name = rustix::system::uname();
    let text = |s: &CStr| s.to_string_lossy().into_owned();
    Uname {
        hostname: text(name.nodename()),
        release: text(name.release()),
        version: text(name.version()),
        machine: text(name.machine()),
    }
}

/// Memory, load and uptime of the machine (sysinfo(2)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sysinfo {
    /// Since the machine's start, in seconds.
    pub uptime_s: u64,
    /// All usable memory, in bytes.
    pub memory_bytes: u64,
    /// Memory in no use at all, in bytes (see `MemAvailable` of `/proc/meminfo` for what can be
    /// had).
    pub free_bytes: u64,
    /// All swap, in bytes.
    pub swap_bytes: u64,
    /// Load over 1, 5 and 15 minutes, times 1,000.
    pub load_milli: [u64; 3],
    /// Processes and threads now.
    pub tasks: u16,
}

/// Asks the kernel for [`Sysinfo`], as of now.
pub fn sysinfo() -> Sysinfo {
    let info = rustix::system::sysinfo();
    let unit = u64::from(info.mem_unit);
    Sysinfo {
        uptime_s: u64::try_from(info.uptime).unwrap_or(0),
        memory_bytes: info.totalram.saturating_mul(unit),
        free_bytes: info.freeram.saturating_mul(unit),
        swap_bytes: info.totalswap.saturating_mul(unit),
        load_milli: info.loads.map(|load| load.saturating_mul(1000) >> 16),
        tasks: info.procs,
    }
}

/// Sets the host's name in the caller's UTS namespace (at most 64 bytes).
///
/// # Errors
/// `EINVAL`: more than 64 bytes. `EPERM`: without `CAP_SYS_ADMIN` in the user namespace of the UTS
/// namespace.
pub fn set_hostname(name: &str) -> Result<()> {
    rustix::system::sethostname(name.as_bytes())
        .map_err(|errno| Error::new("sethostname", errno).about(name.to_owned()))
}

/// How the machine ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Power {
    /// The power is switched off.
    Off,
    /// Through the firmware, again.
    Restart,
    /// The machine stops; the power stays on.
    Halt,
    /// Into the kernel that was loaded before. `EINVAL` where none was.
    Kexec,
}

/// Ends the machine at once: no process is stopped, nothing is synced. In a pid namespace that is
/// not the initial one it ends the namespace's init instead. Returns only on failure, or from
/// [`Power::Halt`] on some machines.
///
/// # Errors
/// `EPERM`: without `CAP_SYS_BOOT`. `EINVAL`: [`Power::Kexec`] without a loaded kernel, or in a pid
/// namespace that is not the initial one.
pub fn power(how: Power) -> Result<()> {
    let command = match how {
        Power::Off => RebootCommand::PowerOff,
        Power::Restart => RebootCommand::Restart,
        Power::Halt => RebootCommand::Halt,
        Power::Kexec => RebootCommand::Kexec,
    };
    rustix::system::reboot(command).call("reboot")
}

/// Has Ctrl-Alt-Del send `SIGINT` to PID 1 instead of restarting at once.
///
/// # Errors
/// `EPERM`: without `CAP_SYS_BOOT`. `EINVAL`: in a pid namespace that is not the initial one.
pub fn catch_ctrl_alt_del() -> Result<()> {
    rustix::system::reboot(RebootCommand::CadOff).call("reboot(CAD_OFF)")
}

/// Writes everything that is dirty in all file systems; returns when it is done.
pub fn sync() {
    rustix::fs::sync();
}

/// Loads a kernel module. One that is loaded already (or built in under the same name) counts as
/// loaded.
///
/// # Errors
/// `ENOENT`: there is no such file, or the module needs a symbol of one that isn't loaded: load in
/// the order of dependencies. `ENOEXEC`: it isn't a module of this kernel. `EPERM`: without
/// `CAP_SYS_MODULE`, or modules are disabled. `EKEYREJECTED`: the kernel wants a signature.
/// `EOPNOTSUPP`: the kernel can't decompress modules.
pub fn load_module(path: &Path, parameters: &CStr) -> Result<()> {
    const COMPRESSED: libc::c_int = 4;
    let file = File::open(path).call_on("open", path)?;
    let compressed = path.extension().is_some_and(|e| e != "ko");
    let flags = if compressed { COMPRESSED } else { 0 };
    match rustix::system::finit_module(&file, parameters, flags) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(Error::new("finit_module", errno).on(path)),
    }
}

/// Fills a buffer with random bytes; waits until the kernel's generator is ready.
///
/// # Errors
/// None of the kernel itself; a seccomp filter may refuse the call.
pub fn random(buffer: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let got = rustix::io::retry_on_intr(|| {
            rustix::rand::getrandom(&mut *rest, GetRandomFlags::empty())
        });
        filled += got.call("getrandom")?;
    }
    Ok(())
}

/// Whether the kernel's generator is ready, so that [`random`] doesn't wait.
///
/// # Errors
/// None of the kernel itself; a seccomp filter may refuse the call.
pub fn is_random_ready() -> Result<bool> {
    match rustix::rand::getrandom(&mut [0u8; 1], GetRandomFlags::NONBLOCK) {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN) => Ok(false),
        Err(errno) => Err(Error::new("getrandom", errno)),
    }
}

/// Mixes bytes kept from the last boot (at most 512) into the kernel's generator. `credit`: they
/// count as random, which they only do where they were written by this machine and are never used
/// twice.
///
/// # Errors
/// `EPERM`: without `CAP_SYS_ADMIN`, credited or not. `ENOENT`: there is no `/dev/urandom`.
pub fn seed_random(bytes: &[u8], credit: bool) -> Result<()> {
    const MAX: usize = 512;
    // _IOW('R', 0x03, int[2])
    const RNDADDENTROPY: libc::c_ulong = 0x4008_5203;
    #[repr(C)]
    struct PoolInfo {
        entropy_bits: libc::c_int,
        size: libc::c_int,
        bytes: [u8; MAX],
    }
    let size = libc::c_int::try_from(bytes.len().min(MAX)).unwrap_or(0);
    let mut info = PoolInfo {
        entropy_bits: 0,
        size,
        bytes: [0; MAX],
    };
    if credit {
        info.entropy_bits = size.saturating_mul(8);
    }
    for (to, from) in info.bytes.iter_mut().zip(bytes) {
        *to = *from;
    }
    let path = Path::new("/dev/urandom");
    let device = File::options()
        .write(true)
        .open(path)
        .call_on("open", path)?;
    use std::os::fd::AsRawFd;
    // SAFETY: the structure has the layout that the request reads, `size` bytes of it are
    // initialised.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), RNDADDENTROPY as _, &raw const info) };
    check("ioctl(RNDADDENTROPY)", result.into()).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_described() {
        let name = uname();
        assert!(
            name.release.contains('.') && !name.machine.is_empty(),
            "{name:?}"
        );
        let info = sysinfo();
        assert!(
            info.memory_bytes > info.free_bytes && info.uptime_s > 0,
            "{info:?}"
        );
    }

    #[test]
    fn random_bytes_are_not_all_the_same() {
        let (mut a, mut b) = ([0; 64], [0; 64]);
        random(&mut a).unwrap();
        random(&mut b).unwrap();
        assert!(a != b && is_random_ready().unwrap());
    }

    #[test]
    fn a_file_that_is_no_module_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "not a module").unwrap();
        let error = load_module(file.path(), c"").unwrap_err();
        assert_eq!(error.call(), "finit_module");
    }
}
