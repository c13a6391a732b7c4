// SPDX-License-Identifier: Apache-2.0
//! Quotas: what one tenant may take of each of the node's pools, as absolute numbers or as shares
//! of the node, and the rule that decides whether a tenant may take more.
//!
//! Pure. The owner of a pool counts what is taken of it (the runtime's index, the listener, the log
//! engine, the kernel). This module decides how much a tenant may take, the same way for every
//! pool. It knows no storage: `tenants` keeps the quotas that an administrator has set.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Reason, Result};
use crate::name::Tenant;
use crate::quantity::{parse_bytes, show_bytes, write_bytes};

/// The tenant of the node's administrators. It may use each pool's reserve.
pub const ADMINISTRATORS: &str = "system";

/// The unit of a quota.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A number of bytes, written as `64M` or `1.5Gi`.
    Bytes,
    /// A number of objects, written as `128`.
    Count,
    /// Thousandths of a CPU: `1.5` is 1,500.
    Cpus,
    /// A weight of cgroup v2, 1 to 10,000.
    Weight,
    /// Bytes a second on each disk, written as `64M`. What a disk can do is not known, so there is
    /// no share of it.
    ByteRate,
    /// Operations a second on each disk, written as `128`; no share either.
    Rate,
}

/// When to try again where the tenant's own calls give the pool back as they end.
const AGAIN: Duration = Duration::from_secs(1);
/// When to try again where other tenants have the pool: that is theirs to end.
const AGAIN_WHEN_OTHERS_END: Duration = Duration::from_secs(10);

/// The least bound of bytes a second, 64 KiB. With less, the kernel holds single requests for
/// seconds, and with them every process that waits for the disk's journal.
pub const MIN_BYTE_RATE: u64 = 64 << 10;
/// The least bound of operations a second.
pub const MIN_RATE: u64 = 16;

macro_rules! quotas {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $unit:ident, $default:expr;)*) => {
        /// Each pool of the node that tenants share.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Quota {
            $($(#[$doc])* $name,)*
        }

        impl Quota {
            /// All, in the order in which they are shown.
            pub const ALL: &'static [Quota] = &[$(Quota::$name,)*];

            /// The name in the API, the configuration and the client's flags.
            pub fn as_str(self) -> &'static str {
                match self { $(Quota::$name => $text,)* }
            }

            /// The unit of its amounts.
            pub fn unit(self) -> Unit {
                match self { $(Quota::$name => Unit::$unit,)* }
            }

            /// The amount of an ordinary tenant for which none is set.
            pub fn default_amount(self) -> Amount {
                match self { $(Quota::$name => $default,)* }
            }
        }
    };
}

quotas! {
    /// `memory.max` of everything the tenant runs, tmpfs included. Default 50 % of the node's.
    MemoryMax = "memory_max", Bytes, Amount::percent(50);
    /// `memory.high`: above it the kernel reclaims and slows down. Default none.
    MemoryHigh = "memory_high", Bytes, Amount::Unlimited;
    /// `memory.min`: what the kernel never reclaims from the tenant. Default none.
    MemoryMin = "memory_min", Bytes, Amount::Absolute(0);
    /// `cpu.max`, in CPUs. Default none: what others leave.
    CpuMax = "cpu_max", Cpus, Amount::Unlimited;
    /// `cpu.weight` beside other tenants. Default 100.
    CpuWeight = "cpu_weight", Weight, Amount::Absolute(100);
    /// `pids.max`: processes and threads. Default 40 % of what the kernel takes.
    Pids = "pids", Count, Amount::percent(40);
    /// `io.weight` beside other tenants. Default 100.
    IoWeight = "io_weight", Weight, Amount::Absolute(100);
    /// `io.max`: bytes read a second on each disk. Default none.
    IoReadBytes = "io_read_bytes", ByteRate, Amount::Unlimited;
    /// `io.max`: bytes written a second on each disk. Default none.
    IoWriteBytes = "io_write_bytes", ByteRate, Amount::Unlimited;
    /// `io.max`: read operations a second on each disk. Default none.
    IoReads = "io_reads", Rate, Amount::Unlimited;
    /// `io.max`: write operations a second on each disk. Default none.
    IoWrites = "io_writes", Rate, Amount::Unlimited;
    /// Bytes that the tenant's volumes (tmpfs) and containers' roots may hold together. Default
    /// 25 % of the node's pool (`limits.tmpfs`).
    Tmpfs = "tmpfs", Bytes, Amount::percent(25);
    /// Bytes of the node's disk that containers' roots and empty volumes of pods hold together.
    /// Default 25 % of the node's pool (`limits.disk`).
    Disk = "disk", Bytes, Amount::percent(25);
    /// Cells that have not ended. Default 50 %.
    Cells = "cells", Count, Amount::percent(50);
    /// Executables that have not ended. Default 50 %.
    Executables = "executables", Count, Amount::percent(50);
    /// Bytes of the specs of cells, executables and pods that have not ended, and of schedules and
    /// configs. Default 25 %.
    SpecBytes = "spec_bytes", Bytes, Amount::percent(25);
    /// Cells that are being created at the same time. Default 25 %.
    Creations = "creations", Count, Amount::percent(25);
    /// User and group ids of the node that top-level cells have. Default 25 %.
    Ids = "ids", Count, Amount::percent(25);
    /// Open connections. Default 25 %.
    Connections = "connections", Count, Amount::percent(25);
    /// Bytes of requests that the daemon has not decoded yet. Default 25 %.
    RequestBytes = "request_bytes", Bytes, Amount::percent(25);
    /// Open calls, streams included. Default 25 %.
    Streams = "streams", Count, Amount::percent(25);
    /// Logs that are read at the same time. Attached runs don't count. Default 25 %.
    LogReaders = "log_readers", Count, Amount::percent(25);
    /// Request ids that the node remembers. Default 25 %.
    RequestIds = "request_ids", Count, Amount::percent(25);
    /// Bytes of stored output; the oldest goes first. Default 50 %.
    LogBytes = "log_bytes", Bytes, Amount::percent(50);
    /// Bytes of records of what has ended; the oldest go first. Default 25 %.
    FinishedBytes = "finished_bytes", Bytes, Amount::percent(25);
    /// Bytes of the audit; the oldest lines go first. Default 25 %.
    AuditBytes = "audit_bytes", Bytes, Amount::percent(25);
    /// Bytes of images, as received and unpacked. Default 25 %.
    ImageBytes = "image_bytes", Bytes, Amount::percent(25);
    /// Pulls, pushes, imports, exports and verifications at the same time. Default 25 %.
    ImageTransfers = "image_transfers", Count, Amount::percent(25);
    /// Schedules. Default 25 %.
    Schedules = "schedules", Count, Amount::percent(25);
    /// Cells that are attached to the network of cells. Default 50 %.
    Addresses = "addresses", Count, Amount::percent(50);
    /// Ports of the node that lead to cells. Default 25 %.
    Ports = "ports", Count, Amount::percent(25);
}

/// The least size of a file system of its own on the disk, in bytes. Each takes a device and some
/// memory of the kernel's: so a quota of bytes bounds their number, too.
pub const MIN_DISK: u64 = 16 << 20;

/// What something holds of the pools for what workloads write, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Storage {
    /// Of [`Quota::Tmpfs`].
    pub memory: u64,
    /// Of [`Quota::Disk`].
    pub disk: u64,
}

impl Storage {
    /// So much memory alone.
    pub fn in_memory(bytes: u64) -> Storage {
        Storage {
            memory: bytes,
            disk: 0,
        }
    }

    /// So much of the disk alone.
    pub fn on_disk(bytes: u64) -> Storage {
        Storage {
            memory: 0,
            disk: bytes,
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Storage) -> Storage {
        Storage {
            memory: self.memory.saturating_add(other.memory),
            disk: self.disk.saturating_add(other.disk),
        }
    }

    /// By the quota that each counts in.
    pub fn by_quota(self) -> [(Quota, u64); 2] {
        [(Quota::Tmpfs, self.memory), (Quota::Disk, self.disk)]
    }
}

/// Whether a file system of its own on the disk may be asked for with this size.
pub(crate) fn check_disk(field: &str, bytes: Option<u64>) -> Result<()> {
    match bytes {
        Some(bytes) if bytes < MIN_DISK || i64::try_from(bytes).is_err() => {
            let problem =
                format!("must be at least {MIN_DISK} (16 MiB) on the disk, and below 2^63");
            Err(Error::invalid(field, problem))
        }
        _ => Ok(()),
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Quota {
    /// The quota of that name.
    pub fn from_name(name: &str) -> Option<Quota> {
        Self::ALL.iter().copied().find(|q| q.as_str() == name)
    }

    /// Reads a setting: a share of the node (`10%`), `max`, or a number in the quota's unit.
    ///
    /// # Errors
    /// `INVALID_FIELD` naming the quota, and what to write or the range.
    pub fn parse(self, text: &str) -> Result<Amount> {
        let text = text.trim();
        let share = text.strip_suffix('%').filter(|_| self.has_shares());
        let parsed = match (text, share) {
            ("max", _) if self.unit() != Unit::Weight => Some(Amount::Unlimited),
            (_, Some(share)) => parse_permille(share).map(Amount::Share),
            (number, None) => self.parse_number(number).map(Amount::Absolute),
        };
        parsed.ok_or_else(|| {
            let out_of_range = share.is_some_and(|share| thousandths(share).is_some());
            let hint = match self.unit() {
                _ if out_of_range => "a share of the node is from 0.1% to 100%, in steps of 0.1%",
                Unit::Bytes => "write bytes (64M, 1.5Gi), a share of the node (10%), or max",
                Unit::Count => "write a number, a share of the node (10%), or max",
                Unit::Cpus => "write CPUs (1.5), a share of the node (50%), or max",
                Unit::Weight => "write a weight from 1 to 10000",
                Unit::ByteRate => {
                    "write bytes a second (10M), at least 64Ki, or max; there is no share of a disk"
                }
                Unit::Rate => {
                    "write operations a second, at least 16, or max; there is no share of a disk"
                }
            };
            Error::invalid(self.as_str(), format!("is {text:?}")).hint(hint)
        })
    }

    /// Whether an amount may be a share of what the node has.
    fn has_shares(self) -> bool {
        matches!(self.unit(), Unit::Bytes | Unit::Count | Unit::Cpus)
    }

    fn parse_number(self, text: &str) -> Option<u64> {
        match self.unit() {
            Unit::Bytes => parse_bytes(text).ok(),
            Unit::Count => text.parse().ok(),
            Unit::Cpus => thousandths(text).filter(|milli| *milli > 0),
            Unit::Weight => text.parse().ok().filter(|w| (1..=10_000).contains(w)),
            Unit::ByteRate => parse_bytes(text).ok().filter(|b| *b >= MIN_BYTE_RATE),
            Unit::Rate => text.parse().ok().filter(|ops| *ops >= MIN_RATE),
        }
    }

    /// Whether what is taken goes back by itself, as calls and connections end. Of any other quota
    /// it goes back when its tenant ends or removes something.
    fn is_of_calls(self) -> bool {
        matches!(
            self,
            Quota::Creations
                | Quota::Connections
                | Quota::RequestBytes
                | Quota::Streams
                | Quota::LogReaders
                | Quota::ImageTransfers
        )
    }

    /// An amount in the quota's unit, for people: `1.50Gi`, `1.500`, `64`.
    pub fn show(self, value: u64) -> String {
        match self.unit() {
            _ if value == u64::MAX => "max".to_owned(),
            Unit::Bytes => show_bytes(value),
            Unit::ByteRate => format!("{}/s", show_bytes(value)),
            Unit::Rate => format!("{value}/s"),
            Unit::Cpus => format!("{}.{:03}", value / 1000, value % 1000),
            Unit::Count | Unit::Weight => value.to_string(),
        }
    }
}

/// Reads a percentage with at most one decimal, in tenths: `12.5` is 125.
fn parse_permille(text: &str) -> Option<u16> {
    let thousandths = thousandths(text)?;
    let permille = u16::try_from(thousandths / 100).ok()?;
    (thousandths.is_multiple_of(100) && (1..=1000).contains(&permille)).then_some(permille)
}

fn thousandths(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 3 {
        return None;
    }
    let fraction: u64 = format!("{fraction:0<3}").parse().ok()?;
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(1000)?
        .checked_add(fraction)
}

/// How much of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    /// This many of the quota's unit.
    Absolute(u64),
    /// Thousandths of the node's pool, 1 to 1,000.
    Share(u16),
    /// All that the node has.
    Unlimited,
}

impl Amount {
    const fn percent(percent: u16) -> Amount {
        Amount::Share(percent * 10)
    }

    /// The number that it means on a node that has `whole`.
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Amount::Absolute(value) => value,
            Amount::Unlimited => u64::MAX,
            Amount::Share(_) if whole == u64::MAX => u64::MAX,
            Amount::Share(permille) => {
                let part = u128::from(whole) * u128::from(permille) / 1000;
                u64::try_from(part).unwrap_or(u64::MAX).max(1)
            }
        }
    }

    /// As it is written: `10%`, `max`, or the number in the quota's unit.
    pub fn show(self, quota: Quota) -> String {
        match self {
            Amount::Share(permille) if permille.is_multiple_of(10) => format!("{}%", permille / 10),
            Amount::Share(permille) => format!("{}.{}%", permille / 10, permille % 10),
            Amount::Absolute(value)
                if matches!(quota.unit(), Unit::Bytes | Unit::ByteRate) && value != u64::MAX =>
            {
                write_bytes(value)
            }
            Amount::Absolute(value) if quota.unit() == Unit::Rate => value.to_string(),
            Amount::Absolute(value) => quota.show(value),
            Amount::Unlimited => "max".to_owned(),
        }
    }
}

/// The quotas that were set for a tenant; an absent one has its default.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Quotas(pub BTreeMap<Quota, Amount>);

impl Quotas {
    /// The amount of a quota, set or by default. By default administrators have all of each pool,
    /// but an ordinary weight.
    pub fn amount(&self, tenant: &Tenant, quota: Quota) -> Amount {
        if let Some(amount) = self.0.get(&quota) {
            return *amount;
        }
        let everything = tenant.as_str() == ADMINISTRATORS && quota.unit() != Unit::Weight;
        match quota.default_amount() {
            Amount::Share(_) if everything => Amount::Unlimited,
            amount => amount,
        }
    }
}

/// The text that is stored: a line for each quota that is set, `memory_max=10%`.
impl fmt::Display for Quotas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (quota, amount) in &self.0 {
            let value = match amount {
                Amount::Absolute(value) if quota.unit() != Unit::Cpus => value.to_string(),
                amount => amount.show(*quota),
            };
            writeln!(f, "{quota}={value}")?;
        }
        Ok(())
    }
}

impl FromStr for Quotas {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut quotas = BTreeMap::new();
        for line in text.lines() {
            let known = line
                .split_once('=')
                .and_then(|(name, value)| Some((Quota::from_name(name)?, value)));
            let Some((quota, value)) = known else {
                return Err(Error::invalid(
                    "quotas",
                    format!("has an unknown line {line:?}"),
                ));
            };
            quotas.insert(quota, quota.parse(value)?);
        }
        Ok(Self(quotas))
    }
}

/// The size of each pool, and the part that is reserved for the node and its administrators.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// The size of each pool, in its quota's unit; an absent pool has no bound.
    pub whole: BTreeMap<Quota, u64>,
    /// Thousandths of each pool that only administrators may take, 0 to 500.
    pub reserve: u16,
}

impl Capacity {
    /// All that the node has of a pool.
    pub fn of(&self, quota: Quota) -> u64 {
        self.whole.get(&quota).copied().unwrap_or(u64::MAX)
    }

    /// The most that ordinary tenants together may take of a pool.
    pub fn for_tenants(&self, quota: Quota) -> u64 {
        let whole = self.of(quota);
        match whole {
            u64::MAX => u64::MAX,
            _ => whole - Amount::Share(self.reserve).of(whole).min(whole / 2),
        }
    }

    /// Where tenants keep more of a pool than there is, the one that has most: it loses its oldest.
    /// `None`: it is not too much. What administrators have within the reserve counts as nothing.
    pub fn fullest<'a>(
        &self,
        quota: Quota,
        used: impl Iterator<Item = (&'a Tenant, u64)>,
    ) -> Option<&'a Tenant> {
        let most = self.for_tenants(quota);
        let reserve = self.of(quota).saturating_sub(most);
        let (mut together, mut fullest) = (0u64, None::<(&Tenant, u64)>);
        for (tenant, used) in used {
            let counted = match tenant.as_str() == ADMINISTRATORS {
                true => used.saturating_sub(reserve),
                false => used,
            };
            together = together.saturating_add(counted);
            if fullest.is_none_or(|(_, most)| counted > most) {
                fullest = Some((tenant, counted));
            }
        }
        fullest
            .filter(|_| together > most)
            .map(|(tenant, _)| tenant)
    }
}

/// How much of a pool is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Used {
    /// Taken by the tenant that wants more.
    pub tenant: u64,
    /// Taken by all tenants, administrators included.
    pub all: u64,
    /// Taken by the administrators' tenant.
    pub administrators: u64,
}

/// Capacity and quotas of all tenants at one moment: how much each may take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The pools of the node.
    pub capacity: Capacity,
    /// The quotas that were set for each tenant.
    pub set: BTreeMap<Tenant, Quotas>,
}

impl Limits {
    /// The amount of a tenant's quota, set or by default.
    pub fn amount(&self, tenant: &Tenant, quota: Quota) -> Amount {
        match self.set.get(tenant) {
            Some(quotas) => quotas.amount(tenant, quota),
            None => Quotas::default().amount(tenant, quota),
        }
    }

    /// The most that a tenant may have of a pool, in the quota's unit. `u64::MAX`: no bound.
    pub fn limit(&self, tenant: &Tenant, quota: Quota) -> u64 {
        let whole = self.capacity.of(quota);
        self.amount(tenant, quota).of(whole).min(whole)
    }

    /// Whether a tenant may take `wanted` more of a pool of which `used` is taken.
    ///
    /// An ordinary tenant is refused where its own quota would be passed, or where what ordinary
    /// tenants have together would reach into the reserve. Administrators may take all of it, and
    /// take nothing from others as long as they are within the reserve.
    ///
    /// # Errors
    /// `LIMIT_EXCEEDED` with the quota's name, its size and its use; with a time to try again
    /// where the pool may be given back without the caller's doing.
    pub fn admit(&self, tenant: &Tenant, quota: Quota, wanted: u64, used: Used) -> Result<()> {
        let limit = self.limit(tenant, quota);
        if used.tenant.saturating_add(wanted) > limit {
            return Err(self.tenant_is_full(tenant, quota, wanted, used.tenant));
        }
        let (taken, most) = self.taken_of_node(tenant, quota, used);
        match taken.saturating_add(wanted) > most {
            true => Err(node_is_full(quota, wanted, taken, most)),
            false => Ok(()),
        }
    }

    /// The most that [`Limits::admit`] lets a tenant take at this moment.
    pub fn room(&self, tenant: &Tenant, quota: Quota, used: Used) -> u64 {
        let own = self.limit(tenant, quota).saturating_sub(used.tenant);
        let (taken, most) = self.taken_of_node(tenant, quota, used);
        own.min(most.saturating_sub(taken))
    }

    /// What counts as taken of the node's pool for this tenant, and the most that may be.
    fn taken_of_node(&self, tenant: &Tenant, quota: Quota, used: Used) -> (u64, u64) {
        let whole = self.capacity.of(quota);
        if tenant.as_str() == ADMINISTRATORS {
            return (used.all, whole);
        }
        let most = self.capacity.for_tenants(quota);
        let reserve = whole.saturating_sub(most);
        let taken = used.all - used.administrators.min(reserve).min(used.all);
        (taken, most)
    }

    fn tenant_is_full(&self, tenant: &Tenant, quota: Quota, wanted: u64, used: u64) -> Error {
        let (limit, set) = (self.limit(tenant, quota), self.amount(tenant, quota));
        let share = match set {
            Amount::Share(_) => format!(" ({} of the node)", set.show(quota)),
            _ => String::new(),
        };
        let message = format!(
            "the tenant {tenant} uses {} of its {}{share} of the quota {quota}; {} more is too much",
            quota.show(used),
            quota.show(limit),
            quota.show(wanted)
        );
        let error = Error::new(Reason::LimitExceeded, message)
            .about("quota", quota.as_str())
            .hint(format!(
                "end or remove what is not needed, or ask an administrator to raise it: \
                 aurae tenant set {tenant} {quota}=…"
            ));
        // What is larger than the quota never gets in.
        match quota.is_of_calls() && wanted <= limit {
            true => error.retry_after(AGAIN),
            false => error,
        }
    }
}

fn node_is_full(quota: Quota, wanted: u64, used: u64, most: u64) -> Error {
    let message = format!(
        "all tenants together use {} of the {} that the node has of {quota}, beside its reserve; {} \
         more is too much",
        quota.show(used),
        quota.show(most),
        quota.show(wanted)
    );
    let error = Error::new(Reason::LimitExceeded, message)
        .about("quota", quota.as_str())
        .hint("try again when others have ended, or ask an administrator");
    match wanted {
        _ if wanted > most => error,
        _ if quota.is_of_calls() => error.retry_after(AGAIN),
        _ => error.retry_after(AGAIN_WHEN_OTHERS_END),
    }
}

impl Serialize for Quotas {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Quotas {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(d)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
