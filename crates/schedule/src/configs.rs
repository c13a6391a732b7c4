// SPDX-License-Identifier: Apache-2.0
//! The configs of all tenants: what is kept of them in memory, and the calls that change them. The
//! texts of a secret leave this crate in the spec of a pod alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use identity::{Effect, Permit, UserKey};
use model::error::{Error, Reason};
use model::name::Tenant;
use model::schedule::given::{Config, Kind, Texts};
use model::schedule::request::{NamedConfig, PutConfig};
use model::time::Timestamp;
use store::{ConfigRow, Store};

use crate::handle::{Counted, Schedules};

/// The action of putting one.
const PUT: &str = "schedule.PutConfig";
/// The action of removing one.
const REMOVE: &str = "schedule.RemoveConfig";

/// A config as it is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptConfig {
    /// The config's tenant, kind and name.
    pub named: NamedConfig,
    /// Its texts.
    pub data: Texts,
    /// It can't be changed.
    pub immutable: bool,
    /// How often it was put.
    pub generation: u64,
    /// When last.
    pub changed: Timestamp,
    /// By whom.
    pub owner: UserKey,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Configs(Mutex<BTreeMap<NamedConfig, Entry>>);

/// A config, and what it counts in its tenant's quotas.
struct Entry {
    kept: Arc<KeptConfig>,
    counted: Counted,
}

impl Configs {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<NamedConfig, Entry>> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, named: &NamedConfig) -> Option<Arc<KeptConfig>> {
        Some(self.lock().get(named)?.kept.clone())
    }

    /// What is there counts, and nothing that was to take its place.
    fn count_again(&self, named: &NamedConfig) {
        if let Some(Entry { kept, counted }) = self.lock().get_mut(named) {
            counted.1.set(&kept.data);
        }
    }

    fn of(&self, tenant: &Tenant, config: &Config) -> Option<Arc<KeptConfig>> {
        self.find(&NamedConfig {
            tenant: tenant.clone(),
            config: config.clone(),
        })
    }

    /// The texts of one.
    pub(crate) fn texts(&self, tenant: &Tenant, config: &Config) -> Option<Texts> {
        Some(self.of(tenant, config)?.data.clone())
    }

    /// When one was changed last; `None`: it isn't there.
    pub(crate) fn changed(&self, tenant: &Tenant, config: &Config) -> Option<u64> {
        Some(self.of(tenant, config)?.changed.0)
    }

    /// Takes up what an earlier daemon has kept. What can't be read is left out, with a line in the
    /// log, and stays in the database.
    pub(crate) async fn load(
        store: &Store,
        count: impl Fn(&Tenant, &Texts) -> Result<Counted, Error>,
    ) -> Result<Self, Error> {
        let configs = Self::default();
        for row in store.configs().await? {
            let (tenant, name) = (row.tenant.clone(), row.name.clone());
            match read(row) {
                Ok(kept) => {
                    let counted = count(&kept.named.tenant, &kept.data)?;
                    let (named, kept) = (kept.named.clone(), Arc::new(kept));
                    configs.lock().insert(named, Entry { kept, counted });
                }
                Err(error) => tracing::error!(tenant, name, error, "a config can't be read"),
            }
        }
        Ok(configs)
    }
}

impl Configs {
    /// Whether the tenant may have these texts: in place of others, which then count as many, or as
    /// a new config.
    fn admit(
        &self,
        schedules: &Schedules,
        named: &NamedConfig,
        data: &Texts,
    ) -> Result<Option<Counted>, Error> {
        let too_much = |e: Error| e.field("data");
        if let Some(entry) = self.lock().get_mut(named) {
            entry.counted.1.grow(data).map_err(too_much)?;
            return Ok(None);
        }
        let taken = schedules.take(&named.tenant)?;
        let held = schedules.hold_texts(&named.tenant, data);
        Ok(Some((taken, held.map_err(too_much)?)))
    }
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::ConfigMap => "config_map",
        Kind::Secret => "secret",
    }
}

fn read(row: ConfigRow) -> Result<KeptConfig, String> {
    let said = |e: &dyn std::fmt::Display| e.to_string();
    let kind = [Kind::ConfigMap, Kind::Secret];
    let kind = kind.into_iter().find(|it| word(*it) == row.kind);
    Ok(KeptConfig {
        named: NamedConfig {
            tenant: row.tenant.parse().map_err(|e| said(&e))?,
            config: Config {
                kind: kind.ok_or_else(|| format!("{} is no kind", row.kind))?,
                name: row.name.parse().map_err(|e| said(&e))?,
            },
        },
        data: serde_json::from_slice(&row.data).map_err(|e| said(&e))?,
        immutable: row.immutable,
        generation: row.generation,
        changed: Timestamp(u64::try_from(row.changed_ns).unwrap_or(0)),
        owner: UserKey {
            tenant: row.owner_tenant.parse().map_err(|e| said(&e))?,
            name: row.owner.parse().map_err(|e| said(&e))?,
        },
    })
}

fn row(kept: &KeptConfig) -> Result<ConfigRow, Error> {
    Ok(ConfigRow {
        tenant: kept.named.tenant.to_string(),
        kind: word(kept.named.config.kind).to_owned(),
        name: kept.named.config.name.to_string(),
        generation: kept.generation,
        owner_tenant: kept.owner.tenant.to_string(),
        owner: kept.owner.name.to_string(),
        changed_ns: i64::try_from(kept.changed.0).unwrap_or(i64::MAX),
        immutable: kept.immutable,
        data: crate::kept::json(&kept.data)?,
    })
}

fn missing(named: &NamedConfig) -> Error {
    Error::not_found("config", named.config.to_string())
}

impl Schedules {
    /// Keeps a config, for the user of the permit.
    ///
    /// # Errors
    /// `WRONG_STATE`: it can't be changed. `LIMIT_EXCEEDED`, `DEGRADED`. Nothing has changed then.
    pub async fn put_config(
        &self,
        permit: Permit,
        request: PutConfig,
    ) -> Result<Arc<KeptConfig>, Error> {
        let PutConfig {
            named,
            data,
            immutable,
        } = request;
        permit.demand(&named.tenant, &Effect::on(PUT, &named.path()))?;
        let (schedules, owner) = (self.clone(), permit.user().clone());
        // A client that goes away leaves it whole.
        let put = tokio::spawn(async move {
            let yard = schedules.yard(&named.tenant);
            let _one_at_a_time = yard.declaring.lock().await;
            let configs = schedules.configs();
            let known = configs.find(&named);
            if let Some(known) = &known {
                if known.data == data && known.immutable == immutable {
                    return Ok(known.clone());
                }
                if known.immutable {
                    let message = format!("the {} is immutable", named.config);
                    let error = Error::new(Reason::WrongState, message);
                    let error = error.about("config", named.config.to_string());
                    return Err(error.hint("remove it, or give the new one another name"));
                }
            }
            let counted = configs.admit(&schedules, &named, &data)?;
            // Two changes have two times, whatever the clock does.
            let before = known.as_ref().map_or(0, |it| it.changed.0);
            let kept = Arc::new(KeptConfig {
                generation: known.map_or(0, |it| it.generation).saturating_add(1),
                changed: runtime::now().max(Timestamp(before.saturating_add(1))),
                named: named.clone(),
                data,
                immutable,
                owner,
            });
            if let Err(error) = schedules.store().put_config(row(&kept)?).await {
                configs.count_again(&named);
                return Err(error.into());
            }
            let mut all = configs.lock();
            match (all.get_mut(&named), counted) {
                (Some(entry), _) => {
                    entry.counted.1.set(&kept.data);
                    entry.kept = kept.clone();
                }
                (None, Some(counted)) => {
                    let kept = kept.clone();
                    all.insert(named, Entry { kept, counted });
                }
                (None, None) => return Err(missing(&named)),
            }
            drop(all);
            yard.tell();
            Ok(kept)
        });
        let broken = |e| Error::internal(format!("the request broke off: {e}"));
        put.await.map_err(broken)?
    }

    /// One config.
    ///
    /// # Errors
    /// `NOT_FOUND`.
    pub fn get_config(
        &self,
        permit: &Permit,
        named: &NamedConfig,
    ) -> Result<Arc<KeptConfig>, Error> {
        permit.demand_tenant(&named.tenant)?;
        self.configs().find(named).ok_or_else(|| missing(named))
    }

    /// The configs of a tenant, by kind and name.
    ///
    /// # Errors
    /// Where the permit does not cover that.
    pub fn list_configs(
        &self,
        permit: &Permit,
        tenant: &Tenant,
    ) -> Result<Vec<Arc<KeptConfig>>, Error> {
        permit.demand_tenant(tenant)?;
        let configs = self.configs();
        let all = configs.lock();
        let own = all.iter().filter(|(named, _)| named.tenant == *tenant);
        let own: Vec<_> = own.map(|(_, entry)| entry.kept.clone()).collect();
        drop(all);
        let shown = own.into_iter();
        let shown = shown.filter(|it| permit.shows(tenant, &it.named.path()));
        Ok(shown.collect())
    }

    /// Forgets a config. What runs keeps what it was given.
    ///
    /// # Errors
    /// `NOT_FOUND`, `DEGRADED`.
    pub async fn remove_config(&self, permit: Permit, named: &NamedConfig) -> Result<(), Error> {
        permit.demand(&named.tenant, &Effect::on(REMOVE, &named.path()))?;
        let (schedules, named) = (self.clone(), named.clone());
        let removed = tokio::spawn(async move {
            let yard = schedules.yard(&named.tenant);
            let _one_at_a_time = yard.declaring.lock().await;
            let configs = schedules.configs();
            configs.find(&named).ok_or_else(|| missing(&named))?;
            let (kind, name) = (word(named.config.kind), named.config.name.to_string());
            let tenant = named.tenant.to_string();
            let store = schedules.store();
            store.remove_config(tenant, kind.to_owned(), name).await?;
            configs.lock().remove(&named);
            yard.tell();
            Ok(())
        });
        let broken = |e| Error::internal(format!("the request broke off: {e}"));
        removed.await.map_err(broken)?
    }
}
