// SPDX-License-Identifier: Apache-2.0
//! `aurae cp`: files out of a cell and into it. `tar` runs in the cell as an executable, and the
//! archive goes over its standard streams. So a copy has the rights of a program of that cell, and
//! the node needs no other access to the cell's files.

mod streams;

use std::path::{Path, PathBuf};

use api::runtime::v0::{
    Executable, ExecutableSpec, Exit, ObjectRef, RunExecutableRequest, WaitFor, exit,
};

use super::launch::to_us;
use super::names::invent_name;
use crate::failure::Failure;
use crate::output::Progress;
use crate::session::Session;
use streams::{Ended, receive, send};

const EXAMPLES: &str = "\
Examples:
  aurae cp web:/etc/nginx/nginx.conf .
  aurae cp web:/srv/data backup             a folder, with what is in it
  aurae cp page.html web:/tmp/page.html
  aurae cp -u www-data site web:/tmp/       into that folder

One of the two names a path in a cell: CELL:/PATH. The cell must have the program tar. What is
copied belongs to the user that copies.";

/// `aurae cp`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CpArgs {
    /// As this user of the cell
    #[arg(short, long, value_name = "USER[:GROUP]")]
    user: Option<String>,
    /// A path here, or CELL:/PATH
    #[arg(value_name = "FROM")]
    pub(crate) from: String,
    /// A path here, or CELL:/PATH
    #[arg(value_name = "TO")]
    pub(crate) to: String,
}

/// One end of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Here(PathBuf),
    Cell { cell: String, path: String },
}

/// `CELL:/PATH`, or a path here. A path here that has a colon is written with a `/` before it.
fn place(text: &str) -> Place {
    match text.split_once(':') {
        Some((cell, path)) if !cell.is_empty() && !cell.starts_with(['/', '.']) => Place::Cell {
            cell: cell.to_owned(),
            path: path.to_owned(),
        },
        _ => Place::Here(text.into()),
    }
}

/// The cell and the path in it, where a place is there and not here.
pub(crate) fn in_cell(text: &str) -> Option<(&str, &str)> {
    match place(text) {
        Place::Cell { .. } => text.split_once(':'),
        Place::Here(_) => None,
    }
}

/// Runs `aurae cp`.
pub(crate) async fn run(session: &Session, args: &CpArgs) -> Result<u8, Failure> {
    let progress = Progress::start(format!("copying {} to {}", args.from, args.to));
    let copied = match (place(&args.from), place(&args.to)) {
        (Place::Cell { cell, path }, Place::Here(to)) => {
            out_of(session, args, (&cell, &path), &to).await
        }
        (Place::Here(from), Place::Cell { cell, path }) => {
            into(session, args, &from, (&cell, &path)).await
        }
        _ => Err(
            Failure::usage("one of the two must be in a cell, the other here")
                .with_hint("write CELL:/PATH for the one in the cell"),
        ),
    };
    drop(progress);
    copied.map(|()| 0)
}

async fn out_of(
    session: &Session,
    args: &CpArgs,
    (cell, path): (&str, &str),
    to: &Path,
) -> Result<(), Failure> {
    let (folder, name) = split(path)?;
    let target = match to.is_dir() {
        true => to.join(name),
        false => to.to_owned(),
    };
    let around = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    // Beside the target, so that it is there altogether or not at all.
    let unpacked = tempfile::Builder::new()
        .prefix(".aurae-cp-")
        .tempdir_in(&around)
        .map_err(|problem| cant("write into", &around, &problem))?;
    let argv = ["tar", "-cf", "-", "-C", folder, "--", name];
    let reference = start(session, args, cell, &argv, false).await?;
    let ended = receive(session, reference, unpacked.path()).await?;
    succeeded(&ended, &format!("{cell}:{path}"))?;
    std::fs::rename(unpacked.path().join(name), &target)
        .map_err(|problem| cant("write", &target, &problem))
}

async fn into(
    session: &Session,
    args: &CpArgs,
    from: &Path,
    (cell, path): (&str, &str),
) -> Result<(), Failure> {
    std::fs::symlink_metadata(from).map_err(|problem| cant("read", from, &problem))?;
    let own = std::path::absolute(from).map_err(|problem| cant("read", from, &problem))?;
    let own = own.file_name().and_then(|name| name.to_str());
    let Some(own) = own else {
        return Err(Failure::usage(format!("{} has no name", from.display())));
    };
    let (folder, name) = match is_folder(session, args, cell, path).await? {
        true => (path, own),
        false => split(path)?,
    };
    let argv = ["tar", "-xf", "-", "-C", folder];
    let reference = start(session, args, cell, &argv, true).await?;
    let ended = send(session, reference, from.to_owned(), name.to_owned()).await?;
    succeeded(&ended, &format!("{cell}:{path}"))
}

/// The folder and the name of an absolute path.
fn split(path: &str) -> Result<(&str, &str), Failure> {
    let wrong = || {
        Failure::usage(format!("{path:?} names no file in the cell"))
            .with_hint("write CELL:/PATH with an absolute path")
    };
    let (folder, name) = path
        .trim_end_matches('/')
        .rsplit_once('/')
        .ok_or_else(wrong)?;
    if !path.starts_with('/') || name.is_empty() || name == ".." {
        return Err(wrong());
    }
    Ok((if folder.is_empty() { "/" } else { folder }, name))
}

fn request(session: &Session, args: &CpArgs, cell: &str, argv: &[&str]) -> RunExecutableRequest {
    let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
    let user = args.user.as_deref().unwrap_or_default();
    let (user, group) = user.split_once(':').unwrap_or((user, ""));
    let name = invent_name("cp");
    RunExecutableRequest {
        executable: Some(Executable {
            r#ref: Some(session.reference(&format!("{cell}/{name}"))),
            spec: Some(ExecutableSpec {
                argv,
                user: user.to_owned(),
                group: group.to_owned(),
                auto_remove: true,
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

async fn start(
    session: &Session,
    args: &CpArgs,
    cell: &str,
    argv: &[&str],
    stdin: bool,
) -> Result<ObjectRef, Failure> {
    let mut request = request(session, args, cell, argv);
    request.attach_follows = true;
    if let Some(spec) = request.executable.as_mut().and_then(|it| it.spec.as_mut()) {
        spec.stdin = stdin;
        // The archive comes from tar to us, as fast as we take it, and is in no log of the node's.
        spec.streams = Some(to_us());
    }
    let request = session.node.unary(request);
    let started = session.node.runtime().run_executable(request).await?;
    let meta = started.into_inner().meta;
    Ok(meta.and_then(|meta| meta.r#ref).unwrap_or_default())
}

async fn is_folder(
    session: &Session,
    args: &CpArgs,
    cell: &str,
    path: &str,
) -> Result<bool, Failure> {
    let mut request = request(session, args, cell, &["test", "-d", path]);
    request.wait_for = WaitFor::Exited.into();
    let request = session.node.unary(request);
    let ended = session.node.runtime().run_executable(request).await?;
    let how = ended.into_inner().exit.and_then(|exit| exit.how);
    Ok(how == Some(exit::How::Code(0)))
}

fn succeeded(ended: &Ended, what: &str) -> Result<(), Failure> {
    let Exit { how, .. } = ended.exit;
    if how == Some(exit::How::Code(0)) {
        return Ok(());
    }
    let said = ended.errors.trim();
    Err(Failure::new(match said.is_empty() {
        true => format!("{what} was not copied: tar failed in the cell"),
        false => format!("{what} was not copied: {said}"),
    }))
}

fn cant(action: &str, path: &Path, problem: &std::io::Error) -> Failure {
    Failure::new(format!("can't {action} {}: {problem}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cells_path_has_its_cell_before_it() {
        let in_cell = |cell: &str, path: &str| Place::Cell {
            cell: cell.into(),
            path: path.into(),
        };
        assert_eq!(place("web:/srv/a"), in_cell("web", "/srv/a"));
        assert_eq!(place("web/db:/a:b"), in_cell("web/db", "/a:b"));
        assert_eq!(place("./a:b"), Place::Here("./a:b".into()));
        assert_eq!(place("a"), Place::Here("a".into()));
        assert_eq!(split("/a").unwrap(), ("/", "a"));
        assert_eq!(split("/srv/a/").unwrap(), ("/srv", "a"));
        for wrong in ["", "/", "a", "/srv/.."] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
    }
}
