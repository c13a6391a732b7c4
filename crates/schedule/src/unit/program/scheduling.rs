// SPDX-License-Identifier: Apache-2.0
//! How a command gets the processor and the disks, its keyring, and the kernel that it believes to
//! run on (systemd.exec(5), "Scheduling", `KeyringMode=`, `Personality=`).

use std::time::Duration;

use model::launch::{CpuPolicy, IoClass, Keyring, Personality, Scheduling};
use units::unit::Settings;

pub(super) fn of(settings: &Settings) -> Scheduling {
    let number = |field: &str| settings.number(field).and_then(|it| u32::try_from(it).ok());
    let io_priority = number("IOSchedulingPriority");
    let io_class = match settings.word("IOSchedulingClass") {
        Some("realtime" | "1") => Some(IoClass::Realtime),
        Some("best-effort" | "2") => Some(IoClass::BestEffort),
        Some("idle" | "3") => Some(IoClass::Idle),
        Some(_) => None,
        None => io_priority.map(|_| IoClass::BestEffort),
    };
    let policy = match settings.word("CPUSchedulingPolicy") {
        Some("other" | "0") => Some(CpuPolicy::Other),
        Some("fifo" | "1") => Some(CpuPolicy::Fifo),
        Some("rr" | "2") => Some(CpuPolicy::RoundRobin),
        Some("batch" | "3") => Some(CpuPolicy::Batch),
        Some("idle" | "5") => Some(CpuPolicy::Idle),
        _ => None,
    };
    let realtime = policy.is_some_and(CpuPolicy::is_realtime);
    let priority = number("CPUSchedulingPriority").unwrap_or(1).max(1);
    let slack = settings.number("TimerSlackNSec");
    let slack = slack.and_then(|it| u64::try_from(it).ok());
    Scheduling {
        io_class,
        io_priority: io_priority.filter(|_| io_class.is_some_and(|it| it != IoClass::Idle)),
        policy,
        priority: realtime.then_some(priority),
        reset_on_fork: settings.flag("CPUSchedulingResetOnFork") == Some(true),
        timer_slack: slack.filter(|it| *it > 0).map(Duration::from_nanos),
    }
}

pub(super) fn keyring(settings: &Settings) -> Keyring {
    match settings.word("KeyringMode") {
        Some("inherit") => Keyring::Inherit,
        Some("shared") => Keyring::Shared,
        _ => Keyring::Private,
    }
}

/// The word for the machine's own kernel, and for that of 32 bits that it can be.
const KERNELS: (&str, &str) = match std::env::consts::ARCH.as_bytes() {
    b"x86_64" => ("x86-64", "x86"),
    b"aarch64" => ("arm64", "arm"),
    _ => ("native", ""),
};

/// Whether the machine's kernel can be what a unit asks for (`Personality=`).
pub(crate) fn is_native(settings: &Settings) -> bool {
    let text = settings.text("Personality");
    text.is_none_or(|it| {
        it == KERNELS.0 || it == KERNELS.1 || it == "aarch64" && KERNELS.0 == "arm64"
    })
}

pub(super) fn personality(settings: &Settings) -> Personality {
    match settings.text("Personality") {
        Some(text) if text == KERNELS.1 => Personality::Linux32,
        _ => Personality::Linux,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::calendar::zones::UtcOnly;
    use units::name::UnitName;
    use units::specifier::NoHost;
    use units::unit::from_texts;

    fn settings(text: &str) -> Settings {
        let name = UnitName::parse("a.service").unwrap();
        let text = format!("[Service]\nExecStart=/bin/x\n{text}\n");
        from_texts(&name, &[("/x", text.as_bytes())], &NoHost, &UtcOnly).settings
    }

    #[test]
    fn scheduling_is_that_of_the_manual() {
        // systemd.exec(5), "Scheduling".
        let io = |text: &str| {
            let of = of(&settings(text));
            (of.io_class, of.io_priority)
        };
        assert_eq!(io(""), (None, None));
        assert_eq!(io("IOSchedulingClass=none"), (None, None));
        assert_eq!(
            io("IOSchedulingPriority=2"),
            (Some(IoClass::BestEffort), Some(2))
        );
        assert_eq!(
            io("IOSchedulingClass=idle\nIOSchedulingPriority=2"),
            (Some(IoClass::Idle), None)
        );
        assert_eq!(
            io("IOSchedulingClass=realtime"),
            (Some(IoClass::Realtime), None)
        );
        let cpu = |text: &str| {
            let of = of(&settings(text));
            (of.policy, of.priority)
        };
        assert_eq!(
            cpu("CPUSchedulingPolicy=batch\nCPUSchedulingPriority=3"),
            (Some(CpuPolicy::Batch), None)
        );
        assert_eq!(
            cpu("CPUSchedulingPolicy=rr"),
            (Some(CpuPolicy::RoundRobin), Some(1))
        );
        assert_eq!(
            cpu("CPUSchedulingPolicy=fifo\nCPUSchedulingPriority=9"),
            (Some(CpuPolicy::Fifo), Some(9))
        );
        let slack = of(&settings("TimerSlackNSec=5us")).timer_slack;
        assert_eq!(slack, Some(Duration::from_micros(5)));
        assert_eq!(keyring(&settings("KeyringMode=shared")), Keyring::Shared);
        assert!(is_native(&settings("")) && !is_native(&settings("Personality=s390")));
    }
}
