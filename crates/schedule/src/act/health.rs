// SPDX-License-Identifier: Apache-2.0
//! A run as its health check reaches it: programs in its cell, and the ports of that. Each question
//! is an act on behalf of the schedule's owner.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::future::BoxFuture;
use identity::{Effect, UserKey};
use model::error::Error;
use model::executable::{self, ExecutableSpec};
use model::exit::Exit;
use model::label::Labels;
use model::name::ObjectPath;
use model::object::{Kind, ObjectRef};
use model::request::{RunExecutable, WaitFor};
use model::schedule::Work;
use pod::{Ports, Reach, Stream};
use runtime::beside::unique_name;

use super::Actor;
use crate::effects::{RUN_EXECUTABLE, STOP, below};

const GET: &str = "runtime.Get";
/// With what the names of these programs begin: no run's own has such a one by chance.
const NAME: &str = "health-";

/// See the module.
pub(crate) struct Reached {
    actor: Actor,
    owner: UserKey,
    run: ObjectPath,
    /// What the run's first program is like: what is run beside it is the same user's, with the
    /// same variables.
    like: ExecutableSpec,
}

impl Actor {
    /// A run that goes on; `None`: a pod, which has probes.
    pub(crate) fn reached(&self, owner: &UserKey, work: &Work, number: u64) -> Option<Reached> {
        let first = match work {
            Work::Executable { program, .. } => program,
            Work::Cell { programs, .. } => programs.first()?,
            Work::Pod { .. } => return None,
        };
        Some(Reached {
            actor: self.clone(),
            owner: owner.clone(),
            run: self.run(number).ok()?,
            like: first.spec.clone(),
        })
    }
}

impl Reached {
    async fn exec_now(&self, argv: &[String], timeout: Duration) -> Result<Exit, Error> {
        let path = below(&self.run, &unique_name(NAME)?)?;
        let permit = |action| {
            let effects = vec![Effect::on(action, &path)];
            self.actor.permit(&self.owner, effects, "a health check")
        };
        let request = RunExecutable {
            tenant: self.actor.named.tenant.clone(),
            path: path.clone(),
            labels: Labels::default(),
            spec: beside(&self.like, argv)?,
            request_id: None,
            wait_for: WaitFor::Exited,
            own_cell: None,
            attach_follows: false,
        };
        let (asks, stops) = (permit(RUN_EXECUTABLE)?, || permit(STOP));
        let runtime = &self.actor.ports.runtime;
        runtime.run_within(asks, request, timeout, stops).await
    }
}

impl Reach for Reached {
    fn exec<'a>(
        &'a self,
        _: &'a str,
        argv: &'a [String],
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Exit, Error>> {
        Box::pin(self.exec_now(argv, timeout))
    }
}

impl Ports for Reached {
    fn dial(
        &self,
        host: Option<IpAddr>,
        port: u16,
        timeout: Duration,
    ) -> BoxFuture<'_, Result<Box<dyn Stream>, Error>> {
        Box::pin(async move {
            let effects = vec![Effect::on(GET, &self.run)];
            let permit = self.actor.permit(&self.owner, effects, "a health check")?;
            let cell = ObjectRef {
                kind: Some(Kind::Cell),
                ..ObjectRef::new(self.actor.named.tenant.clone(), self.run.clone())
            };
            let runtime = &self.actor.ports.runtime;
            let dialed = runtime.dial(permit, &cell, (host, port), timeout).await;
            dialed.map(|stream| Box::new(stream) as Box<dyn Stream>)
        })
    }
}

/// A program that runs beside another one, as `exec` has it, and leaves no record.
fn beside(like: &ExecutableSpec, argv: &[String]) -> Result<ExecutableSpec, Error> {
    let like = executable::Draft::from(like.clone());
    executable::Draft {
        argv: argv.to_vec(),
        auto_remove: true,
        stop_grace: Some(Duration::ZERO),
        env: like.env,
        secret_env: like.secret_env,
        cwd: like.cwd,
        cwd_optional: like.cwd_optional,
        user: like.user,
        group: like.group,
        groups: like.groups,
        capabilities: like.capabilities,
        no_new_privileges: like.no_new_privileges,
        seccomp: like.seccomp,
        ..executable::Draft::default()
    }
    .try_into()
}
