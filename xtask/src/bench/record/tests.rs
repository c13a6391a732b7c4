// SPDX-License-Identifier: Apache-2.0
//! The page is what is kept, no row stands beside what took its place, and each missed goal has its
//! note.

use super::*;

#[test]
fn the_page_is_what_is_written_from_the_figures() {
    let page = page(&load().expect("figures.json"), &notes().expect("notes.md"));
    let written = fs::read_to_string(page_file().expect("the root")).expect("figures.md");
    assert_eq!(written, page, "`./x bench --render` writes it anew");
}

#[test]
fn a_missed_goal_comes_with_its_note() {
    let row = Row::alone("run p50 (n=9)", "vm", "us", 9.0, "<= 2.5").beside(("fork", 1.0));
    let general = ("run".to_owned(), "Everybody's time.".to_owned());
    let special = ("vm: run".to_owned(), "The kernel's time.".to_owned());
    // Of two that fit the longer one, wherever it stands.
    for notes in [[general.clone(), special.clone()], [special, general]] {
        let page = page(&[row.to_json()], &notes);
        assert!(page.contains("**no**"), "{page}");
        assert!(page.contains("The kernel's time."), "{page}");
        assert!(!page.contains("Everybody's time."), "{page}");
    }
}

/// As it is kept: measured, or failed, at that time.
fn kept(row: &str, date: &str, error: Option<&str>) -> Value {
    let row = match error {
        Some(error) => Row::failed(row, "native", &anyhow::anyhow!("{error}")),
        None => Row::alone(row, "native", "us", 1.0, ""),
    };
    let mut entry = row.to_json();
    if let Some(entry) = entry.as_object_mut() {
        entry.insert("date".to_owned(), date.into());
    }
    entry
}

fn names(all: &[Value]) -> Vec<&str> {
    all.iter().map(|one| text(one, "row")).collect()
}

#[test]
fn a_group_is_what_its_last_measurement_found() {
    let (old, new) = ("2026-11-22 22:26", "2026-11-27 11:38");
    let all = [
        kept("density", old, Some("no room")),
        kept("density, run p50 among 3166 cells", old, None),
        kept("density, run p50 among 5000 cells", new, None),
        kept("density, 5000 cells at once", new, Some("no room")),
        kept("run p50 (n=9)", old, None),
        kept("neighbour, runs refused", old, None),
        kept("neighbour", new, Some("no cell")),
    ];
    let expected = [
        "density, run p50 among 5000 cells",
        "density, 5000 cells at once",
        "run p50 (n=9)",
        "neighbour, runs refused",
        "neighbour",
    ];
    assert_eq!(names(&latest(&all)), expected);
}

#[test]
fn what_failed_for_many_groups_goes_with_the_first_that_is_measured() {
    let (old, new) = ("2026-11-22 22:26", "2026-11-27 11:38");
    for name in ["memory, cell, growth", "every row", "growth, beside none"] {
        let all = [
            kept(name, old, Some("no node")),
            kept("growth, a run", new, None),
        ];
        assert_eq!(names(&latest(&all)), ["growth, a run"], "{name}");
    }
    // An attack is called as a group is.
    let attack = "neighbour, memory, beside two slices";
    let all = [
        kept(attack, old, Some("no slice")),
        kept("memory, PSS", new, None),
    ];
    assert_eq!(names(&latest(&all)), [attack, "memory, PSS"]);
}

#[test]
fn a_row_of_another_place_takes_nothing_away() {
    let mut vm = kept("run p50", "2026-11-27 11:38", None);
    vm["where"] = "vm".into();
    let all = [kept("run p99", "2026-11-22 22:26", None), vm];
    assert_eq!(latest(&all).len(), 2);
}

#[test]
fn the_reason_is_the_first_line_that_says_something() {
    let row = Row::failed("run", "vm", &anyhow::anyhow!("\n  \nno node\nat all"));
    let said = remark(&row, &[]);
    assert_eq!(said, "* **run** (vm) could not be measured: no node\n");
    let script = "\nrun() { true; }\n\nended with 124\nfailed 10\n";
    assert_eq!(reason(script), "ended with 124");
    assert_eq!(reason("\n"), "no reason");
}

#[test]
fn every_missed_row_has_a_note() {
    let notes = notes().expect("notes.md");
    for entry in latest(&load().expect("figures.json")) {
        let place = text(&entry, "where").to_owned();
        let row = Row::from_json(&entry, &place).expect("a row");
        if !row.is_good() {
            let note = note(&row, &notes).unwrap_or_default();
            assert!(!note.is_empty(), "bench/notes.md says nothing of {row:?}");
        }
    }
}
