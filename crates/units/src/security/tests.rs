// SPDX-License-Identifier: Apache-2.0
//! The score by itself; `tests/scores.rs` holds it against systemd's program.

use super::*;
use crate::calendar::zones::UtcOnly;
use crate::name::UnitName;
use crate::specifier::NoHost;
use crate::unit::from_texts;

fn of(text: &str) -> Score {
    let name = UnitName::parse("a.service").unwrap();
    let text = format!("[Service]\nExecStart=/bin/x\n{text}");
    let unit = from_texts(&name, &[("/a.service", text.as_bytes())], &NoHost, &UtcOnly);
    score(&unit).unwrap()
}

fn part(score: &Score, id: &str) -> Option<u64> {
    let answer = score.answers.iter().find(|it| it.id == id).unwrap();
    answer.exposure.map(|it| it.0)
}

#[test]
fn a_bare_service_is_unsafe_and_a_closed_one_is_ok() {
    let bare = of("");
    assert_eq!((bare.overall.0, bare.level), (96, Level::Unsafe));
    let closed = of(
        "DynamicUser=yes\nSystemCallFilter=@system-service\nPrivateNetwork=yes\n\
        CapabilityBoundingSet=\nRestrictNamespaces=yes\nRestrictAddressFamilies=none\n\
        SystemCallArchitectures=native\nPrivateDevices=yes\nPrivateUsers=yes\nProtectHome=yes\n",
    );
    assert!(closed.overall < Exposure(30), "{}", closed.overall);
    assert_eq!(closed.level, Level::Ok);
    assert_eq!(bare.overall.to_string(), "9.6");
}

#[test]
fn what_is_left_open_is_told_with_a_call() {
    let score = of("SystemCallFilter=@system-service swapon\n");
    let swap = score
        .answers
        .iter()
        .find(|it| it.id == "SystemCallFilter_swap");
    assert_eq!(swap.unwrap().risk, "it may use swap (swapon)");
    assert_eq!(part(&score, "SystemCallFilter_mount"), Some(0));
}

#[test]
fn what_has_no_meaning_counts_for_nothing() {
    let root = of("SupplementaryGroups=x\n");
    assert_eq!(part(&root, "SupplementaryGroups"), None);
    assert_eq!(
        part(
            &of("User=a\nSupplementaryGroups=x\n"),
            "SupplementaryGroups"
        ),
        Some(1)
    );
}

#[test]
fn only_services_are_scored() {
    let name = UnitName::parse("a.socket").unwrap();
    let unit = from_texts(
        &name,
        &[("/a", b"[Socket]\nListenStream=1\n")],
        &NoHost,
        &UtcOnly,
    );
    assert_eq!(score(&unit), None);
}

#[test]
fn every_question_has_a_name_of_its_own() {
    let score = of("");
    let ids: std::collections::BTreeSet<_> = score.answers.iter().map(|it| &it.id).collect();
    assert_eq!(ids.len(), ROWS.len());
}

#[test]
fn every_capability_that_is_asked_for_is_one() {
    for row in ROWS {
        if let rows::Test::Capabilities(_, names) = row.test {
            for name in names.split(' ') {
                let plain = name.strip_prefix("CAP_").unwrap();
                assert!(model::capability::NAMES.contains(&plain), "{name}");
            }
        }
    }
}
