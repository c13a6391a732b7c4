// SPDX-License-Identifier: Apache-2.0
//! Parts of one module's text for an editor: what may be folded, what a selection grows to, and
//! what formatting changes in a range. Asks for no types. Called by `more`.

use lsp_types::{FoldingRange, FoldingRangeKind, Position, Range, SelectionRange};
use oxc::allocator::Allocator;
use oxc::ast::AstKind;
use oxc::span::GetSpan;

use super::cursor::node_at;
use super::place;
use super::project::Project;
use crate::check::{Facts, FileId};
use crate::parse;
use crate::source::{Source, Span};

/// What may be folded: bodies, literals, comments and the imports, where they have several lines.
pub(super) fn folds(project: &Project, id: FileId) -> Vec<FoldingRange> {
    let (Some(readable), Some(entry)) = (project.readable(id), project.entry(id)) else {
        return Vec::new();
    };
    let found = project.with(id, &readable.source, |module, _| foldable(module));
    let mut folds: Vec<FoldingRange> = Vec::new();
    for (span, kind) in found.unwrap_or_default() {
        let Some(span) = readable.now(span) else {
            continue;
        };
        let range = place::range(&entry.source, span);
        // The line with the closing bracket stays in sight.
        let end_line = match kind {
            None => range.end.line.saturating_sub(1),
            Some(_) => range.end.line,
        };
        let known = folds.iter().any(|it| it.start_line == range.start.line);
        if end_line > range.start.line && !known {
            folds.push(FoldingRange {
                start_line: range.start.line,
                end_line,
                kind,
                ..FoldingRange::default()
            });
        }
    }
    folds
}

fn foldable(module: &Facts<'_, '_>) -> Vec<(Span, Option<FoldingRangeKind>)> {
    let span = |span: oxc::span::Span| Span::new(span.start, span.end);
    let comments = module.tree.program.comments.iter();
    let comments = comments.filter(|comment| comment.is_block());
    let mut found: Vec<_> = comments
        .map(|it| (span(it.span), Some(FoldingRangeKind::Comment)))
        .collect();
    let mut imports = module.tree.nodes.iter().filter_map(|node| {
        let is_import = matches!(node.kind(), AstKind::ImportDeclaration(_));
        is_import.then(|| node.kind().span())
    });
    if let Some(first) = imports.next() {
        let end = imports.last().map_or(first.end, |it| it.end);
        let all = Span::new(first.start, end);
        found.push((all, Some(FoldingRangeKind::Imports)));
    }
    let bodies = module.tree.nodes.iter().filter(|node| {
        matches!(
            node.kind(),
            AstKind::ArrayExpression(_)
                | AstKind::BlockStatement(_)
                | AstKind::ClassBody(_)
                | AstKind::FunctionBody(_)
                | AstKind::ObjectExpression(_)
                | AstKind::SwitchStatement(_)
                | AstKind::TSEnumBody(_)
                | AstKind::TSInterfaceBody(_)
                | AstKind::TSModuleBlock(_)
                | AstKind::TSTypeLiteral(_)
        )
    });
    found.extend(bodies.map(|node| (span(node.kind().span()), None)));
    found
}

/// What a selection at each place grows to, step by step.
pub(super) fn selections(
    project: &Project,
    id: FileId,
    places: &[Position],
) -> Vec<SelectionRange> {
    let selection = |place: &Position| {
        let around = around(project, id, *place).unwrap_or_default();
        let mut grown = SelectionRange {
            range: Range::new(*place, *place),
            parent: None,
        };
        for range in around.into_iter().rev() {
            let parent = match grown.range == Range::new(*place, *place) {
                true => None,
                false => Some(Box::new(grown)),
            };
            grown = SelectionRange { range, parent };
        }
        grown
    };
    places.iter().map(selection).collect()
}

/// The nodes around a place, the innermost first, each larger than the one before.
fn around(project: &Project, id: FileId, place: Position) -> Option<Vec<Range>> {
    let (readable, entry) = (project.readable(id)?, project.entry(id)?);
    let offset = readable.then(place::offset(&entry.source, place))?;
    let spans = project.with(id, &readable.source, |module, _| {
        let nodes = module.tree.nodes;
        let here = node_at(module, offset)?;
        let own = std::iter::once(nodes.kind(here));
        let kinds = own.chain(nodes.ancestor_kinds(here));
        let mut spans: Vec<Span> = Vec::new();
        for span in kinds.map(|kind| kind.span()) {
            let span = Span::new(span.start, span.end);
            if spans.last() != Some(&span) {
                spans.push(span);
            }
        }
        Some(spans)
    })??;
    let now = spans.into_iter().filter_map(|span| readable.now(span));
    Some(now.map(|span| place::range(&entry.source, span)).collect())
}

/// How many pairs of lines are compared; a text with more changes is replaced in one piece.
const COMPARED: usize = 4_000_000;

/// What formatting changes in the lines from `first` to `last`, both counted from 0: lines to
/// replace, their end excluded, and what takes their place. The statements at the module's top that
/// these lines touch are formatted by themselves; where some of their lines alone would change what
/// the others mean, it is all of theirs.
pub(super) fn format_lines(
    source: &Source,
    first: usize,
    last: usize,
) -> Vec<(usize, usize, String)> {
    let Some((start, end)) = statements(source, first, last) else {
        return Vec::new();
    };
    let lines = source.text().split_inclusive('\n');
    let own: String = lines.skip(start).take(end - start).collect();
    let own = Source::new(source.name(), own);
    let Ok(formatted) = crate::format::format(&own) else {
        // What doesn't parse has findings already.
        return Vec::new();
    };
    let hunks = hunks(own.text(), &formatted);
    let touches = |(from, to, _): &&(usize, usize, String)| {
        let (from, to) = (from + start, to + start);
        from <= last && (to > first || (from == to && from >= first))
    };
    let part: Vec<_> = hunks.iter().filter(touches).cloned().collect();
    let applied = Source::new(source.name(), apply(own.text(), &part));
    let alone = crate::format::format(&applied).is_ok_and(|again| again == formatted);
    let chosen = if alone || part.is_empty() {
        part
    } else {
        hunks
    };
    let placed = chosen.into_iter();
    placed
        .map(|(from, to, text)| (from + start, to + start, text))
        .collect()
}

/// The lines, the end excluded, of the statements that lines touch, and of what is between them.
fn statements(source: &Source, first: usize, last: usize) -> Option<(usize, usize)> {
    let allocator = Allocator::default();
    let parsed = parse::parse(&allocator, source);
    if !parsed.is_sound() {
        return None;
    }
    let line = |offset: u32| source.position(offset).line.saturating_sub(1) as usize;
    let body = parsed.program.body.iter().map(|it| it.span());
    let touched = body
        .map(|span| (line(span.start), line(span.end)))
        .filter(|(from, to)| *from <= last && *to >= first);
    let (start, end) = touched.reduce(|all, next| (all.0.min(next.0), all.1.max(next.1)))?;
    Some((start, end + 1))
}

fn apply(text: &str, hunks: &[(usize, usize, String)]) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut out = String::new();
    let mut at = 0;
    for (start, end, new) in hunks {
        out.extend(lines.get(at..*start).unwrap_or_default().iter().copied());
        out.push_str(new);
        at = *end;
    }
    out.extend(lines.get(at..).unwrap_or_default().iter().copied());
    out
}

/// Where two texts differ, by lines: the longest common sequence of lines stays.
fn hunks(old: &str, new: &str) -> Vec<(usize, usize, String)> {
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let before = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - before;
    let ends = old.iter().rev().zip(new.iter().rev());
    let after = ends.take(most).take_while(|(a, b)| a == b).count();
    let a = old.get(before..old.len() - after).unwrap_or_default();
    let b = new.get(before..new.len() - after).unwrap_or_default();
    if a.is_empty() && b.is_empty() {
        return Vec::new();
    }
    if a.len().saturating_mul(b.len()) > COMPARED {
        return vec![(before, before + a.len(), b.concat())];
    }
    let mut found: Vec<(usize, usize, String)> = Vec::new();
    let (mut i, mut j) = (0, 0);
    for (x, y) in common(a, b).into_iter().chain([(a.len(), b.len())]) {
        let text = b.get(j..y).unwrap_or_default();
        match x - i == text.len() {
            // Line by line, so that a range may end between them.
            true => {
                let lines = (before + i..before + x).zip(text);
                found.extend(lines.map(|(line, new)| (line, line + 1, (*new).to_owned())));
            }
            false => found.push((before + i, before + x, text.concat())),
        }
        (i, j) = (x + 1, y + 1);
    }
    found
}

/// The longest sequence of pairs of equal lines.
fn common(a: &[&str], b: &[&str]) -> Vec<(usize, usize)> {
    let width = b.len() + 1;
    let mut longest = vec![0u32; (a.len() + 1) * width];
    let at = |longest: &[u32], i: usize, j: usize| longest.get(i * width + j).copied().unwrap_or(0);
    for (i, one) in a.iter().enumerate().rev() {
        for (j, other) in b.iter().enumerate().rev() {
            let value = match one == other {
                true => at(&longest, i + 1, j + 1) + 1,
                false => at(&longest, i + 1, j).max(at(&longest, i, j + 1)),
            };
            if let Some(cell) = longest.get_mut(i * width + j) {
                *cell = value;
            }
        }
    }
    let mut pairs = Vec::new();
    let (mut i, mut j) = (0, 0);
    while let (Some(one), Some(other)) = (a.get(i), b.get(j)) {
        if one == other {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if at(&longest, i + 1, j) >= at(&longest, i, j + 1) {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parser wants a big stack, as the server has.
    fn formatted(source: &Source, first: usize, last: usize) -> Vec<(usize, usize, String)> {
        crate::stack::on_big_stack(|| format_lines(source, first, last)).unwrap()
    }

    #[test]
    fn only_the_lines_of_the_range_are_formatted() {
        let text = "const a=1;\nconst b = 2;\nconst c=3;\n";
        let source = Source::new("a.ts", text);
        let of = |first, last| formatted(&source, first, last);
        assert_eq!(of(0, 0), [(0, 1, "const a = 1;\n".to_owned())]);
        assert_eq!(of(1, 1), []);
        assert_eq!(of(1, 2), [(2, 3, "const c = 3;\n".to_owned())]);
        assert_eq!(of(0, 2).len(), 2);
        let right = Source::new("a.ts", "const a = 1;\n");
        assert_eq!(formatted(&right, 0, 0), []);
        // What is around it has a say in nothing: neither in the order of imports.
        let imports = "import b from \"./b.ts\";\nimport a from \"./a.ts\";\nprint(a,b);\n";
        let source = Source::new("a.ts", imports);
        let found = formatted(&source, 2, 2);
        assert_eq!(found, [(2, 3, "print(a, b);\n".to_owned())]);
        let broken = Source::new("a.ts", "const a=;\n");
        assert_eq!(formatted(&broken, 0, 0), []);
    }

    #[test]
    fn lines_that_belong_together_are_formatted_together() {
        let text = "print({a:1,\n// Why.\nb:2});\n";
        let source = Source::new("a.ts", text);
        let part = formatted(&source, 0, 0);
        let applied = Source::new("a.ts", apply(text, &part));
        let whole = crate::format::format(&source).unwrap();
        assert_eq!(crate::format::format(&applied).unwrap(), whole);
    }
}
