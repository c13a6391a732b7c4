// SPDX-License-Identifier: Apache-2.0
//! Mount and swap units: services that run mount(8), swapon(8) and their opposites, and are up as
//! long as the machine has what they made (systemd.mount(5), systemd.swap(5)). What the machine has
//! is the kernel's word, never ours: what is mounted by hand makes its unit active. Devices
//! are looked for here, too; who waits for one is [`super::manager`].

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use units::exec::{Command, Privileges};
use units::name::{UnitName, UnitType, unescape_path};
use units::service::{Defaults, Service, Type};
use units::time::Span;
use units::unit::Unit;
use units::value::Value;

use super::automount;
use super::steps::Phase;
use super::steps::service::{State, Sub};

/// Mounts that stay for as long as the machine runs: PID 1 takes them away at its very end.
const STAY: [&str; 3] = ["-.mount", "usr.mount", "etc.mount"];
/// How long a device may take to come where its unit says nothing (systemd.mount(5),
/// x-systemd.device-timeout=).
const DEVICE: Span = Span::from_secs(90);

/// Whether units of a type are run by this.
pub(crate) const fn is_one(kind: UnitType) -> bool {
    matches!(kind, UnitType::Mount | UnitType::Swap)
}

/// The commands of a unit's list: its own, or those that its type stands for.
pub(crate) fn commands(unit: &Unit, phase: Phase) -> Cow<'_, [Command]> {
    let one =
        |words: Option<Vec<String>>| Cow::Owned(words.and_then(command).into_iter().collect());
    match (unit.kind(), phase) {
        (UnitType::Mount, Phase::Start) => one(place(unit).and_then(|it| mounts(unit, it))),
        (UnitType::Mount, Phase::Stop) => one(unmounts(unit)),
        (UnitType::Swap, Phase::Start) => one(swaps_on(unit)),
        (UnitType::Swap, Phase::Stop) => one(swaps_off(unit)),
        (UnitType::Mount | UnitType::Swap, _) => Cow::Borrowed(&[]),
        (kind, phase) => Cow::Borrowed(unit.settings.commands(phase.directive_of(kind))),
    }
}

/// The commands by which a mount unit mounts at another place than its own.
pub(crate) fn staged<'a>(unit: &Unit, stage: &Path) -> Cow<'a, [Command]> {
    let words = mounts(unit, stage.display().to_string());
    Cow::Owned(words.and_then(command).into_iter().collect())
}

fn command(words: Vec<String>) -> Option<Command> {
    let mut words = words.into_iter();
    Some(Command {
        program: words.next()?,
        argv0: None,
        arguments: words.collect(),
        ignores_failure: false,
        // A path or an option may have a `$` in it.
        keeps_variables: true,
        privileges: Privileges::Restricted,
    })
}

/// Where a mount unit mounts.
fn place(unit: &Unit) -> Option<String> {
    let own = unit.settings.text("Where").map(str::to_owned);
    own.or_else(|| unescape_path(unit.id.stem()))
}

/// What fstab(5) may write behind `UUID=` is in quotes.
fn what(unit: &Unit) -> Option<String> {
    let text = unit.settings.text("What")?;
    Some(text.replace('"', ""))
}

fn mounts(unit: &Unit, place: String) -> Option<Vec<String>> {
    let settings = &unit.settings;
    let flag = |field: &str| settings.flag(field) == Some(true);
    let mut words = vec!["/bin/mount".to_owned(), what(unit)?, place];
    words.extend(flag("SloppyOptions").then(|| "-s".to_owned()));
    words.extend(flag("ReadWriteOnly").then(|| "-w".to_owned()));
    if let Some(kind) = settings.text("Type").filter(|it| !it.is_empty()) {
        words.extend(["-t".to_owned(), kind.to_owned()]);
    }
    let mode = match settings.get("DirectoryMode") {
        Some(Value::Mode(mode)) => *mode,
        _ => 0o755,
    };
    // The folder is made where it isn't there.
    let made = format!("X-mount.mkdir=0{mode:o}");
    let options = settings.text("Options").filter(|it| !it.is_empty());
    let options = options.map_or(made.clone(), |it| format!("{it},{made}"));
    words.extend(["-o".to_owned(), options]);
    Some(words)
}

fn unmounts(unit: &Unit) -> Option<Vec<String>> {
    if STAY.contains(&unit.id.as_str()) {
        return None;
    }
    let flag = |field: &str| unit.settings.flag(field) == Some(true);
    let mut words = vec!["/bin/umount".to_owned(), place(unit)?, "-c".to_owned()];
    words.extend(flag("LazyUnmount").then(|| "-l".to_owned()));
    words.extend(flag("ForceUnmount").then(|| "-f".to_owned()));
    Some(words)
}

fn swaps_on(unit: &Unit) -> Option<Vec<String>> {
    let mut words = vec!["/sbin/swapon".to_owned()];
    if let Some(priority) = unit.settings.number("Priority").filter(|it| *it >= 0) {
        words.extend(["-p".to_owned(), priority.to_string()]);
    }
    if let Some(options) = unit.settings.text("Options").filter(|it| !it.is_empty()) {
        words.extend(["-o".to_owned(), options.to_owned()]);
    }
    words.push(what(unit)?);
    Some(words)
}

fn swaps_off(unit: &Unit) -> Option<Vec<String>> {
    Some(vec!["/sbin/swapoff".to_owned(), what(unit)?])
}

/// The service that a mount or a swap is: one command, after which it is up.
pub(crate) fn service(unit: &Unit) -> Service {
    let (mut service, _) = Service::of(unit, Defaults::default());
    let timeout = unit.settings.span("TimeoutSec");
    let timeout = timeout.unwrap_or(Defaults::default().start);
    service.kind = Type::Oneshot;
    service.remains = true;
    service.pid_file = None;
    service.bus_name = None;
    service.start_timeout = timeout;
    service.stop_timeout = timeout;
    service.abort_timeout = timeout;
    service
}

/// Its state once it is there, whichever program made it.
pub(crate) fn there() -> State {
    State {
        sub: Sub::Exited,
        was_up: true,
        ..State::default()
    }
}

/// Takes in whether the machine has it. What goes on is left to its command's end; whether
/// anything has changed.
pub(crate) fn seen(state: &mut State, is_there: bool) -> bool {
    match (state.sub, is_there) {
        (Sub::Dead, true) => *state = there(),
        (Sub::Exited, false) => *state = State::default(),
        _ => return false,
    }
    true
}

/// Whether the machine has what a mount, a swap or a device unit stands for; `None`: its type
/// stands for nothing of the machine's.
pub(crate) fn is_there(name: &UnitName, unit: Option<&Unit>) -> Option<bool> {
    match name.kind() {
        UnitType::Mount => {
            let place = unit.and_then(place).or_else(|| unescape_path(name.stem()));
            Some(place.is_some_and(|it| automount::is_mounted(Path::new(&it))))
        }
        UnitType::Swap => Some(unit.and_then(what).is_some_and(|it| is_swap(&it))),
        UnitType::Device => Some(device(name).is_some_and(|it| Path::new(&it).exists())),
        _ => None,
    }
}

/// Whether the kernel swaps to it, by proc(5), /proc/swaps.
fn is_swap(what: &str) -> bool {
    let Ok(real) = fs::canonicalize(tagged(what)) else {
        return false;
    };
    let table = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let mut files = table.lines().skip(1);
    files.any(|line| {
        let file = line.split_whitespace().next().unwrap_or_default();
        Path::new(&super::accounts::unescape_octal(file)) == real
    })
}

/// The path by which udev knows what fstab calls `UUID=…`.
fn tagged(what: &str) -> String {
    match what.split_once('=') {
        Some((tag @ ("UUID" | "LABEL" | "PARTUUID" | "PARTLABEL"), name)) => {
            format!("/dev/disk/by-{}/{name}", tag.to_ascii_lowercase())
        }
        _ => what.to_owned(),
    }
}

/// Where a device unit's device is. A network device has its unit's name by udev's rules alone.
pub(crate) fn device(unit: &UnitName) -> Option<String> {
    let path = unescape_path(unit.stem())?;
    Some(match path.strip_prefix("/sys/subsystem/net/devices/") {
        Some(name) => format!("/sys/class/net/{name}"),
        None => path,
    })
}

/// How long a device's start waits for it.
pub(crate) fn device_timeout(unit: &Unit) -> Span {
    let spans = ["JobRunningTimeoutSec", "JobTimeoutSec"];
    unit.settings.last_span(&spans).unwrap_or(DEVICE)
}

/// The word of `SubState=` where a mount or a swap has another one than a service.
pub(crate) const fn sub(kind: UnitType, sub: Sub) -> Option<&'static str> {
    Some(match (kind, sub) {
        (UnitType::Mount, Sub::Exited) => "mounted",
        (UnitType::Mount, Sub::Start) => "mounting",
        (UnitType::Mount, Sub::Stop) => "unmounting",
        (UnitType::Mount, Sub::StopSigterm) => "unmounting-sigterm",
        (UnitType::Mount, Sub::StopSigkill) => "unmounting-sigkill",
        (UnitType::Swap, Sub::Exited) => "active",
        (UnitType::Swap, Sub::Start) => "activating",
        (UnitType::Swap, Sub::Stop) => "deactivating",
        (UnitType::Swap, Sub::StopSigterm) => "deactivating-sigterm",
        (UnitType::Swap, Sub::StopSigkill) => "deactivating-sigkill",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::calendar::zones::UtcOnly;
    use units::specifier::NoHost;
    use units::unit::from_texts;

    fn unit(name: &str, text: &str) -> Unit {
        let name = UnitName::parse(name).unwrap();
        from_texts(&name, &[("/x", text.as_bytes())], &NoHost, &UtcOnly)
    }

    fn line(unit: &Unit, phase: Phase) -> String {
        let commands = commands(unit, phase);
        let words = commands.iter().flat_map(|it| {
            let mut words = vec![it.program.clone()];
            words.extend(it.arguments.clone());
            words
        });
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_unit_is_the_command_that_its_manual_page_says() {
        let rows = [
            (
                "srv-a.mount",
                "[Mount]\nWhat=/dev/vdb\nWhere=/srv/a\nType=ext4\nOptions=noatime,nofail\n",
                "/bin/mount /dev/vdb /srv/a -t ext4 -o noatime,nofail,X-mount.mkdir=0755",
                "/bin/umount /srv/a -c",
            ),
            (
                "srv-b.mount",
                "[Mount]\nWhat=UUID=\"12-34\"\nLazyUnmount=yes\nDirectoryMode=0700\n",
                "/bin/mount UUID=12-34 /srv/b -o X-mount.mkdir=0700",
                "/bin/umount /srv/b -c -l",
            ),
            // The root stays until PID 1 takes it away.
            (
                "-.mount",
                "[Mount]\nWhat=/dev/vda\nWhere=/\n",
                "/bin/mount /dev/vda / -o X-mount.mkdir=0755",
                "",
            ),
            (
                "dev-vdc.swap",
                "[Swap]\nWhat=/dev/vdc\nPriority=5\nOptions=discard\n",
                "/sbin/swapon -p 5 -o discard /dev/vdc",
                "/sbin/swapoff /dev/vdc",
            ),
        ];
        for (name, text, start, stop) in rows {
            let unit = unit(name, text);
            assert_eq!(line(&unit, Phase::Start), start);
            assert_eq!(line(&unit, Phase::Stop), stop);
            assert_eq!(line(&unit, Phase::Reload), "");
        }
        let service = self::unit("a.service", "[Service]\nExecStart=/bin/x y\n");
        assert_eq!(line(&service, Phase::Start), "/bin/x y");
    }

    #[test]
    fn the_kernels_word_counts_but_for_what_is_on_its_way() {
        let of = |sub| State {
            sub,
            ..State::default()
        };
        for (before, is_there, after) in [
            (Sub::Dead, true, Sub::Exited),
            (Sub::Exited, false, Sub::Dead),
            (Sub::Start, true, Sub::Start),
            (Sub::Stop, false, Sub::Stop),
            (Sub::Failed, true, Sub::Failed),
        ] {
            let mut state = of(before);
            assert_eq!(seen(&mut state, is_there), before != after);
            assert_eq!(state.sub, after);
        }
    }

    #[test]
    fn a_devices_unit_leads_to_its_file_and_has_its_time() {
        let device = |name: &str| super::device(&UnitName::parse(name).unwrap()).unwrap();
        assert_eq!(device("dev-ttyS0.device"), "/dev/ttyS0");
        assert_eq!(
            device("dev-disk-by\\x2duuid-12\\x2d34.device"),
            "/dev/disk/by-uuid/12-34"
        );
        assert_eq!(
            device("sys-subsystem-net-devices-eth0.device"),
            "/sys/class/net/eth0"
        );
        let quick = unit("dev-x.device", "[Unit]\nJobRunningTimeoutSec=3\n");
        assert_eq!(device_timeout(&quick), Span::from_secs(3));
        assert_eq!(device_timeout(&unit("dev-x.device", "")), DEVICE);
    }
}
