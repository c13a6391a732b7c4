// SPDX-License-Identifier: Apache-2.0
//! `aurae run`: an image as a container, or a program of the node in a cell of its own or in an
//! existing one; attached unless told otherwise.

use std::ffi::OsString;
use std::slice;

use api::runtime::v0::{CellSpec, Executable, ExecutableSpec, RunExecutableRequest, WaitFor};

use super::fetch;
use super::image::RegistryFlags;
use super::launch::{AttachmentFlags, aurae_failed, launch};
use super::names::{image_name, invent_name};
use crate::failure::Failure;
use crate::output::OutputArgs;
use crate::session::Session;
use crate::spec::{
    CellFlags, ContainerFlags, EntrypointFlag, ExecutableFlags, LabelFlags, ResourceFlags,
};

const EXAMPLES: &str = "\
Examples:
  aurae run --rm -it alpine                             a container of an image
  aurae run -d --name web -p 8080:80 nginx:1.27         the node's port 8080 leads to it
  aurae run --rm --entrypoint /bin/ls debian:12 -l /
  aurae run -- /bin/echo hello                          a program of the node
  aurae run -it --rm -- bash
  aurae run -d --name web --memory 64M --read /srv/www -- nginx -g 'daemon off;'
  aurae run --cell web --name probe --rm -- curl -s http://localhost/
  aurae run --net host --user www-data -e LANG=C -w /tmp -- ./server
  aurae run --read $PWD -w $PWD -- ./script.sh          a script of your own

What stands before `--` is an image, which is pulled where the node hasn't got it, and what follows it
are arguments, as with docker run. A program of the node follows `--`, or begins with /, ./ or ../.

Without --cell, a cell NAME is created for the executable NAME/NAME and goes with it; --memory and the
like are then the cell's. With --cell, they are the executable's, within its cell's.

Attached, Ctrl-C and other signals go to the program; a third one leaves it running. With a terminal
(-t), every key goes to the program; ctrl-p ctrl-q leaves it running.";

/// `aurae run`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// Run in this cell instead of one of its own
    #[arg(long, value_name = "CELL")]
    cell: Option<String>,
    /// The executable's name; made from the program's, unless given
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    attachment: AttachmentFlags,
    /// The id of this request: a retry with the same id starts nothing twice
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    #[command(flatten)]
    labels: LabelFlags,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    process: ExecutableFlags,
    #[command(flatten)]
    resources: ResourceFlags,
    #[command(flatten)]
    cell_flags: CellFlags,
    #[command(flatten)]
    container: ContainerFlags,
    #[command(flatten)]
    entrypoint: EntrypointFlag,
    #[command(flatten)]
    registry: RegistryFlags,
    /// An image; after `--`, or with a path, a program of the node
    #[arg(value_name = "IMAGE | -- COMMAND")]
    image: String,
    /// The arguments of its program: everything that follows
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT"
    )]
    arguments: Vec<String>,
}

/// What is to be run.
enum What<'a> {
    /// A container of an image, with these arguments.
    Image(&'a str, &'a [String]),
    /// A program with its arguments, among the files of its cell.
    Program(Vec<String>),
}

/// Runs it; the workload's own status when attached.
pub(crate) async fn run(session: &Session, args: &RunArgs) -> Result<u8, Failure> {
    args.attachment.check()?;
    if args.registry.take_stdin() && args.attachment.interactive {
        let message = "standard input can't be both the password and the program's";
        return Err(Failure::usage(message));
    }
    let mut request = args.request(session)?;
    if let Some(container) = request
        .own_cell
        .as_mut()
        .and_then(|it| it.container.as_mut())
    {
        let fetched = fetch::image(session, container, &args.registry).await;
        fetched.map_err(|failure| {
            let image = &container.image;
            let hint = format!("{image} is taken for an image: a program goes after `--`");
            aurae_failed(failure).and_hint(&hint)
        })?;
    }
    launch(session, request, &args.attachment, args.output.output).await
}

impl RunArgs {
    fn request(&self, session: &Session) -> Result<RunExecutableRequest, Failure> {
        let what = self.what();
        let (argv, program) = match &what {
            What::Image(image, argv) => (*argv, image_name(image)),
            What::Program(argv) => (&argv[..], argv.first().map_or("", String::as_str)),
        };
        let name = match &self.name {
            Some(name) => name.clone(),
            None => invent_name(program),
        };
        let mut spec = self.process.build(argv)?;
        self.attachment.fill(&mut spec);
        let image = match &what {
            What::Image(image, _) => Some(*image),
            What::Program(_) => None,
        };
        self.of_container(&mut spec, image)?;
        let (path, own_cell) = match &self.cell {
            Some(cell) => {
                self.refuse_cell_flags(cell, image)?;
                merge_resources(&mut spec, &self.resources);
                (format!("{cell}/{name}"), None)
            }
            None => {
                let label = name.rsplit('/').next().unwrap_or(&name);
                (format!("{name}/{label}"), Some(self.own_cell(image)))
            }
        };
        Ok(RunExecutableRequest {
            executable: Some(Executable {
                r#ref: Some(session.reference(&path)),
                labels: self.labels.build(),
                spec: Some(spec),
            }),
            request_id: self.request_id.clone().unwrap_or_default(),
            wait_for: WaitFor::Started.into(),
            own_cell,
            attach_follows: !self.attachment.detach,
            ..Default::default()
        })
    }

    /// A path is a program's: no image's name begins like one.
    fn what(&self) -> What<'_> {
        let (image, arguments) = (&self.image, &self.arguments[..]);
        let is_path = ["/", "./", "../"].iter().any(|at| image.starts_with(at));
        if is_path || follow_dashes(1 + arguments.len(), std::env::args_os()) {
            return What::Program([slice::from_ref(image), arguments].concat());
        }
        match arguments {
            // As kubectl's users write it.
            [dashes, rest @ ..] if dashes == "--" => What::Image(image, rest),
            rest => What::Image(image, rest),
        }
    }

    /// What is the container's alone.
    fn of_container(&self, spec: &mut ExecutableSpec, image: Option<&str>) -> Result<(), Failure> {
        let entrypoint = &self.entrypoint.entrypoint;
        if image.is_some() {
            spec.main = true;
            spec.entrypoint = entrypoint.iter().cloned().collect();
            return Ok(());
        }
        let given = entrypoint.as_ref().map(|_| "--entrypoint");
        match given.or_else(|| self.container.first_given()) {
            None => Ok(()),
            Some(flag) => Err(
                Failure::usage(format!("{flag} has a meaning only with an image"))
                    .with_hint("name the image before the program's arguments, without `--`"),
            ),
        }
    }

    fn own_cell(&self, image: Option<&str>) -> CellSpec {
        CellSpec {
            container: image.map(|image| self.container.build(image)),
            ..self.cell_flags.build(&self.resources)
        }
    }

    fn refuse_cell_flags(&self, cell: &str, image: Option<&str>) -> Result<(), Failure> {
        if image.is_some() {
            let problem =
                "an image is run in a new cell of its own: --cell names one that is there";
            return Err(
                Failure::usage(problem).with_hint(format!("a program in {cell} goes after `--`"))
            );
        }
        match self.cell_flags.first_given() {
            None => Ok(()),
            Some(flag) => Err(Failure::usage(format!(
                "{flag} describes a new cell, but {cell} is there already (--cell)"
            ))
            .with_hint(format!(
                "leave --cell out, or use `aurae cell update {cell}`"
            ))),
        }
    }
}

/// Limits given by flag, beside those given by `--property`.
pub(crate) fn merge_resources(spec: &mut ExecutableSpec, flags: &ResourceFlags) {
    if let Some(resources) = flags.build() {
        spec.resources = Some(resources);
    }
}

/// Whether the last words of a command line stand behind `--`, which the parser leaves out.
pub(crate) fn follow_dashes(words: usize, line: impl Iterator<Item = OsString>) -> bool {
    let line: Vec<_> = line.collect();
    let before = line.len().checked_sub(words + 1);
    before
        .and_then(|at| line.get(at))
        .is_some_and(|word| word == "--")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        run: RunArgs,
    }

    fn line(text: &str) -> RunArgs {
        let words = std::iter::once("run").chain(text.split(' '));
        <Line as clap::Parser>::try_parse_from(words).unwrap().run
    }

    #[test]
    fn what_is_run_is_an_image_or_follows_dashes() {
        let image = |text: &str| match line(text).what() {
            What::Image(image, rest) => Some(format!("{image}: {}", rest.join(" "))),
            What::Program(_) => None,
        };
        assert_eq!(
            image("-d nginx -g daemon").as_deref(),
            Some("nginx: -g daemon")
        );
        assert_eq!(image("nginx -- sh -c x").as_deref(), Some("nginx: sh -c x"));
        for path in ["/bin/true", "./script", "../script -d"] {
            assert_eq!(image(path), None, "{path}");
        }
        let refused = |text: &str, image: Option<&str>| {
            let problem = line(text).of_container(&mut ExecutableSpec::default(), image);
            format!("{:?}", problem.unwrap_err())
        };
        for flag in [
            "--entrypoint sh",
            "--read-only",
            "--pull always",
            "--root-size 1M",
            "--root-on-disk",
        ] {
            let said = refused(&format!("{flag} /bin/true"), None);
            assert!(said.contains("only with an image"), "{said}");
        }
        let cell = line("--cell web nginx").refuse_cell_flags("web", Some("nginx"));
        let said = format!("{:?}", cell.unwrap_err());
        assert!(said.contains("a program in web goes after `--`"), "{said}");
    }

    #[test]
    fn only_what_follows_dashes_is_a_program() {
        let line = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let follow = |all, words| follow_dashes(words, line(all).into_iter());
        assert!(follow("aurae run -d -- nginx -g", 2));
        assert!(!follow("aurae run -d nginx -g", 2));
        assert!(!follow("aurae run nginx -- sh", 3));
        assert!(!follow("nginx", 1));
    }
}
