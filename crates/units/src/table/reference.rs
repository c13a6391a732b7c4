// SPDX-License-Identifier: Apache-2.0
//! The reference of directives, as Markdown, from the rows. A test holds the page to it.

use std::fmt::Write as _;

use super::{Group, Unhonoured};

/// The page `docs/reference/units.md`.
pub fn reference() -> String {
    let mut page = String::from(
        "# Directives of unit files\n\n\
         Every directive of systemd 252's system units, from the table in `crates/units`. A value that is \
         wrong is a warning with its place and is ignored; a directive that isn't here, too. Where what \
         runs a unit doesn't honour a directive, the unit runs with a warning, or is *stopped*: it would \
         have rights, or reach what it is kept from.\n\n\
         <!-- Generated: `AURAE_UPDATE=1 cargo test -p units reference`. -->\n",
    );
    for group in Group::ALL {
        let sections: Vec<String> = group
            .sections()
            .iter()
            .map(|it| format!("[{it}]"))
            .collect();
        let _ = write!(
            page,
            "\n## {} {}\n\n| directive | value | kept as | not honoured |\n|---|---|---|---|\n",
            group.page(),
            sections.join(" ")
        );
        for row in group.rows() {
            let kept = if row.field == row.name { "" } else { row.field };
            let stopped = match row.unhonoured {
                Unhonoured::Warned => "",
                Unhonoured::Stopped => "stopped",
            };
            let value = row.kind.describe();
            let _ = writeln!(page, "| `{}` | {value} | {kept} | {stopped} |", row.name);
        }
    }
    page
}
