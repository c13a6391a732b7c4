// SPDX-License-Identifier: Apache-2.0
//! Places as editors count them (lines and UTF-16 units from 0) and as the rest of the crate does
//! (bytes), and files as editors name them (`file:` URIs).

use std::path::{Path, PathBuf};
use std::str::FromStr;

use lsp_types::{Position, Range, TextDocumentContentChangeEvent, Uri};

use crate::source::{Source, Span};

/// Where an editor's position lies in the text; one past a line's end is its end.
pub(super) fn offset(source: &Source, position: Position) -> u32 {
    let end = u32::try_from(source.text().len()).unwrap_or(u32::MAX);
    let start = crate::source::Position {
        line: position.line.saturating_add(1),
        column: 1,
    };
    let (Some(start), Some(line)) = (source.offset(start), source.line(start.line)) else {
        return end;
    };
    let mut units = position.character as usize;
    let mut bytes = 0u32;
    for letter in line.chars() {
        if units < letter.len_utf16() {
            break;
        }
        units -= letter.len_utf16();
        bytes += u32::try_from(letter.len_utf8()).unwrap_or_default();
    }
    start.saturating_add(bytes).min(end)
}

/// An editor's position of an offset.
pub(super) fn position(source: &Source, offset: u32) -> Position {
    let line = source.position(offset).line;
    let start = source.offset(crate::source::Position { line, column: 1 });
    let start = start.unwrap_or_default();
    let before = source.text().get(start as usize..offset as usize);
    let units = before.map_or(0, |text| text.encode_utf16().count());
    Position {
        line: line.saturating_sub(1),
        character: u32::try_from(units).unwrap_or(u32::MAX),
    }
}

pub(super) fn range(source: &Source, span: Span) -> Range {
    Range {
        start: position(source, span.start),
        end: position(source, span.end.max(span.start)),
    }
}

/// A text after an editor's change of it.
pub(super) fn changed(source: &Source, change: &TextDocumentContentChangeEvent) -> Source {
    let name: &str = source.name();
    let Some(range) = change.range else {
        return Source::new(name, change.text.as_str());
    };
    let (start, end) = (offset(source, range.start), offset(source, range.end));
    let text = source.text();
    let before = text.get(..start as usize).unwrap_or_default();
    let after = text.get(end.max(start) as usize..).unwrap_or_default();
    Source::new(name, format!("{before}{}{after}", change.text))
}

/// The path of a `file:` URI.
pub(super) fn path(uri: &Uri) -> Option<PathBuf> {
    let rest = uri.as_str().strip_prefix("file://")?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let mut bytes = Vec::with_capacity(rest.len());
    let mut left = rest.bytes();
    while let Some(byte) = left.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [left.next()?, left.next()?];
        let digits = std::str::from_utf8(&digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
    }
    let path = String::from_utf8(bytes).ok()?;
    path.starts_with('/').then(|| PathBuf::from(path))
}

/// The URI of a path.
pub(super) fn uri(path: &Path) -> Option<Uri> {
    let mut text = "file://".to_owned();
    for byte in path.to_str()?.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
        match plain {
            true => text.push(char::from(byte)),
            false => text.push_str(&format!("%{byte:02X}")),
        }
    }
    Uri::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_utf_16() {
        let source = Source::new("a.ts", "a = \"😀ä\"; b\nc");
        let after = u32::try_from(source.text().find('b').unwrap()).unwrap();
        let position = position(&source, after);
        assert_eq!((position.line, position.character), (0, 11));
        assert_eq!(offset(&source, position), after);
        assert_eq!(offset(&source, Position::new(1, 99)), 17);
        assert_eq!(offset(&source, Position::new(9, 0)), 17);
    }

    #[test]
    fn uris_are_paths_and_back() {
        let path_of = PathBuf::from("/a b/ä.ts");
        let uri = uri(&path_of).unwrap();
        assert_eq!(uri.as_str(), "file:///a%20b/%C3%A4.ts");
        assert_eq!(path(&uri), Some(path_of));
    }
}
