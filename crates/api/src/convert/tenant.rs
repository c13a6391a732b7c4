// SPDX-License-Identifier: Apache-2.0
//! Quotas on the wire: a field of `Quotas` per quota of the model, as people write amounts.

use std::collections::BTreeMap;

use model::error::Result;
use model::quota::{Amount, Quota};

use crate::tenant::v0 as wire;

/// Gives a quota its default again.
const DEFAULT: &str = "default";

macro_rules! fields {
    ($($quota:ident = $field:ident,)*) => {
        /// A message's field of each quota.
        fn texts(message: wire::Quotas) -> Vec<(Quota, Option<String>)> {
            vec![$((Quota::$quota, message.$field),)*]
        }

        /// The message with one field set.
        fn put(message: &mut wire::Quotas, quota: Quota, text: String) {
            match quota { $(Quota::$quota => message.$field = Some(text),)* }
        }
    };
}

fields! {
    MemoryMax = memory_max,
    MemoryHigh = memory_high,
    MemoryMin = memory_min,
    CpuMax = cpu_max,
    CpuWeight = cpu_weight,
    Pids = pids,
    IoWeight = io_weight,
    Tmpfs = tmpfs,
    Disk = disk,
    Cells = cells,
    Executables = executables,
    SpecBytes = spec_bytes,
    Creations = creations,
    Ids = ids,
    Connections = connections,
    RequestBytes = request_bytes,
    Streams = streams,
    LogReaders = log_readers,
    RequestIds = request_ids,
    LogBytes = log_bytes,
    FinishedBytes = finished_bytes,
    AuditBytes = audit_bytes,
    ImageBytes = image_bytes,
    ImageTransfers = image_transfers,
    Schedules = schedules,
    Addresses = addresses,
    Ports = ports,
    IoReadBytes = io_read_bytes,
    IoWriteBytes = io_write_bytes,
    IoReads = io_reads,
    IoWrites = io_writes,
}

/// The quotas to change; `None` restores the default.
///
/// # Errors
/// `INVALID_FIELD` naming the quota.
pub fn quotas(message: wire::Quotas) -> Result<BTreeMap<Quota, Option<Amount>>> {
    let set = texts(message)
        .into_iter()
        .filter_map(|(quota, text)| Some((quota, text?)));
    set.map(|(quota, text)| match text.trim() {
        DEFAULT => Ok((quota, None)),
        text => Ok((quota, Some(quota.parse(text)?))),
    })
    .collect()
}

/// What a declaration is compared with: the quotas that it names and no other, each in its own
/// words where it means what `set` has. `None` where none of them is set yet, and one should be.
///
/// # Errors
/// `INVALID_FIELD` naming the quota.
pub fn compared(
    declared: wire::Quotas,
    set: impl Fn(Quota) -> Option<Amount>,
) -> Result<Option<wire::Quotas>> {
    let meant = quotas(declared.clone())?;
    let mut there = wire::Quotas::default();
    let (mut same, mut one_is_set) = (true, false);
    for (quota, text) in texts(declared) {
        let (Some(text), Some(meant)) = (text, meant.get(&quota)) else {
            continue;
        };
        let now = set(quota);
        one_is_set |= now.is_some();
        let text = match (now == *meant, now) {
            (true, _) => text,
            (false, Some(amount)) => amount.show(quota),
            (false, None) => DEFAULT.to_owned(),
        };
        same &= now == *meant;
        put(&mut there, quota, text);
    }
    Ok((same || one_is_set).then_some(there))
}

/// A message with these fields set, e.g. of `cells=64` on a command line.
pub fn to_quotas(set: impl IntoIterator<Item = (Quota, String)>) -> wire::Quotas {
    let mut message = wire::Quotas::default();
    for (quota, text) in set {
        put(&mut message, quota, text);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quota_has_a_field_of_its_name() {
        let pool = crate::descriptor_pool().unwrap();
        let message = pool.get_message_by_name("aurae.tenant.v0.Quotas").unwrap();
        let mut fields: Vec<_> = message.fields().map(|f| f.name().to_owned()).collect();
        let mut quotas: Vec<_> = Quota::ALL.iter().map(|q| q.as_str()).collect();
        // New fields have the next numbers; quotas are shown with their like.
        fields.sort_unstable();
        quotas.sort_unstable();
        assert_eq!(fields, quotas);
    }

    #[test]
    fn a_declaration_is_compared_by_what_its_amounts_mean() {
        let set = |quota| match quota {
            Quota::MemoryMax => Some(Amount::Absolute(512 << 20)),
            Quota::Cells => Some(Amount::Absolute(64)),
            _ => None,
        };
        let against = |declared: &[(Quota, &str)]| {
            let declared = declared
                .iter()
                .map(|(quota, text)| (*quota, (*text).into()));
            compared(to_quotas(declared), set).unwrap()
        };
        // The same amount in other words, and what isn't declared is no difference.
        let same = to_quotas([(Quota::MemoryMax, "0.5Gi".into())]);
        assert_eq!(against(&[(Quota::MemoryMax, "0.5Gi")]), Some(same));
        let differs = to_quotas([
            (Quota::MemoryMax, "512Mi".into()),
            (Quota::Pids, "default".into()),
        ]);
        let found = against(&[(Quota::MemoryMax, "10%"), (Quota::Pids, "100")]);
        assert_eq!(found, Some(differs));
        // Nothing of it is set yet; a default that is one already is as declared.
        assert_eq!(against(&[(Quota::Pids, "100")]), None);
        let default = to_quotas([(Quota::Pids, "default".into())]);
        assert_eq!(against(&[(Quota::Pids, "default")]), Some(default));
        assert_eq!(against(&[]), Some(wire::Quotas::default()));
    }

    #[test]
    fn default_takes_a_setting_back_and_nonsense_is_named() {
        let message = to_quotas([
            (Quota::Cells, "default".into()),
            (Quota::Pids, "10%".into()),
        ]);
        let changes = quotas(message).unwrap();
        assert_eq!(changes.get(&Quota::Cells), Some(&None));
        assert_eq!(changes.get(&Quota::Pids), Some(&Some(Amount::Share(100))));
        assert_eq!(changes.len(), 2);
        let error = quotas(to_quotas([(Quota::Cells, "many".into())])).unwrap_err();
        assert_eq!(error.field.as_deref(), Some("cells"));
    }
}
