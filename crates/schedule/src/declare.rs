// SPDX-License-Identifier: Apache-2.0
//! How a schedule comes to be: its declaration, and an older work that is wished again.

use std::collections::VecDeque;
use std::sync::Arc;

use identity::{Effect, Permit, UserKey};
use model::error::{Error, Within};
use model::name::{Tenant, Uid};
use model::pod::probe::Ask;
use model::schedule::request::{Declare, Named};
use model::schedule::spec::NeedOf;
use model::schedule::{Spec, State, When, Why, Work, cycle};
use units::name::UnitName;

use crate::effects;
use crate::handle::{Schedules, Shared, ask};
use crate::kept::{self, Kept, Status, Wish};
use crate::task::Order;

const DECLARE: &str = "schedule.Declare";
const UNDO: &str = "schedule.Undo";

impl Schedules {
    /// Keeps a schedule, for the user of the permit.
    ///
    /// # Errors
    /// `INVALID_FIELD` (another node's, or a time that is past), `LIMIT_EXCEEDED`, `DEGRADED`.
    /// Nothing has changed then.
    pub async fn declare(&self, permit: Permit, request: Declare) -> Result<Arc<Status>, Error> {
        self.wish(permit, request, DECLARE).await
    }

    async fn wish(
        &self,
        permit: Permit,
        request: Declare,
        action: &'static str,
    ) -> Result<Arc<Status>, Error> {
        let Declare { named, spec } = request;
        permit.demand(&named.tenant, &Effect::on(action, &named.path()))?;
        for effect in self.effects_of_declare(&named, &spec)? {
            permit.demand(&named.tenant, &effect)?;
        }
        self.check_node(&spec)?;
        check_units(&named, &spec)?;
        let owner = permit.user().clone();
        let shared = self.shared().clone();
        // A client that goes away leaves it whole.
        let declared = tokio::spawn(async move { shared.declare(named, spec, owner).await });
        let broken = |e| Error::internal(format!("the request broke off: {e}"));
        declared.await.map_err(broken)?
    }

    /// What the runs of a schedule do, at its name: its declaration needs permission for that.
    ///
    /// # Errors
    /// `INVALID_FIELD`: what is to run can't be named so.
    pub fn effects_of_declare(&self, named: &Named, spec: &Spec) -> Result<Vec<Effect>, Error> {
        let actor = self.shared().actor(named);
        actor.check_labels(&spec.work)?;
        let mut effects = actor.effects_of_start(&spec.work, &named.path())?;
        if matches!(&spec.health, Some(health) if matches!(health.ask, Ask::Exec(_))) {
            effects.push(Effect::below(effects::RUN_EXECUTABLE, &named.path()));
        }
        Ok(effects)
    }

    fn check_node(&self, spec: &Spec) -> Result<(), Error> {
        let own = &self.shared().settings.node_name;
        if spec.node.is_empty() || spec.node == *own {
            return Ok(());
        }
        let problem = format!("is {}, but this node is {own}", spec.node);
        Err(Error::invalid("spec.node", problem).hint(format!(
            "declare it there: `aurae config get-contexts` shows the contexts, \
             `aurae --node CONTEXT schedule …` asks the node {}",
            spec.node
        )))
    }

    /// What an older revision of a schedule's work would be declared as.
    ///
    /// # Errors
    /// `NOT_FOUND`: there is no such schedule or revision.
    pub async fn revision(&self, named: &Named, number: u64) -> Result<Declare, Error> {
        let status = self.shared().find(named)?.status.borrow().clone();
        let state = &status.state;
        let older = state.revisions.iter().rev();
        let mut older = older.filter(|it| it.number != state.revision);
        let found = match number {
            0 => older.next(),
            number => older.find(|it| it.number == number),
        };
        let gone = || {
            let what = match number {
                0 => "an older revision".to_owned(),
                number => format!("the revision {number}"),
            };
            let error = Error::not_found("revision", format!("{what} of {}", named.name));
            error.hint("`aurae schedule describe` shows those that are kept, of replicas")
        };
        let number = found.ok_or_else(gone)?.number;
        let (tenant, name) = (named.tenant.to_string(), named.name.to_string());
        let work = self.store().schedule_revision(tenant, name, number).await?;
        let work = work.and_then(|work| serde_json::from_slice::<Work>(&work).ok());
        let mut draft: model::schedule::spec::Draft = Spec::clone(&status.wish.spec).into();
        draft.work = work.ok_or_else(gone)?;
        Ok(Declare {
            named: named.clone(),
            spec: draft.try_into()?,
        })
    }

    /// Makes what [`Schedules::revision`] has answered the wish of the permit's user.
    ///
    /// # Errors
    /// As of [`Schedules::declare`].
    pub async fn undo(&self, permit: Permit, request: Declare) -> Result<Arc<Status>, Error> {
        self.wish(permit, request, UNDO).await
    }
}

/// Units are the machine's, and so is what needs one.
fn check_units(named: &Named, spec: &Spec) -> Result<(), Error> {
    for (i, need) in spec.needs.iter().enumerate() {
        let NeedOf::Unit(unit) = &need.of else {
            continue;
        };
        let field = format!("spec.needs[{i}].unit");
        if named.tenant != Tenant::system() {
            let problem =
                "is a unit of the machine, which schedules of the tenant system alone need";
            return Err(Error::invalid(field, problem));
        }
        UnitName::parse(unit).map_err(|problem| Error::invalid(field, problem))?;
    }
    Ok(())
}

impl Shared {
    pub(crate) async fn declare(
        self: Arc<Self>,
        named: Named,
        spec: Spec,
        owner: UserKey,
    ) -> Result<Arc<Status>, Error> {
        let yard = self.yards.of(&named.tenant);
        let _one_at_a_time = yard.declaring.lock().await;
        let now = runtime::now();
        let known = self.directory.handle(&named);
        let same = known.as_ref().is_some_and(|handle| {
            let status = handle.status.borrow();
            *status.wish.spec == spec && status.wish.owner == owner
        });
        if let (When::At(time), false) = (&spec.when, same)
            && *time <= now
        {
            let error = Error::invalid("spec.when.at", "is a time that has passed");
            return Err(error.hint("leave `when` out to run it now"));
        }
        if !same {
            self.check_chain(&named, &spec)?;
        }
        if let Some(handle) = known {
            // One that is being removed is wished again.
            let leaves = handle.status.borrow().state.leaving.is_some();
            if same && !leaves {
                return Ok(handle.status.borrow().clone());
            }
            self.directory.admit(&named, &spec)?;
            let spec = Arc::new(spec);
            let declared = ask(&handle, &named, |reply| Order::Declare(spec, owner, reply)).await;
            // What is wished now, whether it is this one or the one before.
            let wished = handle.status.borrow().wish.spec.clone();
            self.directory.count(&named, &wished);
            return declared;
        }
        let held = self.ports.runtime.hold_spec(&named.tenant, &spec, false);
        let held = held.map_err(|e| e.field("spec"))?;
        let counted = (self.pool.take(&named.tenant, 1)?, held);
        let mut state = State::new(&spec, now);
        // Of one of that name that was removed: the records of its runs are still there.
        state.numbers = self.actor(&named).last_number();
        let wish = Wish {
            named,
            uid: new_uid()?,
            generation: 1,
            owner,
            created: now,
            changed: now,
            spec: Arc::new(spec),
        };
        let (work, revisions) = kept::revisions(&wish, &state)?;
        let row = kept::row(&wish, &state)?;
        self.store.put_schedule(row, work, revisions).await?;
        let kept = Kept {
            wish,
            state,
            history: VecDeque::new(),
            lines: 0,
        };
        let mut status = self.clone().begin(kept, counted).status;
        // Its first step, which says what it waits for.
        let first =
            |status: &Arc<Status>| status.why != Why::Starting || !status.state.runs.is_empty();
        let status = status.wait_for(first).await;
        let gone = |_| Error::internal("the task of a schedule ended early");
        status.map(|status| status.clone()).map_err(gone)
    }

    /// What waits for itself, also through others, never begins, or never ends.
    fn check_chain(&self, named: &Named, spec: &Spec) -> Result<(), Error> {
        let other = |name: &model::name::Label| {
            let other = Named {
                tenant: named.tenant.clone(),
                name: name.clone(),
            };
            let handle = self.directory.handle(&other)?;
            Some(handle.status.borrow().wish.spec.clone())
        };
        cycle::check(&named.name, spec, other).within("spec")
    }
}

/// 128 random bits.
pub(crate) fn new_uid() -> Result<Uid, Error> {
    let mut bits = [0; 16];
    rustix::rand::getrandom(&mut bits, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| Error::internal(format!("no random bits: {e}")).errno(e.raw_os_error()))?;
    Ok(Uid(bits))
}
