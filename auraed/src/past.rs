// SPDX-License-Identifier: Apache-2.0
//! Wires the unit manager's port for what units have printed to the store of logs: which log, and
//! which fields the lines have, the same as `journalctl` gives to those of runs that are there.
//! Called by `serve`.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use model::error::Error;
use model::name::Uid;
use model::status::ExecutableStatus;
use observe::Logs;
use observe::journal::{PastLog, PastRun, Printer, keep};
use schedule::unit::{Past, Printed, UnitName};

/// See the module.
pub(crate) struct Store {
    logs: Logs,
}

impl Store {
    pub(crate) fn of(logs: &Logs) -> Arc<dyn Past> {
        Arc::new(Store { logs: logs.clone() })
    }
}

impl Past for Store {
    fn keep(
        &self,
        unit: &UnitName,
        is_gone: bool,
        runs: Vec<Vec<ExecutableStatus>>,
    ) -> BoxFuture<'static, Result<Option<Uid>, Error>> {
        let has_own = !is_gone || unit.instance().is_some();
        let log = match has_own {
            true => PastLog::of(unit.as_str()),
            false => PastLog::of_gone(),
        };
        let host = host();
        let run = |status: &ExecutableStatus| {
            Some(PastRun {
                uid: status.meta.uid,
                printer: Arc::new(Lines {
                    unit: unit.as_str().to_owned(),
                    path: status.meta.path.to_string(),
                    host: host.clone(),
                    printed: Printed::of(status)?,
                }),
            })
        };
        let runs = runs
            .iter()
            .map(|activation| activation.iter().filter_map(run).collect())
            .collect();
        let logs = self.logs.clone();
        let unit = unit.as_str().to_owned();
        Box::pin(async move { keep(&logs, log, &unit, runs).await })
    }
}

/// The machine's name without a domain, as syslog has it.
fn host() -> String {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy();
    name.split('.').next().unwrap_or_default().to_owned()
}

/// What the lines of one run are.
struct Lines {
    unit: String,
    path: String,
    host: String,
    printed: Printed,
}

impl Printer for Lines {
    fn fields(&self, line: &[u8]) -> Vec<(String, Vec<u8>)> {
        let (priority, message) = self.printed.line(line);
        let number = |number: u8| number.to_string().into_bytes();
        let text = |text: &str| text.as_bytes().to_vec();
        let mut fields = vec![
            ("PRIORITY", number(priority)),
            ("SYSLOG_FACILITY", number(self.printed.facility)),
            ("SYSLOG_IDENTIFIER", text(&self.printed.identifier)),
            ("_TRANSPORT", text("stdout")),
            ("_SYSTEMD_UNIT", text(&self.unit)),
            ("_AURAE_PATH", text(&self.path)),
            ("_HOSTNAME", text(&self.host)),
            ("_BOOT_ID", text(&self.printed.boot_id)),
            ("MESSAGE", message.to_vec()),
        ];
        fields.retain(|(name, value)| *name != "_BOOT_ID" || !value.is_empty());
        let named = fields.into_iter();
        named
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}
