// SPDX-License-Identifier: Apache-2.0
//! Calendar expressions as cron patterns, beside the node's own reading of patterns: at random, the
//! next times of both are the same. In UTC: what a change of the clock skips differs on purpose.

use model::schedule::cron::Pattern;
use model::time::Timestamp;
use proptest::prelude::*;
use units::calendar::Calendar;
use units::calendar::zones::UtcOnly;

/// So many times of each are compared.
const TIMES: usize = 6;

/// One field: any, a value, a list, a range, steps.
fn field(low: u32, high: u32) -> impl Strategy<Value = String> {
    let value = low..=high;
    prop_oneof![
        2 => Just("*".to_owned()),
        3 => value.clone().prop_map(|it| it.to_string()),
        1 => (value.clone(), value.clone()).prop_map(|(a, b)| format!("{a},{b}")),
        1 => (value.clone(), value.clone()).prop_map(|(a, b)| {
            let (a, b) = (a.min(b), a.max(b));
            if a == b { a.to_string() } else { format!("{a}..{b}") }
        }),
        1 => (value.clone(), 1..high.max(2)).prop_map(|(a, step)| format!("{a}/{step}")),
        1 => (value.clone(), value, 1..high.max(2)).prop_map(|(a, b, step)| {
            let (a, b) = (a.min(b), a.max(b));
            if a == b { a.to_string() } else { format!("{a}..{b}/{step}") }
        }),
    ]
}

fn expression() -> impl Strategy<Value = String> {
    let days = prop_oneof![
        Just(""),
        Just("Mon..Fri "),
        Just("Sun "),
        Just("Sat,Sun "),
        Just("Tue,Thu..Sat "),
    ];
    let fields = (
        field(1, 12),
        field(1, 28),
        field(0, 23),
        field(0, 59),
        field(0, 59),
    );
    (days, fields).prop_map(|(days, (month, day, hour, minute, second))| {
        let day = if days.is_empty() { day } else { "*".to_owned() };
        format!("{days}*-{month}-{day} {hour}:{minute}:{second}")
    })
}

proptest! {
    #[test]
    fn a_pattern_has_the_expressions_times(
        text in expression(),
        from in 1_700_000_000_i64..2_000_000_000,
    ) {
        // A step that leads out of its field is no expression.
        let calendar = Calendar::parse(&text, &UtcOnly);
        prop_assume!(calendar.is_ok());
        let calendar = calendar.unwrap();
        let Ok(pattern) = calendar.as_cron() else {
            return Err(TestCaseError::fail(format!("{text} has no pattern")));
        };
        let cron = Pattern::new(&pattern, "UTC").map_err(|it| {
            TestCaseError::fail(format!("{text} is {pattern}: {it}"))
        })?;
        let mut at = from * 1_000_000;
        for _ in 0..TIMES {
            let next = calendar.next(at, &UtcOnly);
            let nanos = u64::try_from(at).unwrap() * 1000;
            let theirs = cron.after(Timestamp(nanos));
            let ours = next.map(|it| Timestamp(u64::try_from(it).unwrap() * 1000));
            prop_assert_eq!(ours, theirs, "{} is {}, after {}", text, pattern, at);
            let Some(next) = next else { break };
            at = next;
        }
    }
}
