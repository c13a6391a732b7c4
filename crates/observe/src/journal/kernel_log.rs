// SPDX-License-Identifier: Apache-2.0
//! Takes the kernel's messages from `/dev/kmsg`. Where it came to is kept in the run directory, so
//! that the next daemon of the same boot goes on behind it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use runtime::watched::watch;
use rustix::fs::OFlags;
use tokio::io::Interest;

use super::desk::{Desk, Frames};
use super::kmsg;
use super::settle::Reader;

const DEVICE: &str = "/dev/kmsg";
/// A record is no longer: the kernel's own bound.
const LONGEST: usize = 8 << 10;
/// What the kernel holds of them: it keeps no larger buffer than one that its command line asks
/// for, which is hardly ever this large.
pub(super) const MOST: usize = 16 << 20;
/// Records between two writes of where it came to.
const EVERY: u64 = 64;

/// Where it came to.
struct Mark {
    path: PathBuf,
    next: u64,
    unwritten: u64,
}

impl Mark {
    fn read(path: PathBuf) -> Mark {
        let next = std::fs::read_to_string(&path).ok();
        let next = next.and_then(|it| it.trim().parse().ok()).unwrap_or(0);
        Mark {
            path,
            next,
            unwritten: 0,
        }
    }

    fn passed(&mut self, sequence: u64) {
        self.next = sequence.saturating_add(1);
        self.unwritten += 1;
    }

    fn write(&mut self) {
        if self.unwritten > 0 && std::fs::write(&self.path, self.next.to_string()).is_ok() {
            self.unwritten = 0;
        }
    }
}

/// Takes records for as long as the daemon runs.
///
/// # Errors
/// The device can't be opened or watched.
pub(super) async fn run(mark: &Path, desk: Rc<Desk>, mut reader: Reader) -> io::Result<()> {
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let device = OpenOptions::new()
        .read(true)
        .custom_flags(nonblocking)
        .open(DEVICE)?;
    let device = watch(device, Interest::READABLE)?;
    let mut mark = Mark::read(mark.to_owned());
    let mut buffer = vec![0; LONGEST];
    loop {
        reader.look(device.get_ref());
        let mut ready = tokio::select! {
            ready = device.readable() => ready?,
            () = reader.asked() => continue,
        };
        let read = ready.try_io(|it| {
            let mut file: &File = it.get_ref();
            file.read(&mut buffer)
        });
        match read {
            Ok(Ok(read)) => {
                reader.took(read);
                let record = kmsg::parse(buffer.get(..read).unwrap_or_default());
                if let Some(record) = record.filter(|it| it.sequence >= mark.next) {
                    mark.passed(record.sequence);
                    let mut frames = Frames::default();
                    desk.put(&record.entry, &mut frames);
                    desk.write(&mut frames).await;
                }
                if mark.unwritten >= EVERY {
                    mark.write();
                }
            }
            // Records were overwritten before they were read: the next ones are there.
            Ok(Err(error)) if error.raw_os_error() == Some(32) => {}
            Ok(Err(error)) => return Err(error),
            Err(_would_block) => mark.write(),
        }
        tokio::task::yield_now().await;
    }
}
