// SPDX-License-Identifier: Apache-2.0
//! Columns: as wide as their widest cell, two spaces apart, the last one ragged. Where a terminal
//! is too narrow, columns go, and then the first one is cut; lines don't wrap.

use super::style::{Color, Style, printable};

/// The spaces between two columns.
const GAP: usize = 2;
/// The last column may be cut down to so many characters before another one goes.
const CUT_TO: usize = 12;

/// The text of one cell, and its colour.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    color: Option<Color>,
}

impl Cell {
    /// A cell in this colour.
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

/// Headings, and rows below them.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    right: Vec<&'static str>,
    /// These go first where there is no room, in this order.
    first_to_go: Vec<&'static str>,
}

impl Table {
    /// A table without rows.
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        Self {
            headings: headings.to_vec(),
            rows: Vec::new(),
            right: Vec::new(),
            first_to_go: Vec::new(),
        }
    }

    /// Aligns these columns to the right: numbers.
    pub(crate) fn right(mut self, headings: &[&'static str]) -> Self {
        self.right = headings.to_vec();
        self
    }

    /// Leaves these out first where there is no room, in this order; then others, from the right.
    /// The first column and STATE stay.
    pub(crate) fn first_to_go(mut self, headings: &[&'static str]) -> Self {
        self.first_to_go = headings.to_vec();
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
        let columns = match style.columns() {
            Some(room) => self.fitting(&widths, room),
            None => widths.into_iter().enumerate().collect(),
        };
        let headings: Vec<Cell> = self
            .headings
            .iter()
            .map(|heading| Cell::colored(heading, Some(Color::Dim)))
            .collect();
        let mut out = String::new();
        for row in std::iter::once(&headings).chain(&self.rows) {
            self.render_row(&mut out, row, &columns, style);
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

    /// The columns that there is room for, with their widths. The last one may be cut.
    fn fitting(&self, widths: &[usize], room: usize) -> Vec<(usize, usize)> {
        let mut columns: Vec<(usize, usize)> = widths.iter().copied().enumerate().collect();
        let mut going = self.going().into_iter();
        loop {
            let Some(((last, wanted), before)) = columns.split_last() else {
                return columns;
            };
            let taken: usize = before.iter().map(|(_, width)| width + GAP).sum();
            let left = room.saturating_sub(taken);
            let (last, wanted) = (*last, *wanted);
            if left >= wanted.min(CUT_TO) {
                columns.pop();
                columns.push((last, wanted.min(left)));
                return columns;
            }
            let Some(gone) = going.next() else {
                cut_first(&mut columns, room);
                return columns;
            };
            columns.retain(|(column, _)| *column != gone);
        }
    }

    /// The columns that may be left out, the first to go first.
    fn going(&self) -> Vec<usize> {
        let at = |heading: &&str| self.headings.iter().position(|it| it == heading);
        let mut going: Vec<usize> = self.first_to_go.iter().filter_map(at).collect();
        for (column, heading) in self.headings.iter().enumerate().skip(1).rev() {
            if !going.contains(&column) && *heading != "STATE" {
                going.push(column);
            }
        }
        going
    }

    fn render_row(&self, out: &mut String, row: &[Cell], columns: &[(usize, usize)], style: Style) {
        let mut line = String::new();
        for (index, (column, room)) in columns.iter().enumerate() {
            let Some((cell, heading)) = row.get(*column).zip(self.headings.get(*column)) else {
                continue;
            };
            let text = cut(&cell.text, *room);
            let padding = " ".repeat(room.saturating_sub(width(&text)));
            let painted = match cell.color {
                Some(color) => style.paint(color, &text),
                None => text,
            };
            match self.right.contains(heading) {
                true => line.push_str(&format!("{padding}{painted}")),
                false => line.push_str(&format!("{painted}{padding}")),
            }
            if index + 1 < columns.len() {
                line.push_str(&" ".repeat(GAP));
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// Takes what is too much from the first column: what stays beside it is short, and says more than
/// the end of a long name. Where that isn't enough, from the last one, too.
fn cut_first(columns: &mut [(usize, usize)], room: usize) {
    let wanted = |columns: &[(usize, usize)]| {
        let gaps = GAP * columns.len().saturating_sub(1);
        columns.iter().map(|(_, width)| width).sum::<usize>() + gaps
    };
    for least in [CUT_TO, 1] {
        let over = wanted(columns).saturating_sub(room);
        if let Some((_, width)) = columns.first_mut() {
            *width = width.saturating_sub(over).max(least.min(*width));
        }
        let over = wanted(columns).saturating_sub(room);
        if let Some((_, width)) = columns.last_mut() {
            *width = width.saturating_sub(over).max(1);
        }
    }
}

fn cut(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let start: String = text.chars().take(room.saturating_sub(1)).collect();
    format!("{start}…")
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

    #[test]
    fn on_a_narrow_terminal_columns_go_and_lines_do_not_wrap() {
        let headings = ["NAME", "KIND", "STATE", "PID", "COMMAND"];
        let mut table = Table::new(&headings).first_to_go(&["KIND", "PID"]);
        let row = [
            "web/nginx",
            "executable",
            "running",
            "4711",
            "nginx -g 'daemon off;'",
        ];
        table.push(row.into_iter().map(Cell::from).collect());
        let lines = |columns: usize| {
            let text = table.render(Style::PLAIN.with_columns(columns));
            assert!(text.lines().all(|line| width(line) <= columns), "{text}");
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            lines(80)[0],
            "NAME       KIND        STATE    PID   COMMAND"
        );
        assert_eq!(lines(40)[1], "web/nginx  running  4711  nginx -g 'dae…");
        assert_eq!(lines(34)[1], "web/nginx  running  nginx -g 'dae…");
        assert_eq!(lines(20)[1], "web/nginx  running");
        assert_eq!(lines(14)[1], "web/nginx  ru…");
        assert_eq!(table.render(Style::PLAIN).lines().count(), 2);
    }

    #[test]
    fn a_long_name_is_cut_before_its_state_is() {
        let mut table = Table::new(&["NAME", "KIND", "STATE"]).first_to_go(&["KIND"]);
        let name = "a".repeat(63);
        table.push(vec![(&name).into(), "cell".into(), "running".into()]);
        let line = |columns: usize| {
            let text = table.render(Style::PLAIN.with_columns(columns));
            assert!(text.lines().all(|line| width(line) <= columns), "{text}");
            text.lines().nth(1).unwrap_or_default().to_owned()
        };
        assert_eq!(line(40), format!("{}…  running", "a".repeat(30)));
        assert_eq!(line(21), format!("{}…  running", "a".repeat(11)));
        assert!(line(10).starts_with('a'));
    }
}
