// SPDX-License-Identifier: Apache-2.0
//! `aurae image ls`, `inspect` and `verify`: what the node has, and whether it is whole.

use api::image::v0::{GetRequest, Image, ListRequest, VerifyRequest};

use super::images;
use crate::failure::{FAILED, Failure};
use crate::output::{Format, OutputArgs, Progress, Table, note, print, print_line, print_message};
use crate::quantity::{format_duration, format_instant, show_bytes, since};
use crate::session::Session;

/// Digits of a digest that a table shows, as docker does.
const SHORT: usize = 12;

/// `aurae image ls`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae image ls\n  aurae image ls -A -o json")]
pub(super) struct LsArgs {
    /// Of every tenant (administrators)
    #[arg(short = 'A', long)]
    all_tenants: bool,
    /// Only names
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// `aurae image inspect`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae image inspect nginx\n  \
                        aurae image inspect nginx:1.25 -o json")]
pub(super) struct InspectArgs {
    #[command(flatten)]
    output: OutputArgs,
    /// The image's name, or its digest
    #[arg(value_name = "IMAGE")]
    reference: String,
}

/// `aurae image verify`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  aurae image verify\n  aurae image verify nginx:1.25\n\n\
                        What the disk has changed is named and put out of the way: \
                        `aurae image pull`\nbrings it again. Exits with 1 where an image is damaged."
)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    output: OutputArgs,
    /// The image's name [default: every image]
    #[arg(value_name = "IMAGE")]
    reference: Option<String>,
}

/// Lists images.
pub(super) async fn ls(session: &Session, args: &LsArgs) -> Result<u8, Failure> {
    let tenant = match args.all_tenants {
        true => "*".to_owned(),
        false => session.tenant(),
    };
    let request = ListRequest { tenant };
    let list = async |node: &client::Node| images(node).list(node.unary(request.clone())).await;
    let answer = session.ask(list).await?;
    let names = || {
        answer
            .images
            .iter()
            .try_for_each(|i| print_line(&i.reference))
    };
    match args.output.output {
        format if format.is_machine() => print_message(format, &answer)?,
        Format::Name => names()?,
        _ if args.quiet => names()?,
        _ if answer.images.is_empty() => note("there are no images"),
        format => {
            let wide = format == Format::Wide;
            print(&table(&answer.images, args.all_tenants, wide).render(session.style))?;
        }
    }
    Ok(0)
}

fn table(images: &[Image], tenants: bool, wide: bool) -> Table {
    let mut headings = vec!["IMAGE", "DIGEST", "SIZE", "PULLED", "CELLS", "PLATFORM"];
    if tenants {
        headings.insert(0, "TENANT");
    }
    let table = Table::new(&headings).right(&["SIZE", "CELLS"]);
    let mut table = table.first_to_go(&["PLATFORM", "CELLS", "DIGEST"]);
    for image in images {
        let pulled = image.pulled.as_ref();
        let pulled = pulled.map(|time| format_duration(since(time)));
        let digest = if wide {
            image.digest.as_str()
        } else {
            short(&image.digest)
        };
        let mut row = vec![
            image.reference.as_str().into(),
            digest.into(),
            show_bytes(image.size_bytes).into(),
            pulled.unwrap_or_else(|| "-".to_owned()).into(),
            image.cells.to_string().into(),
            image.platform.as_str().into(),
        ];
        if tenants {
            row.insert(0, image.tenant.as_str().into());
        }
        table.push(row);
    }
    table
}

/// The first digits, without the algorithm.
fn short(digest: &str) -> &str {
    let (_, hex) = digest.split_once(':').unwrap_or(("", digest));
    hex.get(..SHORT).unwrap_or(hex)
}

/// Shows one image.
pub(super) async fn inspect(session: &Session, args: &InspectArgs) -> Result<u8, Failure> {
    let request = GetRequest {
        tenant: session.tenant(),
        reference: args.reference.clone(),
    };
    let get = async |node: &client::Node| images(node).get(node.unary(request.clone())).await;
    let image = session.ask(get).await?;
    let format = args.output.output;
    if format.is_machine() {
        print_message(format, &image)?;
        return Ok(0);
    }
    print(&facts(&image).render(session.style))?;
    let mut layers = Table::new(&["LAYER", "SIZE", "TYPE"]).right(&["SIZE"]);
    for layer in &image.layers {
        layers.push(vec![
            layer.digest.as_str().into(),
            show_bytes(layer.size_bytes).into(),
            layer.media_type.as_str().into(),
        ]);
    }
    print("\n")?;
    print(&layers.render(session.style))?;
    Ok(0)
}

fn facts(image: &Image) -> Table {
    let mut table = Table::new(&["FIELD", "VALUE"]);
    let mut say = |name: &str, text: String| {
        if !text.is_empty() {
            table.push(vec![name.into(), text.into()]);
        }
    };
    say("image", image.reference.clone());
    say("digest", image.digest.clone());
    say("index", image.index_digest.clone());
    say("platform", image.platform.clone());
    say("size", show_bytes(image.size_bytes));
    say("built", format_instant(image.built.as_ref()));
    say("pulled", format_instant(image.pulled.as_ref()));
    say("pinned", image.pinned.to_string());
    let config = image.config.clone().unwrap_or_default();
    say("entrypoint", config.entrypoint.join(" "));
    say("cmd", config.cmd.join(" "));
    say("user", config.user);
    say("working dir", config.working_dir);
    say("stop signal", config.stop_signal);
    say("volumes", config.volumes.join(", "));
    say("ports", config.exposed_ports.join(", "));
    for variable in config.env {
        say("env", variable);
    }
    for (key, value) in config.labels {
        say("label", format!("{key}={value}"));
    }
    table
}

/// Reads images again; 1 where one is damaged.
pub(super) async fn verify(session: &Session, args: &VerifyArgs) -> Result<u8, Failure> {
    let request = VerifyRequest {
        tenant: session.tenant(),
        reference: args.reference.clone().unwrap_or_default(),
    };
    let progress = Progress::start("reading images");
    let answer = images(&session.node)
        .verify(tonic::Request::new(request))
        .await;
    drop(progress);
    let answer = answer.map_err(client::Error::from)?.into_inner();
    let damaged = answer.images.iter().any(|image| !image.problems.is_empty());
    let format = args.output.output;
    if format.is_machine() {
        print_message(format, &answer)?;
    } else {
        for image in &answer.images {
            let name = &image.reference;
            match image.problems.is_empty() {
                true => print_line(&format!("{name}: whole, {}", show_bytes(image.read_bytes)))?,
                false => print_line(&format!("{name}: {}", image.problems.join("; ")))?,
            }
        }
    }
    Ok(if damaged { FAILED } else { 0 })
}
