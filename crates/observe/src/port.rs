// SPDX-License-Identifier: Apache-2.0
//! The log store as the runtime wants it: the runtime's port `Logs`, on top of the handle.

use std::os::fd::OwnedFd;

use futures_util::future::BoxFuture;
use model::error::Error;
use model::name::{Tenant, Uid};
use model::observe::{LogMessage, Stream};

use super::folder::LogKey;
use super::logs::Logs;
use super::read::ReadOptions;
use runtime::ports::{self, LogOwner, LogSource, LogTotals};

impl ports::Logs for Logs {
    fn attach(&self, owner: LogOwner, source: LogSource) -> BoxFuture<'static, Result<(), Error>> {
        let logs = self.clone();
        let sources: Vec<(Stream, OwnedFd)> = match source {
            LogSource::Pipes { stdout, stderr } => {
                vec![(Stream::Stdout, stdout), (Stream::Stderr, stderr)]
            }
            LogSource::Terminal(master) => vec![(Stream::Stdout, master)],
        };
        Box::pin(async move {
            let key = LogKey {
                tenant: owner.tenant,
                uid: owner.uid,
            };
            logs.attach(key, sources, &owner.policy).await
        })
    }

    fn finish(&self, uid: Uid) -> BoxFuture<'static, LogTotals> {
        let logs = self.clone();
        Box::pin(async move {
            let known = logs.attached(&uid);
            let (stdout, stderr) = match logs.drained(uid).await {
                Ok(drained) => (drained.stdout_bytes, drained.stderr_bytes),
                Err(error) => {
                    tracing::error!(%uid, %error, "a log was not ended as it should");
                    known
                        .map(|known| logs.last_totals(known))
                        .unwrap_or_default()
                }
            };
            LogTotals { stdout, stderr }
        })
    }

    fn totals(&self, uid: Uid) -> Option<LogTotals> {
        let (stdout, stderr) = self.stored(&uid)?;
        Some(LogTotals { stdout, stderr })
    }

    fn tail(
        &self,
        tenant: &Tenant,
        uid: Uid,
        most: usize,
    ) -> BoxFuture<'static, Result<Vec<u8>, Error>> {
        let logs = self.clone();
        let key = LogKey {
            tenant: tenant.clone(),
            uid,
        };
        Box::pin(async move {
            let end = logs.end_offset(&key).await?;
            let options = ReadOptions {
                from: Some(end.saturating_sub(u64::try_from(most).unwrap_or(u64::MAX))),
                ..ReadOptions::default()
            };
            let mut reader = logs.read(&key, options)?;
            let mut last = Vec::new();
            // One that ends where it ended then: it doesn't follow.
            while let Some((message, _)) = reader.next().await? {
                if let LogMessage::Data(data) = message {
                    last.extend(data.data);
                    let more = last.len().saturating_sub(most);
                    last.drain(..more);
                }
            }
            Ok(last)
        })
    }

    fn remove(&self, tenant: &Tenant, uid: Uid) -> BoxFuture<'static, ()> {
        let logs = self.clone();
        let key = LogKey {
            tenant: tenant.clone(),
            uid,
        };
        Box::pin(async move {
            if let Err(error) = logs.remove(&key).await {
                tracing::error!(%uid, %error, "the log of a forgotten executable stays behind");
            }
        })
    }
}
