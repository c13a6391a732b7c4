// SPDX-License-Identifier: Apache-2.0
//! What a schedule runs, as flags: those of `aurae run`, or a file with a pod.

use std::path::PathBuf;
use std::slice;

use api::convert::pod::to_spec;
use api::pod::v0::{Pod, RunRequest};
use api::runtime::v0::{CellSpec, Executable, ObjectRef, RunExecutableRequest};
use api::schedule::v0::Work;
use api::schedule::v0::work::Run;

use crate::cmd::pod::read_pods;
use crate::cmd::run::follow_dashes;
use crate::failure::Failure;
use crate::spec::{
    CellFlags, ContainerFlags, EntrypointFlag, ExecutableFlags, LabelFlags, ResourceFlags,
};

/// What the executable of a run is called.
const MAIN: &str = "main";

/// What is to run.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct WorkFlags {
    /// A file with a pod, YAML or JSON; `-` is standard input
    #[arg(short, long, value_name = "FILE", conflicts_with = "image")]
    file: Option<PathBuf>,
    #[command(flatten)]
    labels: LabelFlags,
    #[command(flatten)]
    process: ExecutableFlags,
    #[command(flatten)]
    resources: ResourceFlags,
    #[command(flatten)]
    cell: CellFlags,
    #[command(flatten)]
    container: ContainerFlags,
    #[command(flatten)]
    entrypoint: EntrypointFlag,
    /// An image; after `--`, or with a path, a program of the node
    #[arg(value_name = "IMAGE | -- COMMAND", required_unless_present = "file")]
    image: Option<String>,
    /// The arguments of its program: everything that follows
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT"
    )]
    arguments: Vec<String>,
}

impl WorkFlags {
    /// The name of the file's pod, where the schedule is given none.
    pub(super) fn own_name(&self) -> Result<Option<String>, Failure> {
        match &self.file {
            Some(_) => Ok(Some(self.pod()?.name)),
            None => Ok(None),
        }
    }

    fn pod(&self) -> Result<api::convert::pod::Manifest, Failure> {
        let file = self.file.clone().unwrap_or_default();
        let mut pods = read_pods(&file)?;
        match (pods.pop(), pods.is_empty()) {
            (Some(pod), true) => Ok(pod),
            (None, _) => Err(Failure::usage(format!("{} has no pod", file.display()))),
            (Some(_), false) => {
                let message = format!("{} has more than one pod", file.display());
                Err(Failure::usage(message).with_hint("a schedule runs one: divide the file"))
            }
        }
    }

    /// The message, for a schedule of that name.
    pub(super) fn build(&self, name: &str) -> Result<Work, Failure> {
        let run = match &self.file {
            Some(_) => {
                let pod = self.pod()?;
                Run::Pod(RunRequest {
                    pod: Some(Pod {
                        r#ref: at(name.to_owned()),
                        labels: pod.labels,
                        spec: Some(to_spec(&pod.draft)),
                    }),
                    ..Default::default()
                })
            }
            None => Run::Executable(self.executable(name)?),
        };
        Ok(Work {
            run: Some(run),
            ..Default::default()
        })
    }

    fn executable(&self, name: &str) -> Result<RunExecutableRequest, Failure> {
        let first = self.image.clone().unwrap_or_default();
        let is_path = ["/", "./", "../"].iter().any(|at| first.starts_with(at));
        let program = is_path || follow_dashes(1 + self.arguments.len(), std::env::args_os());
        let argv = match program {
            true => [slice::from_ref(&first), &self.arguments[..]].concat(),
            false => match &self.arguments[..] {
                [dashes, rest @ ..] if dashes == "--" => rest.to_vec(),
                rest => rest.to_vec(),
            },
        };
        let mut spec = self.process.build(&argv)?;
        let mut own_cell: CellSpec = self.cell.build(&self.resources);
        if program {
            let entrypoint = self.entrypoint.entrypoint.as_ref().map(|_| "--entrypoint");
            if let Some(flag) = entrypoint.or_else(|| self.container.first_given()) {
                let problem = format!("{flag} has a meaning only with an image");
                return Err(Failure::usage(problem)
                    .with_hint("name the image before the program's arguments, without `--`"));
            }
        } else {
            spec.main = true;
            spec.entrypoint = self.entrypoint.entrypoint.iter().cloned().collect();
            own_cell.container = Some(self.container.build(&first));
        }
        Ok(RunExecutableRequest {
            executable: Some(Executable {
                r#ref: at(format!("{name}/{MAIN}")),
                labels: self.labels.build(),
                spec: Some(spec),
            }),
            own_cell: Some(own_cell),
            ..Default::default()
        })
    }
}

fn at(path: String) -> Option<ObjectRef> {
    Some(ObjectRef {
        path,
        ..Default::default()
    })
}
