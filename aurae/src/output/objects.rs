// SPDX-License-Identifier: Apache-2.0
//! Objects in words: their state, their end, their command, their place in the tree of cells.

use std::collections::BTreeMap;

use api::runtime::v0::{
    ExecutableSpec, ExecutableStatus, Exit, Meta, Object, ObjectRef, State, exit, object,
};

use super::{Cell, Color};

/// The facts of every object; `None` only for an answer that breaks the API's contract.
pub(crate) fn meta(object: &Object) -> Option<&Meta> {
    match object.object.as_ref()? {
        object::Object::Cell(cell) => cell.meta.as_ref(),
        object::Object::Executable(executable) => executable.meta.as_ref(),
    }
}

/// Its name, empty for an answer that breaks the contract.
pub(crate) fn reference(object: &Object) -> ObjectRef {
    meta(object)
        .and_then(|meta| meta.r#ref.clone())
        .unwrap_or_default()
}

/// The object's path, without its tenant.
pub(crate) fn path(object: &Object) -> String {
    reference(object).path
}

fn state(object: &Object) -> State {
    match object.object.as_ref() {
        Some(object::Object::Cell(cell)) => cell.state(),
        Some(object::Object::Executable(executable)) => executable.state(),
        None => State::Unspecified,
    }
}

/// Its state, and for what has ended how.
pub(crate) fn state_cell(object: &Object) -> Cell {
    let state = state(object);
    if let Some(object::Object::Executable(ExecutableStatus {
        exit: Some(exit), ..
    })) = object.object.as_ref()
    {
        let fine = matches!(exit.how, Some(exit::How::Code(0)));
        let color = if fine { Color::Dim } else { Color::Red };
        return Cell::colored(exit_words(exit), Some(color));
    }
    let (words, color) = match state {
        State::Unspecified => ("?", None),
        State::Starting => ("starting", Some(Color::Yellow)),
        State::Running => ("running", Some(Color::Green)),
        State::Frozen => ("frozen", Some(Color::Blue)),
        State::Stopping => ("stopping", Some(Color::Yellow)),
        State::Exited => ("exited", Some(Color::Dim)),
        State::Failed => ("failed", Some(Color::Red)),
    };
    Cell::colored(words, color)
}

/// How a process ended.
pub(crate) fn exit_words(exit: &Exit) -> String {
    let core = if exit.core_dumped {
        ", core dumped"
    } else {
        ""
    };
    match exit.how {
        _ if exit.oom_killed => "killed (out of memory)".to_owned(),
        Some(exit::How::Code(code)) => format!("exited ({code})"),
        Some(exit::How::Signal(signal)) => format!("killed ({}{core})", signal_name(signal)),
        Some(exit::How::Unknown(_)) | None => "ended (status unknown)".to_owned(),
    }
}

/// In order of their numbers, from 1 (signal(7), x86 and ARM).
const SIGNALS: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

fn signal_name(number: u32) -> String {
    let index = usize::try_from(number)
        .ok()
        .and_then(|number| number.checked_sub(1));
    match index.and_then(|index| SIGNALS.get(index)) {
        Some(name) => format!("SIG{name}"),
        None => format!("signal {number}"),
    }
}

/// The command as a shell would take it.
pub(crate) fn command_line(spec: Option<&ExecutableSpec>) -> String {
    let words = spec.map(|spec| spec.argv.as_slice()).unwrap_or_default();
    let quoted: Vec<String> = words.iter().map(|word| quote(word)).collect();
    quoted.join(" ")
}

fn quote(word: &str) -> String {
    let harmless = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(harmless) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// One line of the tree.
#[derive(Debug)]
pub(crate) struct Branch<'a> {
    /// The label with its lines, or the whole path of what has no parent here.
    pub(crate) name: String,
    pub(crate) object: &'a Object,
}

type Place = (String, Vec<String>);

/// Objects below their cells, in order of their labels; another order than the paths' as text,
/// where `-` is less than `/`.
pub(crate) fn tree(objects: &[Object]) -> Vec<Branch<'_>> {
    let mut places: BTreeMap<Place, &Object> = BTreeMap::new();
    for object in objects {
        let reference = reference(object);
        let labels = reference.path.split('/').map(str::to_owned).collect();
        places.insert((reference.tenant, labels), object);
    }
    let mut children: BTreeMap<Place, Vec<&Place>> = BTreeMap::new();
    let mut roots = Vec::new();
    for place in places.keys() {
        match parent(place).filter(|parent| places.contains_key(parent)) {
            Some(parent) => children.entry(parent).or_default().push(place),
            None => roots.push(place),
        }
    }
    let mut branches = Vec::with_capacity(places.len());
    for root in roots {
        let name = root.1.join("/");
        grow(&mut branches, &places, &children, root, name, "");
    }
    branches
}

fn parent((tenant, labels): &Place) -> Option<Place> {
    let (_, above) = labels.split_last()?;
    Some((tenant.clone(), above.to_vec()))
}

/// Adds an object and everything below it. At most 16 deep: paths have no more labels.
fn grow<'a>(
    branches: &mut Vec<Branch<'a>>,
    places: &BTreeMap<Place, &'a Object>,
    children: &BTreeMap<Place, Vec<&Place>>,
    place: &Place,
    name: String,
    indent: &str,
) {
    if let Some(object) = places.get(place) {
        branches.push(Branch { name, object });
    }
    let below = children.get(place).map(Vec::as_slice).unwrap_or_default();
    for (index, child) in below.iter().enumerate() {
        let last = index + 1 == below.len();
        let (knot, line) = if last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        let label = child.1.last().map(String::as_str).unwrap_or_default();
        let name = format!("{indent}{knot}{label}");
        grow(
            branches,
            places,
            children,
            child,
            name,
            &format!("{indent}{line}"),
        );
    }
}

#[cfg(test)]
mod tests {
    use api::runtime::v0::CellStatus;

    use super::*;

    fn cell(path: &str) -> Object {
        let reference = ObjectRef {
            path: path.into(),
            ..Default::default()
        };
        let meta = Meta {
            r#ref: Some(reference),
            ..Default::default()
        };
        Object {
            object: Some(object::Object::Cell(CellStatus {
                meta: Some(meta),
                ..Default::default()
            })),
        }
    }

    #[test]
    fn children_stand_below_their_cell_and_orphans_by_their_whole_path() {
        let objects = [
            "web",
            "web-b",
            "web/db",
            "web/db/x",
            "web/nginx",
            "gone/job",
        ]
        .map(cell);
        let names: Vec<_> = tree(&objects).into_iter().map(|b| b.name).collect();
        assert_eq!(
            names,
            ["gone/job", "web", "├─ db", "│  └─ x", "└─ nginx", "web-b"]
        );
    }

    #[test]
    fn ends_in_words() {
        let words = |how| {
            exit_words(&Exit {
                how: Some(how),
                ..Default::default()
            })
        };
        assert_eq!(words(exit::How::Code(3)), "exited (3)");
        assert_eq!(words(exit::How::Signal(9)), "killed (SIGKILL)");
        assert_eq!(words(exit::How::Unknown(true)), "ended (status unknown)");
        let oom = Exit {
            how: Some(exit::How::Signal(9)),
            oom_killed: true,
            ..Default::default()
        };
        assert_eq!(exit_words(&oom), "killed (out of memory)");
    }

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        let spec = ExecutableSpec {
            argv: ["sh", "-c", "echo it's $HOME", ""]
                .map(str::to_owned)
                .to_vec(),
            ..Default::default()
        };
        assert_eq!(command_line(Some(&spec)), r"sh -c 'echo it'\''s $HOME' ''");
    }
}
