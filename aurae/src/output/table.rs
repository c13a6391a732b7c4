// SPDX-License-Identifier: Apache-2.0
//! Columns: as wide as their widest cell, two spaces apart, the last one ragged.

use super::style::{Color, Style, printable};

/// One cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    color: Option<Color>,
}

impl Cell {
    /// In that colour.
    pub(crate) fn colored(text: impl AsRef<str>, color: Option<Color>) -> Self {
        Self {
            text: printable(text.as_ref()),
            color,
        }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::colored(text, None)
    }
}

/// Rows below headings.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    right: Vec<&'static str>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        Self {
            headings: headings.to_vec(),
            rows: Vec::new(),
            right: Vec::new(),
        }
    }

    /// Aligns these columns to the right: numbers.
    pub(crate) fn right(mut self, headings: &[&'static str]) -> Self {
        self.right = headings.to_vec();
        self
    }

    /// Adds a row, with a cell for each heading.
    pub(crate) fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    /// Whether there are no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The whole table, each line ended.
    pub(crate) fn render(&self, style: Style) -> String {
        let widths = self.widths();
        let headings: Vec<Cell> = self
            .headings
            .iter()
            .map(|heading| Cell::colored(heading, Some(Color::Dim)))
            .collect();
        let mut out = String::new();
        for row in std::iter::once(&headings).chain(&self.rows) {
            self.render_row(&mut out, row, &widths, style);
        }
        out
    }

    fn widths(&self) -> Vec<usize> {
        let width_of = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| width(&cell.text)).max().unwrap_or(0)
        };
        let headings = self.headings.iter().enumerate();
        headings
            .map(|(column, heading)| width(heading).max(width_of(column)))
            .collect()
    }

    fn render_row(&self, out: &mut String, row: &[Cell], widths: &[usize], style: Style) {
        let mut line = String::new();
        let last = self.headings.len().saturating_sub(1);
        for (column, (cell, heading)) in row.iter().zip(&self.headings).enumerate() {
            let room = widths.get(column).copied().unwrap_or(0);
            let padding = " ".repeat(room.saturating_sub(width(&cell.text)));
            let painted = match cell.color {
                Some(color) => style.paint(color, &cell.text),
                None => cell.text.clone(),
            };
            match self.right.contains(heading) {
                true => line.push_str(&format!("{padding}{painted}")),
                false => line.push_str(&format!("{painted}{padding}")),
            }
            if column < last {
                line.push_str("  ");
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["NAME", "PIDS", "STATE"]).right(&["PIDS"]);
        table.push(vec!["web".into(), "12".into(), "running".into()]);
        table.push(vec!["├─ nginx".into(), "3".into(), "exited (0)".into()]);
        assert_eq!(
            table.render(Style::PLAIN),
            "NAME      PIDS  STATE\n\
             web         12  running\n\
             ├─ nginx     3  exited (0)\n"
        );
    }

    #[test]
    fn a_cell_cannot_break_its_line() {
        let mut table = Table::new(&["NAME"]);
        table.push(vec!["a\nb".into()]);
        assert_eq!(table.render(Style::PLAIN), "NAME\na\\nb\n");
    }
}
