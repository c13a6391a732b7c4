// SPDX-License-Identifier: Apache-2.0
//! The policy engine against a naive evaluator that spells the rules out, over random users, grants
//! and requests.

use proptest::prelude::*;

use super::*;
use crate::authz::actions::ActionDef;

const NAMES: &[(&str, Audience)] = &[
    ("runtime.Run", Audience::Member),
    ("runtime.Stop", Audience::Member),
    ("observe.Logs", Audience::Member),
    ("identity.Allow", Audience::Administrator),
    ("node.Shutdown", Audience::Administrator),
];
const TENANTS: &[&str] = &["system", "a", "b"];
const PATHS: &[&str] = &["web", "web/db", "web-2", "we", "web/db/x", "db"];
const GRANTABLE: &[&str] = &[
    "runtime",
    "runtime.Stop",
    "observe",
    "node.Shutdown",
    "identity",
];

fn actions() -> Actions {
    let define = |&(name, audience): &(&'static str, Audience)| ActionDef {
        name,
        audience,
        mutating: true,
        durable: false,
    };
    Actions::new(NAMES.iter().map(define).collect())
}

fn user() -> impl Strategy<Value = (UserKey, Option<Role>)> {
    (0..TENANTS.len(), any::<bool>()).prop_map(|(tenant, admin)| {
        let key = UserKey {
            tenant: TENANTS[tenant].parse().unwrap(),
            name: "u".parse().unwrap(),
        };
        (key, admin.then_some(Role::Administrator))
    })
}

fn grant() -> impl Strategy<Value = (bool, usize, usize, Option<usize>)> {
    let path = proptest::option::of(0..PATHS.len());
    (any::<bool>(), 0..GRANTABLE.len(), 0..TENANTS.len(), path)
}

fn made(
    (allow, action, tenant, path): (bool, usize, usize, Option<usize>),
    n: usize,
    user: &UserKey,
) -> Grant {
    Grant {
        id: format!("grant-{n}"),
        user: user.clone(),
        effect: if allow {
            GrantEffect::Allow
        } else {
            GrantEffect::Deny
        },
        action: GRANTABLE[action].to_owned(),
        target: TENANTS[tenant].parse().unwrap(),
        path: path.map(|p| PATHS[p].parse().unwrap()),
        created_ns: 0,
    }
}

/// The rules as plain code.
fn naive(
    user: &UserKey,
    role: Option<Role>,
    grants: &[Grant],
    action: (&str, Audience),
    tenant: Option<&Tenant>,
    path: Option<&ObjectPath>,
    reach: Reach,
) -> Verdict {
    let applies = |g: &&Grant| {
        let action = g.action == action.0 || action.0.starts_with(&format!("{}.", g.action));
        let within = match (&g.path, path) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(of), Some(path)) => path.is_within(of),
        };
        // What reaches below meets the denials that lie there.
        let around = reach == Reach::Subtree && g.effect == GrantEffect::Deny;
        let met = g
            .path
            .as_ref()
            .is_some_and(|of| path.is_none_or(|path| of.is_within(path)));
        let within = within || (around && met);
        action && within && tenant == Some(&g.target)
    };
    let ids = |effect| -> Vec<String> {
        let of = grants.iter().filter(|g| g.effect == effect);
        of.filter(applies).map(|g| g.id.clone()).collect()
    };
    let denied = ids(GrantEffect::Deny);
    if !denied.is_empty() {
        return Verdict {
            allowed: false,
            policies: denied,
        };
    }
    let mut policies = ids(GrantEffect::Allow);
    if role == Some(Role::Administrator) && user.tenant.as_str() == "system" {
        policies.push(ADMINISTRATOR_POLICY.to_owned());
    }
    if action.1 == Audience::Member && tenant == Some(&user.tenant) {
        policies.push(MEMBER_POLICY.to_owned());
    }
    policies.sort_unstable();
    Verdict {
        allowed: !policies.is_empty(),
        policies,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn cedar_decides_as_the_rules_say(
        (user, role) in user(),
        grants in proptest::collection::vec(grant(), 0..6),
        requests in proptest::collection::vec(
            (0..NAMES.len(), proptest::option::of(0..TENANTS.len()),
             proptest::option::of(0..PATHS.len()), any::<bool>()), 1..8),
    ) {
        let engine = Engine::new(&actions()).unwrap();
        let grants: Vec<Grant> =
            grants.into_iter().enumerate().map(|(n, g)| made(g, n, &user)).collect();
        for grant in &grants {
            engine.check(grant).unwrap();
        }
        let slice = engine.slice(&user, role, &grants).unwrap();
        for (action, tenant, path, below) in requests {
            let reach = if below { Reach::Subtree } else { Reach::Object };
            let tenant: Option<Tenant> = tenant.map(|t| TENANTS[t].parse().unwrap());
            let path: Option<ObjectPath> = path.map(|p| PATHS[p].parse().unwrap());
            let effect = Effect { action: NAMES[action].0, path: path.clone(), reach };
            let decided = engine.decide(&slice, action, tenant.as_ref(), &effect).unwrap();
            let (tenant, path) = (tenant.as_ref(), path.as_ref());
            let expected = naive(&user, role, &grants, NAMES[action], tenant, path, reach);
            prop_assert_eq!(decided, expected);
        }
    }
}

/// Not a benchmark, but a bound that a decision over the whole store would break at once.
#[test]
fn a_decision_takes_microseconds() {
    let engine = Engine::new(&actions()).unwrap();
    let user = UserKey {
        tenant: "a".parse().unwrap(),
        name: "u".parse().unwrap(),
    };
    let grants: Vec<Grant> = (0..5)
        .map(|n| made((true, n % 5, n % 3, Some(n)), n, &user))
        .collect();
    let slice = engine.slice(&user, None, &grants).unwrap();
    let path: ObjectPath = "web/nginx".parse().unwrap();
    let effect = Effect::on("runtime.Run", &path);
    // The fastest of many: a machine that is busy with other things slows most of them down.
    let once = || {
        let start = std::time::Instant::now();
        let verdict = engine.decide(&slice, 0, Some(&user.tenant), &effect);
        let took = start.elapsed();
        assert!(verdict.unwrap().allowed);
        took
    };
    let each = (0..2000).map(|_| once()).min().unwrap();
    eprintln!("a decision over 7 policies: {each:?}");
    assert!(each.as_micros() < 2000, "{each:?}");
}
