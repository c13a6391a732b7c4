// SPDX-License-Identifier: Apache-2.0
//! Signals that the client gets while it is attached. They are sent on to the workload, unless it
//! has a terminal: then Ctrl-C is a key like any other, and a signal is meant for the client.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// After so many SIGINTs or SIGTERMs the client leaves and the workload runs on, as with docker.
const LEAVE_AFTER: u32 = 3;

/// The reaction to a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Send it to the workload.
    Forward(&'static str),
    /// The terminal has another size.
    Resize,
    /// Leave, with the status of having been ended by that signal.
    Leave(u8),
}

/// The signals that we listen for.
pub(crate) struct Signals {
    sources: Vec<(Source, Signal)>,
    forward: bool,
    asked_to_end: u32,
}

#[derive(Clone, Copy)]
struct Source {
    name: &'static str,
    number: u8,
}

impl Signals {
    /// Begins to listen. `forward`: to the workload.
    pub(crate) fn listen(forward: bool) -> Result<Self, Failure> {
        let kinds = [
            ("INT", SignalKind::interrupt()),
            ("TERM", SignalKind::terminate()),
            ("HUP", SignalKind::hangup()),
            ("QUIT", SignalKind::quit()),
            ("USR1", SignalKind::user_defined1()),
            ("USR2", SignalKind::user_defined2()),
            ("WINCH", SignalKind::window_change()),
        ];
        let listen = |(name, kind): (&'static str, SignalKind)| {
            let number = u8::try_from(kind.as_raw_value()).unwrap_or_default();
            Ok((Source { name, number }, signal(kind)?))
        };
        let sources = kinds
            .into_iter()
            .map(listen)
            .collect::<std::io::Result<_>>()
            .map_err(|problem| Failure::new(format!("can't listen for signals: {problem}")))?;
        Ok(Self {
            sources,
            forward,
            asked_to_end: 0,
        })
    }

    /// The next signal. Nothing is lost when this is dropped half-way.
    pub(crate) async fn next(&mut self) -> Told {
        let source = std::future::poll_fn(|context| {
            for (source, signal) in &mut self.sources {
                if signal.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*source);
                }
            }
            std::task::Poll::Pending
        })
        .await;
        self.judge(source)
    }

    fn judge(&mut self, source: Source) -> Told {
        if source.name == "WINCH" {
            return Told::Resize;
        }
        if !self.forward {
            return Told::Leave(128 + source.number);
        }
        if matches!(source.name, "INT" | "TERM") {
            self.asked_to_end += 1;
        }
        if self.asked_to_end >= LEAVE_AFTER {
            Told::Leave(128 + source.number)
        } else {
            Told::Forward(source.name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT: Source = Source {
        name: "INT",
        number: 2,
    };

    #[tokio::test]
    async fn the_third_interrupt_leaves_the_workload_alone() {
        let mut signals = Signals::listen(true).unwrap();
        assert_eq!(signals.judge(INT), Told::Forward("INT"));
        assert_eq!(signals.judge(INT), Told::Forward("INT"));
        assert_eq!(signals.judge(INT), Told::Leave(130));
    }

    #[tokio::test]
    async fn with_a_terminal_a_signal_means_us() {
        let mut signals = Signals::listen(false).unwrap();
        assert_eq!(signals.judge(INT), Told::Leave(130));
    }
}
