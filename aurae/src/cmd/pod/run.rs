// SPDX-License-Identifier: Apache-2.0
//! `aurae pod run`: pods from manifests.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use api::convert::pod::{Manifest, PullSecret, read_manifest, to_spec};
use api::image::v0::{Credentials, RegistryCredentials};
use api::pod::v0::{ListResponse, Pod, PodStatus, RunRequest, UpdateRequest, WaitFor};
use serde::Deserialize;

use super::pods;
use crate::cmd::image::RegistryFlags;
use crate::failure::{FINDINGS, Failure};
use crate::output::{Format, OutputArgs, Progress, note, print_line, print_message};
use crate::session::Session;

const EXAMPLES: &str = "\
Examples:
  aurae pod run -f pod.yaml
  aurae pod run -f pod.yaml --wait ready
  aurae pod run -f - --name web-2 < pod.yaml
  aurae pod run -f job.yaml --wait ended -o json
  aurae pod run -f pod.yaml --registry registry.example --registry-user ann < password";

/// The longest wait, where one is asked for.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// How long making a pod may take: its images are pulled first.
const MAKING: Duration = Duration::from_secs(3600);
/// How long an update may take.
const UPDATING: Duration = Duration::from_secs(60);

/// `aurae pod run`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct RunArgs {
    /// The file, YAML or JSON; `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Another name for the pod of the file, where there is one
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// When to go on
    #[arg(long, value_enum, value_name = "STATE", default_value = "created")]
    wait: Wait,
    /// The registry that you have a name or a token for, as in registry.example:5000
    #[arg(long, value_name = "REGISTRY", help_heading = "The images' registry")]
    registry: Option<String>,
    #[command(flatten)]
    credentials: RegistryFlags,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Wait {
    /// The node keeps the pod
    Created,
    /// Every container that goes on running is ready, or the pod has ended
    Ready,
    /// The pod has ended
    Ended,
}

/// `aurae pod update`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  aurae pod update -f pod.yaml\n\n\
                        Labels, the resources of containers, and the content of ConfigMaps and \
                        Secrets\ncan be changed; anything else is refused by name.")]
pub(super) struct UpdateArgs {
    /// The file, YAML or JSON; `-` is standard input
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
}

/// Changes the pods of a file, one after the other.
pub(super) async fn update(session: &Session, args: &UpdateArgs) -> Result<u8, Failure> {
    let mut changed = Vec::new();
    for manifest in read(&args.file)? {
        let name = manifest.name.clone();
        let request = UpdateRequest {
            pod: Some(pod(session, manifest)),
        };
        let progress = Progress::start(format!("updating {name}"));
        let answer = pods(&session.node)
            .update(session.node.within(request, UPDATING))
            .await;
        drop(progress);
        changed.push(answer.map_err(client::Error::from)?.into_inner());
    }
    show(args.output.output, changed)
}

/// Runs the pods of a file, one after the other.
pub(super) async fn run(session: &Session, args: &RunArgs) -> Result<u8, Failure> {
    let mut manifests = read(&args.file)?;
    if let Some(name) = &args.name {
        let [manifest] = &mut manifests[..] else {
            let message = format!("--name is for one pod; the file has {}", manifests.len());
            return Err(Failure::usage(message));
        };
        manifest.name.clone_from(name);
    }
    let own = own_credentials(args)?;
    let mut made = Vec::new();
    for manifest in manifests {
        made.push(one(session, args, manifest, &own).await?);
    }
    show(args.output.output, made)
}

fn show(format: Format, changed: Vec<PodStatus>) -> Result<u8, Failure> {
    match (format.is_machine(), changed.as_slice()) {
        (true, [pod]) => print_message(format, pod)?,
        (true, _) => {
            let list = ListResponse {
                pods: changed,
                ..ListResponse::default()
            };
            print_message(format, &list)?;
        }
        (false, pods) => pods
            .iter()
            .try_for_each(|pod| print_line(&super::show::name(pod)))?,
    }
    Ok(0)
}

fn pod(session: &Session, manifest: Manifest) -> Pod {
    let mut place = session.reference(&manifest.name);
    // A namespace is what Aurae calls a tenant; `default` is the session's own.
    if place.tenant.is_empty() && manifest.namespace != "default" {
        place.tenant = manifest.namespace;
    }
    Pod {
        r#ref: Some(place),
        labels: manifest.labels,
        spec: Some(to_spec(&manifest.draft)),
    }
}

/// What the registry that was named is told.
fn own_credentials(args: &RunArgs) -> Result<Option<RegistryCredentials>, Failure> {
    let stdin = args.credentials.take_stdin();
    match &args.registry {
        None if stdin => {
            let message = "a name or a token is for one registry, which --registry names";
            Err(Failure::usage(message))
        }
        Some(_) if !stdin => {
            let message = "--registry needs --registry-user or --registry-token-stdin";
            Err(Failure::usage(message))
        }
        Some(_) if args.file.as_os_str() == "-" => {
            let message = "standard input can't be both the file and the password";
            Err(Failure::usage(message))
        }
        None => Ok(None),
        Some(registry) => Ok(Some(RegistryCredentials {
            registry: registry.clone(),
            credentials: args.credentials.read()?,
        })),
    }
}

/// Those of the manifest, and in their place what the caller says.
fn all_credentials(
    secrets: &[PullSecret],
    own: &Option<RegistryCredentials>,
) -> Vec<RegistryCredentials> {
    let is_own = |secret: &&PullSecret| {
        let own = own.as_ref();
        own.is_some_and(|own| own.registry == secret.registry)
    };
    let secrets = secrets.iter().filter(|secret| !is_own(secret));
    let secrets = secrets.map(|secret| RegistryCredentials {
        registry: secret.registry.clone(),
        credentials: Some(Credentials {
            username: secret.username.clone(),
            password: secret.password.clone(),
            identity_token: secret.identity_token.clone(),
            ..Default::default()
        }),
    });
    secrets.chain(own.clone()).collect()
}

async fn one(
    session: &Session,
    args: &RunArgs,
    manifest: Manifest,
    own: &Option<RegistryCredentials>,
) -> Result<PodStatus, Failure> {
    let (wait_for, longest) = match args.wait {
        Wait::Created => (WaitFor::Created, MAKING),
        Wait::Ready => (WaitFor::Ready, LONGEST),
        Wait::Ended => (WaitFor::Ended, LONGEST),
    };
    let progress = Progress::start(format!("running {}", manifest.name));
    let request = RunRequest {
        registry_credentials: all_credentials(&manifest.pull_secrets, own),
        pod: Some(pod(session, manifest)),
        wait_for: wait_for.into(),
    };
    let request = session.node.within(request, longest);
    let answer = pods(&session.node).run(request).await;
    drop(progress);
    Ok(answer.map_err(client::Error::from)?.into_inner())
}

/// The pods of a file.
pub(crate) fn read(file: &Path) -> Result<Vec<Manifest>, Failure> {
    let failed = |e: std::io::Error| Failure::new(format!("{}: {e}", file.display()));
    let text = match file.as_os_str() == "-" {
        true => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(failed)?;
            text
        }
        false => std::fs::read_to_string(file).map_err(failed)?,
    };
    let documents = serde_yaml_ng::Deserializer::from_str(&text);
    let documents = documents.map(serde_json::Value::deserialize);
    let documents = documents.collect::<Result<Vec<_>, _>>();
    let documents = documents.map_err(|e| Failure::new(format!("{}: {e}", file.display())))?;
    read_manifest(documents).map_err(|problems| {
        for problem in &problems {
            note(&problem.to_string());
        }
        let count = problems.len();
        let message = format!("{}: {count} fields can't be taken", file.display());
        Failure::new(message)
            .with_status(FINDINGS)
            .with_hint("change them or leave them out; nothing was run")
    })
}
