// SPDX-License-Identifier: Apache-2.0
//! The target of a request: the tenants of its objects, and each effect that it has on them. A
//! handler names all effects before the first happens; `authorize` decides each.

use std::fmt;

use model::name::{ObjectPath, Tenant};

use super::policy::Scope;

/// How far below its path an effect reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reach {
    /// The object at the path alone.
    #[default]
    Object,
    /// The object and everything below it. A denial of any path below refuses the whole effect.
    Subtree,
    /// Objects below the path are listed. Those that are denied to the caller are left out
    /// ([`super::permit::Permit::shows`]).
    Visible,
}

/// One thing that a request does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Effect {
    /// `subsystem.Method`, the method whose permission it takes.
    pub action: &'static str,
    /// Where; `None`: the tenant as a whole.
    pub path: Option<ObjectPath>,
    /// How far below the path the effect reaches.
    pub reach: Reach,
}

impl Effect {
    /// An effect on the object at `path` alone.
    pub fn on(action: &'static str, path: &ObjectPath) -> Self {
        Self {
            action,
            path: Some(path.clone()),
            reach: Reach::Object,
        }
    }

    /// On an object and everything below it.
    pub fn below(action: &'static str, path: &ObjectPath) -> Self {
        Self {
            reach: Reach::Subtree,
            ..Self::on(action, path)
        }
    }

    /// On the tenant as a whole, or on what has no path.
    pub fn of_tenant(action: &'static str) -> Self {
        Self {
            action,
            path: None,
            reach: Reach::Object,
        }
    }

    /// Whether permission for this effect is permission for the other one.
    pub(crate) fn includes(&self, other: &Effect) -> bool {
        let within = match (&self.path, &other.path) {
            (None, _) => true,
            (Some(own), Some(path)) if self.reach == Reach::Object => {
                own == path && other.reach == Reach::Object
            }
            (Some(own), Some(path)) => path.is_within(own),
            (Some(_), None) => false,
        };
        self.action == other.action && within
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.action)?;
        if let Some(path) = &self.path {
            write!(f, " {path}")?;
        }
        match self.reach {
            Reach::Subtree => f.write_str("/**"),
            Reach::Object | Reach::Visible => Ok(()),
        }
    }
}

/// The objects of a request, and its effects on them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// The tenants whose objects it is about.
    pub scope: Scope,
    /// The path of the object, where the request names one.
    pub path: Option<ObjectPath>,
    /// How far below it the request's own action reaches.
    pub reach: Reach,
    /// The effects of the request beside its own action, on objects of the same tenant.
    pub also: Vec<Effect>,
    /// For the audit: the user or the certificate that it is about; empty: none.
    pub about: String,
    /// The client's id of the request, for the audit.
    pub request_id: Option<String>,
}

impl Target {
    /// The caller's own tenant, no object.
    pub fn own() -> Self {
        Self::of(None, None)
    }

    /// An object, of the tenant that was named or else the caller's own.
    pub fn of(tenant: Option<Tenant>, path: Option<ObjectPath>) -> Self {
        Self {
            scope: tenant.map_or(Scope::Own, Scope::Tenant),
            path,
            reach: Reach::Object,
            also: Vec::new(),
            about: String::new(),
            request_id: None,
        }
    }

    /// The objects of every tenant.
    pub fn every_tenant() -> Self {
        Self {
            scope: Scope::Every,
            ..Self::own()
        }
    }

    /// The target, with another reach of the request's own action.
    #[must_use]
    pub fn reach(mut self, reach: Reach) -> Self {
        self.reach = reach;
        self
    }

    /// The target with one more effect.
    #[must_use]
    pub fn and(mut self, effect: Effect) -> Self {
        self.also.push(effect);
        self
    }

    /// The target with the user or the certificate that the call is about.
    #[must_use]
    pub fn about(mut self, what: impl Into<String>) -> Self {
        self.about = what.into();
        self
    }

    /// The target with the client's id of the request.
    #[must_use]
    pub fn request(mut self, id: impl Into<String>) -> Self {
        self.request_id = Some(id.into());
        self
    }

    /// The request's own effect, then the others.
    pub(crate) fn effects(&self, action: &'static str) -> Vec<Effect> {
        let own = Effect {
            action,
            path: self.path.clone(),
            reach: self.reach,
        };
        let mut effects = vec![own];
        effects.extend(self.also.iter().cloned());
        effects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ObjectPath {
        text.parse().unwrap()
    }

    #[test]
    fn an_effect_includes_what_it_reaches_and_nothing_else() {
        let (web, main) = (path("web"), path("web/main"));
        let whole = Effect::below("runtime.Stop", &web);
        assert!(whole.includes(&Effect::on("runtime.Stop", &main)));
        assert!(whole.includes(&Effect::below("runtime.Stop", &web)));
        assert!(!whole.includes(&Effect::on("runtime.Remove", &main)));
        assert!(!whole.includes(&Effect::on("runtime.Stop", &path("webs"))));
        let one = Effect::on("runtime.Stop", &web);
        assert!(one.includes(&Effect::on("runtime.Stop", &web)));
        assert!(!one.includes(&Effect::below("runtime.Stop", &web)));
        assert!(!one.includes(&Effect::on("runtime.Stop", &main)));
    }
}
