// SPDX-License-Identifier: Apache-2.0
//! Whether the node has room for what has time: the kernel's pressure, read at most once a second
//! however many ask.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kernel::pressure::Pressure;
use model::schedule::spec::Lax;

/// How long a look at the kernel's files is good for.
const FRESH: Duration = Duration::from_secs(1);
/// How long it must be quiet where the spec says nothing.
const QUIET: Duration = Duration::from_secs(30);

/// See the module. Clones share what was read.
#[derive(Clone)]
pub struct Room(Arc<Inner>);

struct Inner {
    read: Box<dyn Fn() -> kernel::Result<Pressure> + Send + Sync>,
    last: Mutex<Option<(Instant, Result<Pressure, String>)>>,
}

impl Default for Room {
    /// The kernel's.
    fn default() -> Self {
        Self::reading(kernel::pressure::read)
    }
}

impl Room {
    /// Of another source.
    pub fn reading(read: impl Fn() -> kernel::Result<Pressure> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            read: Box::new(read),
            last: Mutex::default(),
        }))
    }

    fn pressure(&self) -> Result<Pressure, String> {
        let mut last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, read)) = &*last
            && at.elapsed() < FRESH
        {
            return read.clone();
        }
        let read = (self.0.read)().map_err(|e| format!("its pressure can't be read: {e}"));
        *last = Some((Instant::now(), read.clone()));
        read
    }

    /// What is too busy for that, in words; `None`: there is room, and was for long enough.
    /// `since`: when it was first so.
    pub(crate) fn busy(&self, lax: &Lax, since: &mut Option<Instant>) -> Option<String> {
        let over = match self.pressure() {
            Ok(pressure) => over(lax, pressure),
            Err(words) => Some(words),
        };
        if over.is_some() {
            *since = None;
            return over;
        }
        let quiet = since.get_or_insert_with(Instant::now).elapsed();
        let wanted = lax.quiet_for.unwrap_or(QUIET);
        let left = wanted.saturating_sub(quiet);
        (!left.is_zero()).then(|| format!("it must be quiet for {} s more", left.as_secs() + 1))
    }
}

fn over(lax: &Lax, pressure: Pressure) -> Option<String> {
    let bounds = [
        ("CPU", pressure.cpu, lax.cpu.unwrap_or(20)),
        ("memory", pressure.memory, lax.memory.unwrap_or(5)),
        ("I/O", pressure.io, lax.io.unwrap_or(10)),
    ];
    let busy = bounds
        .iter()
        .find(|(_, now, most)| *now > u32::from(*most) * 100);
    busy.map(|(what, now, most)| {
        let (whole, part) = (now / 100, now % 100);
        format!("{whole}.{part:02} % of the time something waits for {what}, at most {most} %")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_once_it_was_quiet_for_long_enough() {
        let lax = Lax {
            quiet_for: Some(Duration::ZERO),
            ..Lax::default()
        };
        let busy = |cpu| {
            Room::reading(move || {
                Ok(Pressure {
                    cpu,
                    ..Default::default()
                })
            })
        };
        let mut since = None;
        assert!(busy(2001).busy(&lax, &mut since).unwrap().contains("CPU"));
        assert_eq!(busy(2000).busy(&lax, &mut since), None);
        let mut since = None;
        let words = busy(0).busy(&Lax::default(), &mut since).unwrap();
        assert!(words.contains("30 s more") && since.is_some(), "{words}");
        assert!(busy(9000).busy(&lax, &mut since).is_some() && since.is_none());
    }
}
