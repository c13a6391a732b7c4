// SPDX-License-Identifier: Apache-2.0
//! Colour on a terminal, unless `NO_COLOR` or `--color` says otherwise.

use std::io::IsTerminal;
use std::os::fd::AsFd;

/// `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// With colors, also into a file or a pipe
    Always,
    /// Without colors
    Never,
}

/// A colour of the terminal's palette.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Color {
    Red,
    Green,
    Yellow,
    Blue,
    Magenta,
    Cyan,
    Dim,
    Bold,
}

impl Color {
    fn code(self) -> &'static str {
        match self {
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Blue => "34",
            Self::Magenta => "35",
            Self::Cyan => "36",
            Self::Dim => "2",
            Self::Bold => "1",
        }
    }
}

/// Whether one output is coloured, and how wide it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    color: bool,
    /// Of a terminal that knows its size.
    columns: Option<usize>,
}

impl Style {
    /// A style without colour.
    #[cfg(test)]
    pub(crate) const PLAIN: Style = Style {
        color: false,
        columns: None,
    };

    /// For an output, by what the user chose.
    pub(crate) fn of(output: &(impl IsTerminal + AsFd), choice: ColorChoice) -> Self {
        let color = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
                let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
                output.is_terminal() && !set("NO_COLOR") && !dumb
            }
        };
        Self {
            color,
            columns: None,
        }
        .measured(output)
    }

    /// The same, as wide as the output is now.
    pub(crate) fn measured(self, output: &(impl IsTerminal + AsFd)) -> Self {
        let size = output
            .is_terminal()
            .then(|| rustix::termios::tcgetwinsize(output).ok())
            .flatten();
        // A serial console doesn't know its size and says 0.
        let columns = size
            .map(|size| usize::from(size.ws_col))
            .filter(|it| *it > 0);
        Self { columns, ..self }
    }

    /// How many characters a line has room for; `None` where there is no end to it.
    pub(crate) fn columns(self) -> Option<usize> {
        self.columns
    }

    /// On a terminal of that width.
    #[cfg(test)]
    pub(crate) fn with_columns(self, columns: usize) -> Self {
        Self {
            columns: Some(columns),
            ..self
        }
    }

    /// Whether there is colour at all, for who paints elsewhere.
    pub(crate) fn is_coloured(self) -> bool {
        self.color
    }

    /// The text in that colour, or as it is.
    pub(crate) fn paint(self, color: Color, text: &str) -> String {
        if self.color && !text.is_empty() {
            format!("\x1b[{}m{text}\x1b[0m", color.code())
        } else {
            text.to_owned()
        }
    }
}

/// The text with control characters escaped, so that no name or command can drive the
/// terminal.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_as_chosen() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let paint = |choice| Style::of(&file, choice).paint(Color::Red, "x");
        assert_eq!(paint(ColorChoice::Auto), "x");
        assert_eq!(paint(ColorChoice::Never), "x");
        assert_eq!(paint(ColorChoice::Always), "\x1b[31mx\x1b[0m");
    }

    #[test]
    fn control_characters_cannot_reach_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\n"), "a\\u{1b}[2Jb\\n");
    }
}
