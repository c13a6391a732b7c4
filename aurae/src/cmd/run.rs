// SPDX-License-Identifier: Apache-2.0
//! `aurae run`: an image as a container, or a program of the node in a cell of its own or in an
//! existing one; attached unless told otherwise.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::slice;

use api::runtime::v0::{
    CellSpec, ErrorReason, Executable, ExecutableSpec, Exit, ObjectRef, RemoveRequest,
    RunExecutableRequest, WaitFor, WaitRequest, exit,
};

use super::fetch;
use super::started::{detached, hinted};
use crate::attach::{self, DetachKeys, Options, Outcome, parse_keys};
use crate::failure::{AURAE_FAILED, Failure, NOT_EXECUTABLE, PROGRAM_NOT_FOUND};
use crate::output::{Format, OutputArgs, meta, note};
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

Without --cell, a cell NAME is made for the executable NAME/NAME and goes with it; --memory and the
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

/// How `run` and `exec` are attached.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct AttachmentFlags {
    /// Hand standard input over
    #[arg(short, long)]
    pub(crate) interactive: bool,
    /// Give the program a terminal
    #[arg(short, long)]
    pub(crate) tty: bool,
    /// Do not attach: print the name, see for a moment whether it runs, and leave
    #[arg(short, long, conflicts_with_all = ["interactive"])]
    pub(crate) detach: bool,
    /// Remove the record and the logs when it has ended
    #[arg(long)]
    pub(crate) rm: bool,
    /// The keys that leave a terminal session
    #[arg(long, value_name = "KEYS", default_value = "ctrl-p,ctrl-q", value_parser = parse_keys)]
    pub(crate) detach_keys: DetachKeys,
}

/// Runs it; the workload's own status when attached.
pub(crate) async fn run(session: &Session, args: &RunArgs) -> Result<u8, Failure> {
    args.attachment.check()?;
    let mut request = args.request(session)?;
    if let Some(container) = request
        .own_cell
        .as_mut()
        .and_then(|it| it.container.as_mut())
    {
        let fetched = fetch::image(session, container).await;
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
            let problem = "an image makes a cell of its own: --cell names one that is there";
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

impl AttachmentFlags {
    /// A terminal for us to hand over must be there.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.interactive && self.tty && !std::io::stdin().is_terminal() {
            return Err(
                Failure::usage("-t with -i needs a terminal on standard input")
                    .with_hint("leave -t out where input comes from a pipe or a file"),
            );
        }
        Ok(())
    }

    /// Sets the fields of the spec that the attachment needs.
    pub(crate) fn fill(&self, spec: &mut ExecutableSpec) {
        spec.stdin = self.interactive;
        spec.auto_remove = self.rm;
        if self.tty {
            spec.terminal = Some(attach::terminal_size().unwrap_or_default());
            if let Ok(term) = std::env::var("TERM") {
                spec.env.entry("TERM".to_owned()).or_insert(term);
            }
        }
    }

    pub(crate) fn options(&self) -> Options {
        Options {
            stdin: self.interactive,
            terminal: self.tty,
            // With both, Ctrl-C is a key that goes to the program.
            forward_signals: !(self.tty && self.interactive),
            keys: self.detach_keys.clone(),
            only_new: false,
        }
    }
}

/// Asks the node to run it, and stays attached unless `--detach` is given.
pub(crate) async fn launch(
    session: &Session,
    request: RunExecutableRequest,
    flags: &AttachmentFlags,
    format: Format,
) -> Result<u8, Failure> {
    let has_own_cell = request.own_cell.is_some();
    let spec = request.executable.as_ref().and_then(|it| it.spec.as_ref());
    let argv = spec.map(|spec| spec.argv.clone()).unwrap_or_default();
    // The node knows a request id as long as the record of its run: what removes itself may be over
    // and forgotten when it is asked again.
    let is_kept = request.attach_follows || !spec.is_some_and(|spec| spec.auto_remove);
    let known_by = if is_kept {
        request.request_id.as_str()
    } else {
        ""
    };
    let start = async |node: &client::Node| {
        let request = node.unary(request.clone());
        node.runtime().run_executable(request).await
    };
    let status = match session.ask_with(known_by, start).await {
        Ok(status) => status,
        Err(problem) => return Err(hinted(session, classify(problem), &argv)),
    };
    if flags.detach {
        return detached(session, format, status).await;
    }
    let reference = status.meta.and_then(|meta| meta.r#ref).unwrap_or_default();
    let outcome = attach::attach(session, reference.clone(), flags.options()).await;
    match outcome.map_err(aurae_failed)? {
        Outcome::Exited(exit) => {
            let status = exit_status(&reference.path, &exit);
            if has_own_cell {
                wait_for_own_cell(session, &reference, &exit).await;
            }
            if flags.rm {
                remove(session, reference).await;
            }
            Ok(status)
        }
        Outcome::Left(status) => {
            say_that_it_runs_on(&reference.path);
            Ok(status)
        }
    }
}

/// The reader's going keeps its own status.
fn aurae_failed(failure: Failure) -> Failure {
    match failure.status {
        crate::failure::FAILED => failure.with_status(AURAE_FAILED),
        _ => failure,
    }
}

pub(crate) fn say_that_it_runs_on(path: &str) {
    note(&format!(
        "{path} runs on; `aurae attach {path}` comes back to it"
    ));
}

/// The statuses that shells know.
fn classify(problem: client::Error) -> Failure {
    let reason = problem.refusal().map(|refusal| refusal.reason);
    let status = match reason {
        Some(ErrorReason::ProgramNotFound) => PROGRAM_NOT_FOUND,
        Some(ErrorReason::ProgramNotExecutable) => NOT_EXECUTABLE,
        _ => AURAE_FAILED,
    };
    Failure::from(problem).with_status(status)
}

/// The workload's end as our own status.
pub(crate) fn exit_status(path: &str, exit: &Exit) -> u8 {
    if exit.oom_killed {
        note(&format!("{path} was killed: out of memory"));
    }
    match exit.how {
        Some(exit::How::Code(code)) => u8::try_from(code).unwrap_or(u8::MAX),
        Some(exit::How::Signal(signal)) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        Some(exit::How::Unknown(_)) | None => {
            note(&format!(
                "{path} has ended, but its status is not known: its parent was lost"
            ));
            AURAE_FAILED
        }
    }
}

/// Waits until the cell that was created for the run has ended, so that the name is free when the
/// client ends. A failed call isn't reported: the run itself is over.
async fn wait_for_own_cell(session: &Session, executable: &ObjectRef, exit: &Exit) {
    let Some((path, _)) = executable.path.rsplit_once('/') else {
        return;
    };
    let Ok(found) = session.get(session.reference(path)).await else {
        return;
    };
    let Some(meta) = meta(&found) else { return };
    let time = |time: &prost_types::Timestamp| (time.seconds, time.nanos);
    let created = meta.created.as_ref().map(time);
    let ended = exit.finished.as_ref().map(time);
    // A cell that was created after the run's end is another caller's.
    if created.is_some() && created < ended {
        let request = WaitRequest {
            r#ref: meta.r#ref.clone(),
        };
        let _ = session
            .node
            .runtime()
            .wait(session.node.unary(request))
            .await;
    }
}

/// Asks for what the node does by itself once we have left, so that the record is gone when we end.
async fn remove(session: &Session, reference: ObjectRef) {
    let request = RemoveRequest {
        r#ref: Some(reference),
        ..Default::default()
    };
    let request = session.node.unary(request);
    let _gone_already_or_soon = session.node.runtime().remove(request).await;
}

/// Whether the last words of a command line stand behind `--`, which the parser leaves out.
pub(crate) fn follow_dashes(words: usize, line: impl Iterator<Item = OsString>) -> bool {
    let line: Vec<_> = line.collect();
    let before = line.len().checked_sub(words + 1);
    before
        .and_then(|at| line.get(at))
        .is_some_and(|word| word == "--")
}

/// The name of an image without registry, tag and digest.
fn image_name(image: &str) -> &str {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split_once(':').map_or(last, |(name, _)| name)
}

/// `nginx-5f3a1`: the program's name as a label, and five digits, so that the next run has another.
pub(crate) fn invent_name(program: &str) -> String {
    let base = program.rsplit('/').next().unwrap_or_default();
    let label: String = base
        .to_ascii_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(40)
        .collect();
    let label = match label.trim_matches('-') {
        "" => "run",
        label => label,
    };
    format!("{label}-{:05x}", random() & 0xf_ffff)
}

/// Not for secrets: a name that is taken is refused by the node.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(program: &str) -> String {
        let invented = invent_name(program);
        let (label, digits) = invented.rsplit_once('-').unwrap();
        assert!(digits.len() == 5 && digits.chars().all(|c| c.is_ascii_hexdigit()));
        label.to_owned()
    }

    #[test]
    fn an_invented_name_is_a_label_that_tells_the_program() {
        assert_eq!(name("/usr/sbin/nginx"), "nginx");
        assert_eq!(name("My_Prog.sh"), "my-prog-sh");
        assert_eq!(name("/"), "run");
        assert_eq!(name("über"), "ber");
        assert_eq!(name(&"x".repeat(100)).len(), 40);
    }

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

    #[test]
    fn an_images_name_is_without_registry_and_tag() {
        for (image, name) in [
            ("nginx", "nginx"),
            ("registry.example:5000/team/app:v2", "app"),
            ("app@sha256:0123", "app"),
        ] {
            assert_eq!(image_name(image), name);
        }
    }

    #[test]
    fn a_workloads_end_is_our_status() {
        let status = |how| {
            exit_status(
                "a",
                &Exit {
                    how: Some(how),
                    ..Default::default()
                },
            )
        };
        assert_eq!(status(exit::How::Code(7)), 7);
        assert_eq!(status(exit::How::Signal(9)), 137);
        assert_eq!(status(exit::How::Unknown(true)), AURAE_FAILED);
    }
}
