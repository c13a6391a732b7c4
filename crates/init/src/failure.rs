// SPDX-License-Identifier: Apache-2.0
//! From an error of the kernel to the [`Failure`] that is sent to the daemon.

use crate::protocol::{Failure, Step};

/// The longest detail, in bytes; the codec refuses more than 1,024.
const DETAIL: usize = 900;

impl Failure {
    /// A failure with an errno and what it was about.
    pub(crate) fn new(step: Step, errno: i32, detail: impl Into<String>) -> Failure {
        let mut detail = detail.into();
        if detail.len() > DETAIL {
            let end = (0..=DETAIL)
                .rev()
                .find(|at| detail.is_char_boundary(*at))
                .unwrap_or(0);
            detail.truncate(end);
        }
        Failure {
            step,
            errno,
            detail,
        }
    }

    /// From an error of the kernel.
    pub(crate) fn of(step: Step, error: &kernel::Error) -> Failure {
        let detail = match error.detail() {
            "" => error.call().to_owned(),
            detail => format!("{} {detail}", error.call()),
        };
        Failure::new(step, error.errno(), detail)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let errno = std::io::Error::from_raw_os_error(self.errno);
        write!(f, "{:?}: {}: {errno}", self.step, self.detail)
    }
}

/// Says in which step an error came.
pub(crate) trait InStep<T> {
    /// Turns the error into a [`Failure`] of this step.
    fn step(self, step: Step) -> Result<T, Failure>;
}

impl<T> InStep<T> for kernel::Result<T> {
    fn step(self, step: Step) -> Result<T, Failure> {
        self.map_err(|error| Failure::of(step, &error))
    }
}

impl<T> InStep<T> for rustix::io::Result<T> {
    fn step(self, step: Step) -> Result<T, Failure> {
        self.map_err(|errno| Failure::new(step, errno.raw_os_error(), ""))
    }
}
