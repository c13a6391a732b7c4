// SPDX-License-Identifier: Apache-2.0
//! What a unit's cell is called. Names of units (`postgresql@15-main.service`) are no DNS labels:
//! a plain one keeps its words, every other one gets a sum of the whole name behind what can be
//! kept of it. Not the unit's own name, which is `units::name`'s.

use model::error::Error;
use model::name::Label;
use units::name::{UnitName, UnitType};

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

/// FNV-1a over the bytes, 64 bits.
fn sum(text: &str) -> u64 {
    let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

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
