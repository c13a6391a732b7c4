// SPDX-License-Identifier: Apache-2.0
//! The machine's watchdog: it starts the machine anew where node-init doesn't come round in its
//! loop any more. Signs of life are of node-init alone: a daemon that dies is started again, and is
//! no reason to start a machine anew.
//!
//! ```text
//! Absent ──the device is there──▶ Counting ──the last steps──▶ Ending, or stopped (halt)
//!    └─ looked for again every 5 s          a sign every third of the time
//! ```

use std::path::PathBuf;
use std::time::Duration;

use kernel::poll::Deadline;
use kernel::watchdog::Watchdog;

use super::Node;
use super::console::Console;
use crate::protocol::{PowerMode, Role};

/// Between two looks for a device: its module may be loaded by a service.
const LOOK: Duration = Duration::from_secs(5);

/// What the configuration says of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The device; `/dev/watchdog0`.
    pub device: PathBuf,
    /// After which time without a sign the machine starts anew. Zero: the device is left alone.
    pub timeout: Duration,
    /// The same for the machine's last steps, which nothing watches but the device.
    pub end: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            device: "/dev/watchdog0".into(),
            timeout: Duration::ZERO,
            end: Duration::from_secs(600),
        }
    }
}

/// See the module.
pub(super) struct Dog {
    settings: Settings,
    counting: Option<Watchdog>,
    /// What the device took.
    timeout: Duration,
    /// When the next sign, or the next look, is due. `None`: never.
    due: Option<Deadline>,
    /// The failure that was said last: the same one isn't said twice.
    said: Option<i32>,
}

impl Dog {
    pub(super) fn new(settings: Settings, role: Role) -> Dog {
        let wanted = role == Role::Machine && !settings.timeout.is_zero();
        Dog {
            timeout: settings.timeout,
            settings,
            counting: None,
            due: wanted.then(|| Deadline::after(Duration::ZERO)),
            said: None,
        }
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        self.due
    }

    /// Gives a sign of life where one is due, or looks for the device.
    fn give_sign(&mut self, console: &Console) {
        if !self.due.is_some_and(Deadline::passed) {
            return;
        }
        let done = match &self.counting {
            Some(watchdog) => watchdog.sign(),
            None => self.begin(console),
        };
        if let Err(error) = done {
            self.say(console, &error);
        }
        let pause = match self.counting {
            Some(_) => self.timeout / 3,
            None => LOOK,
        };
        self.due = Some(Deadline::after(pause));
    }

    fn begin(&mut self, console: &Console) -> kernel::Result<()> {
        let watchdog = Watchdog::start(&self.settings.device)?;
        // One that can't be set counts with its driver's time, of which 15 s are the least that is
        // customary.
        self.timeout = match watchdog.set_timeout(self.settings.timeout) {
            Ok(taken) => taken,
            Err(error) => {
                console.say(&format!("the watchdog keeps its own time: {error}"));
                self.timeout.min(Duration::from_secs(15))
            }
        };
        watchdog.sign()?;
        console.say(&format!(
            "{} starts the machine anew after {:?} without a sign",
            self.settings.device.display(),
            self.timeout
        ));
        self.counting = Some(watchdog);
        Ok(())
    }

    fn say(&mut self, console: &Console, error: &kernel::Error) {
        if self.said.replace(error.errno()) != Some(error.errno()) {
            console.say(&format!("the watchdog: {error}"));
        }
    }

    /// Nothing gives a sign any more: the device sees to it that the machine's end comes to an end.
    /// A machine that is halted stays so.
    fn end(&mut self, mode: PowerMode, console: &Console) {
        self.due = None;
        let Some(watchdog) = self.counting.take() else {
            return;
        };
        let done = match mode {
            PowerMode::Halt => watchdog.stop(),
            PowerMode::PowerOff | PowerMode::Reboot | PowerMode::Exit => {
                let set = watchdog.set_timeout(self.settings.end);
                let signed = watchdog.sign();
                // Open as long as this process is there.
                self.counting = Some(watchdog);
                set.and(signed)
            }
        };
        if let Err(error) = done {
            self.say(console, &error);
        }
    }
}

impl Node {
    pub(super) fn give_sign(&mut self) {
        self.dog.give_sign(&self.console);
    }

    /// See [`Dog::end`].
    pub(super) fn end_watchdog(&mut self, mode: PowerMode) {
        self.dog.end(mode, &self.console);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dog(device: &str, timeout: u64, role: Role) -> Dog {
        let settings = Settings {
            device: device.into(),
            timeout: Duration::from_secs(timeout),
            ..Settings::default()
        };
        Dog::new(settings, role)
    }

    #[test]
    fn where_it_is_not_wanted_no_device_is_opened() {
        let console = Console::default();
        for (timeout, role) in [
            (0, Role::Machine),
            (60, Role::Service),
            (60, Role::Container),
        ] {
            let mut dog = dog("/dev/null", timeout, role);
            dog.give_sign(&console);
            assert!(dog.deadline().is_none() && dog.counting.is_none());
        }
    }

    #[test]
    fn a_device_that_comes_later_is_found_and_one_that_counts_gets_signs() {
        let console = Console::default();
        let mut dog = dog("/dev/absent", 60, Role::Machine);
        dog.give_sign(&console);
        assert!(dog.counting.is_none());
        let left = dog.deadline().unwrap().remaining().unwrap();
        assert!(left <= LOOK && left > Duration::from_secs(1), "{left:?}");
        // /dev/null takes signs, and no time.
        dog.settings.device = "/dev/null".into();
        dog.due = Some(Deadline::after(Duration::ZERO));
        dog.give_sign(&console);
        assert!(dog.counting.is_some());
        let left = dog.deadline().unwrap().remaining().unwrap();
        assert!(left <= Duration::from_secs(5), "{left:?}");
    }

    #[test]
    fn a_halted_machine_is_not_started_anew() {
        let console = Console::default();
        for (mode, counts) in [(PowerMode::Halt, false), (PowerMode::Reboot, true)] {
            let mut dog = dog("/dev/null", 60, Role::Machine);
            dog.give_sign(&console);
            dog.end(mode, &console);
            assert_eq!(dog.counting.is_some(), counts, "{mode:?}");
            assert!(dog.deadline().is_none());
        }
    }
}
