// SPDX-License-Identifier: Apache-2.0
//! `linux.resources.devices`, as rules of `kernel::cgroup::devices`. Pure.
//!
//! Behind the configuration's rules come those that every container has: the default devices, its
//! terminals, and making any node, which is worth nothing without the right to open it.

use kernel::cgroup::devices::{Access, Kind, Rule, harmless};

use crate::config::resources::DeviceRule;
use crate::error::{Doing, Result, refuse};

/// All rules of a container.
pub(crate) fn rules(configured: &[DeviceRule]) -> Result<Vec<Rule>> {
    let mut out = Vec::new();
    for (number, rule) in configured.iter().enumerate() {
        out.push(one(rule).doing(format_args!("linux.resources.devices[{number}]"))?);
    }
    for kind in [Kind::Character, Kind::Block] {
        out.push(Rule {
            allow: true,
            kind,
            major: None,
            minor: None,
            access: Access::MAKE,
        });
    }
    out.extend(harmless());
    Ok(out)
}

fn one(rule: &DeviceRule) -> Result<Rule> {
    let kind = match rule.kind.as_str() {
        "" | "a" => Kind::All,
        "b" => Kind::Block,
        "c" | "u" => Kind::Character,
        other => return refuse(format!("type: {other:?} is none of a, b, c")),
    };
    let access = match (rule.access.as_str(), kind) {
        ("", _) => Access::ALL,
        (letters, _) => match Access::parse(letters) {
            Some(access) => access,
            None => return refuse(format!("access: {letters:?} has more than r, w, m")),
        },
    };
    Ok(Rule {
        allow: rule.allow,
        kind,
        major: number(rule.major)?,
        minor: number(rule.minor)?,
        access,
    })
}

fn number(value: Option<i64>) -> Result<Option<u32>> {
    match value {
        None | Some(-1) => Ok(None),
        Some(value) => match u32::try_from(value) {
            Ok(value) => Ok(Some(value)),
            Err(_) => refuse(format!("{value} is no device number")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configurations_rules_come_first() {
        let text = r#"[{"allow":false,"access":"rwm"},
            {"allow":true,"type":"c","major":10,"minor":229,"access":"rw"}]"#;
        let rules = rules(&serde_json::from_str::<Vec<DeviceRule>>(text).unwrap()).unwrap();
        assert!(!rules[0].allow && rules[0].kind == Kind::All && rules[0].major.is_none());
        assert_eq!((rules[1].major, rules[1].minor), (Some(10), Some(229)));
        assert!(rules[2..].iter().all(|rule| rule.allow));
    }

    #[test]
    fn a_rule_that_says_nothing_known_is_refused() {
        for text in [
            r#"[{"type":"x"}]"#,
            r#"[{"access":"rx"}]"#,
            r#"[{"major":-2}]"#,
        ] {
            assert!(rules(&serde_json::from_str::<Vec<DeviceRule>>(text).unwrap()).is_err());
        }
    }
}
