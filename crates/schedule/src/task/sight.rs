// SPDX-License-Identifier: Apache-2.0
//! What a schedule's task sees around it: the other schedules of its tenant, its own runs, configs,
//! and the node.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::name::{Label, Tenant};
use model::schedule::given::Config;
use model::schedule::spec::Lax;
use model::schedule::state::Run;
use model::schedule::steps::{Other, Sight, UnitSeen};
use model::schedule::{Spec, Work};

use crate::act::Actor;
use crate::handle::Settings;
use crate::task::health::Health;

/// The kind of what was made from a crontab.
const CRONTAB: &str = "crontab";

/// Knows the schedules of all tenants.
pub(crate) trait Others: Send + Sync {
    /// One of that tenant.
    fn other(&self, tenant: &Tenant, name: &Label) -> Option<Other>;
}

/// See the module.
pub(super) struct Around<'a> {
    pub(super) others: &'a dyn Others,
    pub(super) actor: &'a Actor,
    pub(super) settings: &'a Settings,
    /// The work of the last revision that was rolled out whole, where it is another one.
    pub(super) stable: Option<&'a (u64, Arc<Work>)>,
    /// Of runs that are asked.
    pub(super) health: Option<&'a Health>,
    /// Since when there was room.
    pub(super) since: Cell<Option<Instant>>,
}

impl Sight for Around<'_> {
    fn other(&self, name: &Label) -> Option<Other> {
        self.others.other(&self.actor.named.tenant, name)
    }

    fn unit(&self, name: &str) -> Option<UnitSeen> {
        self.actor.ports.units.look(name)
    }

    fn busy(&self, lax: &Lax) -> Option<String> {
        let mut since = self.since.get();
        let busy = self.settings.room.busy(lax, &mut since);
        self.since.set(since);
        busy
    }

    fn ready(&self, run: &Run) -> bool {
        let answers = self.health.is_none_or(|it| it.is_well(run.number));
        answers && self.actor.is_ready(&run.shape, run.number)
    }

    fn config(&self, config: &Config) -> Option<u64> {
        let configs = &self.actor.ports.configs;
        configs.changed(&self.actor.named.tenant, config)
    }

    fn stable(&self, revision: u64) -> Option<&Work> {
        let stable = self.stable.filter(|(number, _)| *number == revision);
        stable.map(|(_, work)| &**work)
    }

    fn elsewhere(&self, spec: &Spec) -> Option<(String, Option<Duration>)> {
        let has = &self.settings.node_labels;
        let mut wanted = spec.node_labels.iter();
        let other = wanted.find(|(key, value)| has.get(*key) != Some(*value));
        if let Some((key, value)) = other {
            return Some((format!("this node has not the label {key}={value}"), None));
        }
        match spec.kind == CRONTAB {
            true => (self.settings.other_cron)().map(|(words, again)| (words, Some(again))),
            false => None,
        }
    }

    fn boot(&self) -> &str {
        &self.settings.boot
    }
}
