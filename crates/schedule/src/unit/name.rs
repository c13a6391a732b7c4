// SPDX-License-Identifier: Apache-2.0
//! What a unit's cell is called. Names of units (`postgresql@15-main.service`) are no DNS labels:
//! a plain one keeps its words, every other one gets a sum of the whole name behind what can be
//! kept of it. Not the unit's own name, which is `units::name`'s.

use model::error::Error;
use model::label::Labels;
use model::name::Label;
use units::name::{UnitName, UnitType};
use units::spelling;

use super::runs::UNIT;

/// How much of a plain name is kept: with what says which run it is it stays a label.
const PLAIN: usize = 40;
/// How much of another one is kept before its sum.
const KEPT: usize = 22;

/// The label that a unit's cells are called by. The same for the same unit for ever; two units
/// never have the same one but by a collision of 64-bit sums, which the runtime refuses as a taken
/// name.
///
/// # Errors
/// Never for a valid name; were it so, `INTERNAL`.
pub(crate) fn label(unit: &UnitName) -> Result<Label, Error> {
    let stem = unit.stem();
    let plain = stem.len() <= PLAIN && !stem.contains("--") && stem.parse::<Label>().is_ok();
    let text = match (plain, unit.kind()) {
        (true, UnitType::Service) => stem.to_owned(),
        (true, kind) => format!("{stem}--{kind}"),
        (false, _) => format!("{}--{:016x}", words(unit.as_str()), sum(unit.as_str())),
    };
    let broken = |e| Error::internal(format!("the unit {unit} has no label: {e}"));
    text.parse().map_err(broken)
}

/// What a label may keep of a text, beginning with a letter.
fn words(text: &str) -> String {
    let mut kept = String::from("u");
    for c in text.chars().take(KEPT) {
        match c {
            'a'..='z' | '0'..='9' => kept.push(c),
            'A'..='Z' => kept.push(c.to_ascii_lowercase()),
            _ if kept.ends_with('-') => {}
            _ => kept.push('-'),
        }
    }
    kept.truncate(KEPT);
    kept.trim_end_matches('-').to_owned()
}

/// The label that has the name of a unit, where that of its cells doesn't tell it: in pieces, of
/// which the second one's key ends with `-2`.
const NAME: &str = "schedule.aurae/unit-name";
/// A name that is spelled by more is left out: labels have little room.
const PIECES: usize = 16;

/// Labels by which the name of a unit is known.
pub(crate) fn spelled(unit: &UnitName) -> Vec<(String, String)> {
    if label(unit).is_ok_and(|it| is_name(it.as_str(), unit)) {
        return Vec::new();
    }
    let values = spelling::spell(unit);
    if values.len() > PIECES {
        return Vec::new();
    }
    (0..).map(key).zip(values).collect()
}

fn key(piece: usize) -> String {
    match piece {
        0 => NAME.to_owned(),
        piece => format!("{NAME}-{}", piece.saturating_add(1)),
    }
}

/// Whether a unit's label tells its name.
fn is_name(label: &str, unit: &UnitName) -> bool {
    unit.kind() == UnitType::Service && unit.stem() == label
}

/// The unit whose run bears these labels.
pub(crate) fn unit_of(labels: &Labels) -> Option<UnitName> {
    let label = labels.get(UNIT)?;
    let pieces: Vec<&str> = (0..PIECES)
        .map_while(|piece| labels.get(&key(piece)))
        .collect();
    match pieces.is_empty() {
        true => UnitName::parse(&format!("{label}.service")).ok(),
        false => spelling::read(pieces.into_iter()),
    }
}

/// FNV-1a over the bytes, 64 bits.
fn sum(text: &str) -> u64 {
    let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_unit_is_on_what_it_runs() {
        for name in [
            "nginx.service",
            "web@3-127.0.0.1:80.service",
            "a_b.service",
            "x.socket",
        ] {
            let unit = UnitName::parse(name).unwrap();
            let mut labels: std::collections::BTreeMap<_, _> = spelled(&unit).into_iter().collect();
            assert_eq!(labels.is_empty(), name == "nginx.service", "{labels:?}");
            labels.insert(UNIT.to_owned(), label(&unit).unwrap().to_string());
            assert_eq!(unit_of(&Labels::new(labels).unwrap()), Some(unit));
        }
    }

    #[test]
    fn every_unit_has_a_label_of_its_own() {
        let label = |name: &str| label(&UnitName::parse(name).unwrap()).unwrap().to_string();
        assert_eq!(label("nginx.service"), "nginx");
        assert_eq!(label("nginx.socket"), "nginx--socket");
        assert_eq!(
            label("postgresql@15-main.service"),
            "upostgresql-15-main-se--8adae1b4b304707e"
        );
        let long = format!("{}.service", "a".repeat(247));
        let odd = [
            "a.b.service",
            "a-b.service",
            "A-b.service",
            "a--b.service",
            "a-b--socket.service",
            "a-b.socket",
            "-.mount",
            "dev-disk-by\\x2duuid-x.swap",
            &long,
        ];
        let mut seen = std::collections::BTreeSet::new();
        for name in odd {
            let label = label(name);
            assert!(label.len() <= 48, "{label}");
            assert!(seen.insert(label), "{name}");
        }
    }
}
