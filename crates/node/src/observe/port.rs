// SPDX-License-Identifier: Apache-2.0
//! The log store as the runtime asks for it.

use futures_util::future::BoxFuture;
use model::error::Error;
use model::name::{Tenant, Uid};
use model::observe::Stream;

use super::{LogKey, Logs};
use crate::runtime::ports::{LogOwner, LogSource, LogTotals, Logs as Port};

impl Port for Logs {
    fn attach(&self, owner: LogOwner, source: LogSource) -> BoxFuture<'static, Result<(), Error>> {
        let logs = self.clone();
        let sources = match source {
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
            match logs.drained(uid).await {
                Ok(all) => LogTotals {
                    stdout: all.stdout_bytes,
                    stderr: all.stderr_bytes,
                },
                Err(error) => {
                    tracing::warn!(%uid, %error, "the end of a log could not be marked");
                    LogTotals::default()
                }
            }
        })
    }

    fn totals(&self, uid: Uid) -> Option<LogTotals> {
        let (stdout, stderr) = self.totals_of(&uid)?;
        Some(LogTotals { stdout, stderr })
    }

    fn remove(&self, tenant: &Tenant, uid: Uid) -> BoxFuture<'static, ()> {
        let logs = self.clone();
        let key = LogKey {
            tenant: tenant.clone(),
            uid,
        };
        Box::pin(async move {
            if let Err(error) = logs.remove(&key).await {
                tracing::warn!(%uid, %error, "a log stays behind");
            }
        })
    }
}
