// SPDX-License-Identifier: Apache-2.0
//! Lists as systemd's programs print them: columns as wide as their longest text, two blanks or a
//! dot before each line, a count behind. Nothing is shortened: there is no pager to scroll in.

use std::fmt::Write;

use crate::output::printable;

/// Rows of a list, with its heading.
pub(super) struct Columns {
    heading: Vec<&'static str>,
    rows: Vec<(Option<&'static str>, Vec<String>)>,
}

impl Columns {
    pub(super) fn new(heading: &[&'static str]) -> Columns {
        Columns {
            heading: heading.to_vec(),
            rows: Vec::new(),
        }
    }

    /// A row, and what stands before it.
    pub(super) fn push(&mut self, dot: Option<&'static str>, row: Vec<String>) {
        let row = row.iter().map(|it| printable(it)).collect();
        self.rows.push((dot, row));
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// With the heading (`legend`), and with room for dots (`dots`).
    pub(super) fn render(&self, legend: bool, dots: bool) -> String {
        let count = |text: &str| text.chars().count();
        let mut widths: Vec<usize> = self.heading.iter().map(|it| count(it)).collect();
        if !legend {
            widths.iter_mut().for_each(|it| *it = 0);
        }
        for (_, row) in &self.rows {
            for (width, text) in widths.iter_mut().zip(row) {
                *width = (*width).max(count(text));
            }
        }
        let mut out = String::new();
        let mut line = |dot: Option<&str>, texts: &mut dyn Iterator<Item = &str>| {
            let mut text = match dots {
                true => format!("{} ", dot.unwrap_or(" ")),
                false => String::new(),
            };
            for (width, cell) in widths.iter().zip(texts) {
                let _ = write!(text, "{cell:<width$} ", width = *width);
            }
            out.push_str(text.trim_end());
            out.push('\n');
        };
        if legend && !self.rows.is_empty() {
            line(None, &mut self.heading.iter().copied());
        }
        for (dot, row) in &self.rows {
            line(*dot, &mut row.iter().map(String::as_str));
        }
        out
    }
}

/// The dot before a unit: systemctl(1), "status".
pub(super) fn dot(active: &str, load: &str) -> &'static str {
    match (active, load) {
        ("failed", _) => "×",
        ("active", _) => "●",
        ("reloading", _) => "↻",
        ("activating" | "deactivating", _) => "●",
        (_, "bad-setting") => "●",
        _ => "○",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_texts() {
        let mut list = Columns::new(&["UNIT", "LOAD"]);
        list.push(None, vec!["a.service".to_owned(), "loaded".to_owned()]);
        list.push(
            Some("×"),
            vec!["b\u{1b}.service".to_owned(), "loaded".to_owned()],
        );
        let text = list.render(true, true);
        assert!(text.starts_with("  UNIT"), "{text}");
        assert!(text.contains("\n  a.service"), "{text}");
        assert!(text.contains("\n× b"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(list.render(false, false).starts_with("a.service"));
    }
}
