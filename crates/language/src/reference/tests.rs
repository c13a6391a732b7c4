// SPDX-License-Identifier: Apache-2.0
//! Keeps `docs/language/reference/` what the schema says.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::*;

/// Run with `AURAE_UPDATE=1` to write the pages.
#[test]
fn the_reference_is_what_the_protos_say() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/language/reference");
    let pages = pages(Schema::of_api().unwrap());
    if std::env::var_os("AURAE_UPDATE").is_some() {
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(&home).unwrap();
        for page in &pages {
            fs::write(home.join(&page.name), &page.text).unwrap();
        }
    }
    for page in &pages {
        let found = fs::read_to_string(home.join(&page.name)).unwrap_or_default();
        assert!(
            found == page.text,
            "{} is not what the protos say; write it anew: AURAE_UPDATE=1 cargo test -p language reference",
            page.name
        );
    }
    let names: BTreeSet<_> = pages.iter().map(|page| page.name.clone()).collect();
    let there = fs::read_dir(&home).unwrap();
    let there: BTreeSet<_> = there
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(there, names);
}

#[test]
fn every_link_within_the_reference_leads_somewhere() {
    let pages = pages(Schema::of_api().unwrap());
    let anchors: BTreeSet<String> = pages
        .iter()
        .flat_map(|page| {
            let headings = page
                .text
                .lines()
                .filter_map(|line| line.strip_prefix("### "));
            headings.map(|title| format!("{}#{}", page.name, title.to_ascii_lowercase()))
        })
        .collect();
    for page in &pages {
        for link in page
            .text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let link = match link.strip_prefix('#') {
                Some(anchor) => format!("{}#{anchor}", page.name),
                None => link.to_owned(),
            };
            let found = anchors.contains(&link) || pages.iter().any(|page| page.name == link);
            assert!(found, "{}: {link}", page.name);
        }
    }
}
