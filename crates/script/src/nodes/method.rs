// SPDX-License-Identifier: Apache-2.0
//! One method of the API as schema and descriptors know it, and the question that a program's call
//! of it becomes. Whether it is sent is `host`'s to say, `plan`'s or `apply`'s.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use language::schema::{Method, Schema, nearest};
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};

use super::Ask;
use crate::protocol::{Call, Failure};

/// What the schema and the descriptors know of a method.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its names, and whether it changes anything.
    pub method: &'static Method,
    /// Its types.
    pub descriptor: MethodDescriptor,
}

/// The API that calls are checked against.
#[derive(Clone, Copy, Debug)]
pub struct Api {
    /// What the language makes of it.
    pub schema: &'static Schema,
    /// Its descriptors.
    pub pool: &'static DescriptorPool,
}

/// Parts of the API that were read.
static PARTS: Mutex<BTreeMap<String, Api>> = Mutex::new(BTreeMap::new());

impl Api {
    /// The one that this client was built with.
    ///
    /// # Errors
    /// Only where the built-in descriptors are broken.
    pub fn built_in() -> Result<Self, Failure> {
        let schema = Schema::bare().map_err(|problem| broken(problem))?;
        let pool = api::descriptor_pool().map_err(|problem| broken(problem))?;
        Ok(Self { schema, pool })
    }

    /// What a subsystem's calls need of that one; none of a subsystem that there isn't. Read once.
    ///
    /// # Errors
    /// Only where the built-in descriptors are broken.
    pub fn of_subsystem(subsystem: &str) -> Result<Option<Self>, Failure> {
        let mut parts = PARTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = parts.get(subsystem) {
            return Ok(Some(*known));
        }
        let pool = api::part::of_subsystem(subsystem).map_err(|problem| broken(&problem))?;
        let Some(pool) = pool else { return Ok(None) };
        // For as long as the process runs, and no more than there are subsystems.
        let pool: &'static DescriptorPool = Box::leak(Box::new(pool));
        let schema: &'static Schema = Box::leak(Box::new(Schema::new(pool)));
        let part = Self { schema, pool };
        parts.insert(subsystem.to_owned(), part);
        Ok(Some(part))
    }

    /// The part that an action is of; the whole where there is no such part, which says so.
    pub(super) fn of_action(action: &str) -> Result<Self, Failure> {
        let subsystem = action.split('.').next().unwrap_or_default();
        let part = Self::of_subsystem(subsystem)?;
        let part = part.filter(|part| part.schema.method(action).is_some());
        part.map_or_else(Self::built_in, Ok)
    }

    pub(super) fn find(self, action: &str) -> Result<Found, Failure> {
        let method = self.schema.method(action);
        let method = method.ok_or_else(|| unknown(self.schema, action))?;
        let (service, name) = method.path.trim_start_matches('/').split_once('/').unzip();
        let found = service
            .and_then(|service| self.pool.get_service_by_name(service))
            .and_then(|service| service.methods().find(|one| Some(one.name()) == name));
        let descriptor = found.ok_or_else(|| broken(&format!("no descriptor of {action}")))?;
        Ok(Found { method, descriptor })
    }
}

fn broken(problem: &dyn std::fmt::Display) -> Failure {
    Failure::new("INTERNAL", problem.to_string())
}

fn unknown(schema: &Schema, action: &str) -> Failure {
    let methods = schema.subsystems.iter().flat_map(|one| one.methods.iter());
    let near = nearest(action, methods.map(|method| method.action.as_str()));
    let failure = Failure::new("NOT_OFFERED", format!("the API has no method {action}"));
    match near {
        Some(near) => failure.hint(format!("did you mean {near}?")),
        None => failure,
    }
}

/// A call that is to be decided about.
pub(crate) struct Question<'a> {
    pub(crate) found: &'a Found,
    pub(crate) call: &'a Call,
    /// Where in the program, where the caller wants to know.
    pub(crate) at: Option<String>,
}

impl Question<'_> {
    /// The call with a typed request.
    pub(crate) fn ask(&self, request: DynamicMessage) -> Ask {
        Ask {
            node: self.call.node.clone(),
            method: self.found.method,
            descriptor: self.found.descriptor.clone(),
            request,
            timeout: timeout(self.call),
        }
    }
}

pub(crate) fn timeout(call: &Call) -> Option<Duration> {
    let millis = call.timeout.filter(|millis| millis.is_finite())?;
    Duration::try_from_secs_f64(millis.max(0.0) / 1000.0).ok()
}
