// SPDX-License-Identifier: Apache-2.0
//! Output in plain files: enough to see that every byte has a place to go. The exact store is observe's.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use futures_util::future::BoxFuture;
use model::error::Error;
use model::name::{Tenant, Uid};
use node::runtime::ports::{LogOwner, LogSource, LogTotals, Logs};

pub(crate) struct PlainLogs {
    pub(crate) dir: PathBuf,
    readers: Arc<Mutex<HashMap<Uid, Vec<JoinHandle<u64>>>>>,
}

impl PlainLogs {
    pub(crate) fn new(dir: PathBuf) -> Self {
        std::fs::create_dir_all(&dir).unwrap();
        Self {
            dir,
            readers: Arc::default(),
        }
    }
}

fn copy(from: OwnedFd, to: PathBuf) -> JoinHandle<u64> {
    std::thread::spawn(move || {
        let mut to = OpenOptions::new()
            .create(true)
            .append(true)
            .open(to)
            .unwrap();
        let mut from = File::from(from);
        let mut buffer = [0; 4096];
        let mut total = 0;
        // A terminal's master answers EIO when the last slave is closed.
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            to.write_all(&buffer[..n]).unwrap();
            total += n as u64;
        }
        total
    })
}

impl Logs for PlainLogs {
    fn attach(&self, owner: LogOwner, source: LogSource) -> BoxFuture<'static, Result<(), Error>> {
        let out = self.dir.join(format!("{}.out", owner.uid));
        let err = self.dir.join(format!("{}.err", owner.uid));
        let readers = match source {
            LogSource::Pipes { stdout, stderr } => vec![copy(stdout, out), copy(stderr, err)],
            LogSource::Terminal(master) => vec![copy(master, out)],
        };
        self.readers.lock().unwrap().insert(owner.uid, readers);
        Box::pin(async { Ok(()) })
    }

    fn finish(&self, uid: Uid) -> BoxFuture<'static, LogTotals> {
        let readers = self
            .readers
            .lock()
            .unwrap()
            .remove(&uid)
            .unwrap_or_default();
        Box::pin(async move {
            let totals = tokio::task::spawn_blocking(move || {
                readers
                    .into_iter()
                    .map(|reader| reader.join().unwrap())
                    .collect::<Vec<_>>()
            });
            let totals = totals.await.unwrap();
            LogTotals {
                stdout: totals.first().copied().unwrap_or(0),
                stderr: totals.get(1).copied().unwrap_or(0),
            }
        })
    }

    fn totals(&self, _: Uid) -> Option<LogTotals> {
        None
    }

    fn remove(&self, _: &Tenant, uid: Uid) -> BoxFuture<'static, ()> {
        let _ = std::fs::remove_file(self.dir.join(format!("{uid}.out")));
        let _ = std::fs::remove_file(self.dir.join(format!("{uid}.err")));
        Box::pin(async {})
    }
}
