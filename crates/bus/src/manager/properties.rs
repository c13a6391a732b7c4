// SPDX-License-Identifier: Apache-2.0
//! Properties of the manager.

use schedule::unit::SYSTEM;
use zbus::Variant;

use crate::error::Failure;
use crate::object::Properties;
use crate::serve::{Caller, Service};

/// Whose words these are; what follows in brackets is who says them.
const VERSION: &str = concat!("252 (aurae ", env!("CARGO_PKG_VERSION"), ")");
/// What systemd was built with, of which this is what there is here.
const FEATURES: &str = "-PAM -AUDIT -SELINUX +APPARMOR +SECCOMP default-hierarchy=unified";
/// systemd-system.conf(5): DefaultTimeoutStartSec= and the like, in microseconds.
const TIMEOUT: u64 = 90_000_000;

/// What the machine runs in, as far as its files say.
fn virtualization() -> &'static str {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let vendor = read("/sys/class/dmi/id/sys_vendor");
    match () {
        () if vendor.contains("QEMU") => "qemu",
        () if vendor.contains("VMware") => "vmware",
        () if vendor.contains("innotek") => "oracle",
        () if vendor.contains("Xen") => "xen",
        () => "",
    }
}

/// All of them, as they are now.
pub(crate) async fn all(service: &Service, caller: &Caller) -> Result<Properties, Failure> {
    let permit = service.permit(caller, "schedule.ListUnits", "").await?;
    let units = service.units.list(&permit, false).await?;
    let jobs = service.units.jobs(&permit).await?;
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let failed = units.iter().filter(|it| it.active == "failed").count();
    let is_up = units
        .iter()
        .any(|it| it.name == "basic.target" && it.active == "active");
    let state = match () {
        () if service.machine.is_ending() => "stopping",
        () if !is_up => "initializing",
        () if !jobs.is_empty() => "starting",
        () if failed > 0 => "degraded",
        () => "running",
    };
    let given = service.units.given(&permit).await?;
    let paths: Vec<String> = SYSTEM.iter().map(|it| (*it).to_owned()).collect();
    let mut all = vec![
        ("Version", Variant::from(VERSION)),
        ("Features", Variant::from(FEATURES)),
        ("Virtualization", Variant::from(virtualization())),
        (
            "Architecture",
            Variant::from(std::env::consts::ARCH.replace('_', "-")),
        ),
        ("Tainted", Variant::from("")),
        ("SystemState", Variant::from(state)),
        ("NNames", Variant::from(count(units.len()))),
        ("NFailedUnits", Variant::from(count(failed))),
        ("NJobs", Variant::from(count(jobs.len()))),
        ("Environment", Variant::from(given.environment)),
        ("UnitPath", Variant::from(paths)),
        ("ControlGroup", Variant::from("")),
        ("DefaultStandardOutput", Variant::from("journal")),
        ("DefaultStandardError", Variant::from("inherit")),
        ("DefaultTimeoutStartUSec", Variant::from(TIMEOUT)),
        ("DefaultTimeoutStopUSec", Variant::from(TIMEOUT)),
        ("DefaultRestartUSec", Variant::from(100_000_u64)),
        ("ConfirmSpawn", Variant::from(false)),
        ("ShowStatus", Variant::from(false)),
        ("ServiceWatchdogs", Variant::from(given.service_watchdogs)),
    ];
    all.extend(service.log().of_manager());
    Ok(all)
}
