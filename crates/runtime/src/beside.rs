// SPDX-License-Identifier: Apache-2.0
//! Programs that run beside others to find out about them: probes of pods and health checks of
//! schedules are the callers. Such a one has a name of its own and a time, after which it is
//! killed.

use std::time::Duration;

use identity::Permit;
use model::error::{Error, Reason};
use model::exit::Exit;
use model::name::Label;
use model::object::{Kind, ObjectRef};
use model::request::{RunExecutable, Stop};
use model::status::Object;

use crate::Runtime;

impl Runtime {
    /// Runs a program and answers how it has ended.
    ///
    /// # Errors
    /// As of [`Runtime::run_executable`]; `DEADLINE` where it had not ended within the time: it was
    /// killed then, by the permit that `stop` gives.
    pub async fn run_within(
        &self,
        permit: Permit,
        request: RunExecutable,
        within: Duration,
        stop: impl FnOnce() -> Result<Permit, Error>,
    ) -> Result<Exit, Error> {
        let target = ObjectRef {
            kind: Some(Kind::Executable),
            ..ObjectRef::new(request.tenant.clone(), request.path.clone())
        };
        let run = self.run_executable(permit, request);
        match tokio::time::timeout(within, run).await {
            Ok(ended) => exit_of(&*ended?),
            Err(_) => {
                let grace = Some(Duration::ZERO);
                // It may have ended just now.
                drop(self.stop(stop()?, Stop { target, grace }).await);
                let message = format!("it had not ended after {within:?}, and was killed");
                Err(Error::new(Reason::Deadline, message))
            }
        }
    }
}

/// How an executable that has ended did.
///
/// # Errors
/// `INTERNAL`: it is a cell.
pub fn exit_of(object: &Object) -> Result<Exit, Error> {
    match object {
        Object::Executable(status) => Ok(status.exit.unwrap_or_else(Exit::unknown)),
        Object::Cell(_) => Err(Error::internal(
            "a cell has ended where a program was meant",
        )),
    }
}

/// A name that begins so and that no other object has by chance: 64 random bits.
///
/// # Errors
/// `INTERNAL`: the kernel has no random bits, or `prefix` begins no name.
pub fn unique_name(prefix: &str) -> Result<Label, Error> {
    let mut bits = [0; 8];
    rustix::rand::getrandom(&mut bits, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| Error::internal(format!("no random bits: {e}")))?;
    let name = format!("{prefix}{:016x}", u64::from_ne_bytes(bits));
    name.parse()
        .map_err(|e| Error::internal(format!("{name}: {e}")))
}
