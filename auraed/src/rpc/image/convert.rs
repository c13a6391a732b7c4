// SPDX-License-Identifier: Apache-2.0
//! Messages of the `Images` service to and from the types of `image`.

use std::time::Duration;

use api::convert::scalar::to_timestamp;
use api::image::v0 as wire;
use image::node::{Image, Pull, Push, Verified};
use image::registry::{Blob, Credentials, Progress, PullPolicy, Secret, State};
use image::{Platform, Reference};
use model::error::{Error, Result};
use model::name::Tenant;
use model::time::Timestamp;

/// The longest reference, in bytes.
const MAX_REFERENCE: usize = 512;
/// The longest name, password or token, in bytes.
const MAX_SECRET: usize = 64 << 10;

/// Checks a pull.
///
/// # Errors
/// `INVALID_FIELD`, naming the field.
pub(super) fn pull(tenant: Tenant, message: wire::PullRequest) -> Result<Pull> {
    let policy = match message.policy() {
        wire::PullPolicy::Unspecified if message.policy == 0 => None,
        wire::PullPolicy::Unspecified => {
            let problem = format!("is {}, which this node doesn't know", message.policy);
            return Err(Error::invalid("policy", problem));
        }
        wire::PullPolicy::Always => Some(PullPolicy::Always),
        wire::PullPolicy::IfNotPresent => Some(PullPolicy::IfNotPresent),
        wire::PullPolicy::Never => Some(PullPolicy::Never),
    };
    let reference = reference("reference", &message.reference)?;
    Ok(Pull {
        tenant,
        policy: policy.unwrap_or_else(|| PullPolicy::default_for(&reference)),
        reference,
        platform: platform(&message.platform)?,
        credentials: message.credentials.map(credentials).transpose()?,
    })
}

/// Checks a push.
///
/// # Errors
/// `INVALID_FIELD`, naming the field.
pub(super) fn push(tenant: Tenant, message: wire::PushRequest) -> Result<Push> {
    Ok(Push {
        tenant,
        reference: message.reference,
        to: match message.to.as_str() {
            "" => None,
            to => Some(reference("to", to)?),
        },
        credentials: message.credentials.map(credentials).transpose()?,
    })
}

/// A reference, or none.
///
/// # Errors
/// `INVALID_FIELD`.
pub(super) fn optional_reference(text: &str) -> Result<Option<Reference>> {
    match text {
        "" => Ok(None),
        text => reference("reference", text).map(Some),
    }
}

fn reference(field: &str, text: &str) -> Result<Reference> {
    if text.len() > MAX_REFERENCE {
        let problem = format!("has {} bytes, at most {MAX_REFERENCE}", text.len());
        return Err(Error::invalid(field, problem));
    }
    let hint = "write [REGISTRY/]NAME[:TAG][@DIGEST], as in nginx:1.25";
    let parsed = text.parse::<Reference>();
    parsed.map_err(|error| Error::invalid(field, error.problem()).hint(hint))
}

fn platform(text: &str) -> Result<Option<Platform>> {
    if text.is_empty() {
        return Ok(None);
    }
    let parsed = text.parse::<Platform>();
    let hint = "write OS/ARCHITECTURE[/VARIANT], as in linux/arm64";
    parsed
        .map(Some)
        .map_err(|error| Error::invalid("platform", error.problem()).hint(hint))
}

/// Checks what a registry is to be told.
///
/// # Errors
/// `INVALID_FIELD`: `credentials`.
pub(in crate::rpc) fn credentials(message: wire::Credentials) -> Result<Credentials> {
    let wire::Credentials {
        username,
        password,
        identity_token,
        registry_token,
    } = message;
    let long = [&username, &password, &identity_token, &registry_token];
    if long.iter().any(|text| text.len() > MAX_SECRET) {
        let problem = format!("has more than {MAX_SECRET} bytes in a field");
        return Err(Error::invalid("credentials", problem));
    }
    match (
        username.as_str(),
        identity_token.as_str(),
        registry_token.as_str(),
    ) {
        ("", "", "") => Ok(Credentials::Anonymous),
        (_, "", "") => Ok(Credentials::Basic {
            username,
            password: Secret::new(password),
        }),
        ("", _, "") => Ok(Credentials::Identity(Secret::new(identity_token))),
        ("", "", _) => Ok(Credentials::Registry(Secret::new(registry_token))),
        _ => Err(Error::invalid(
            "credentials",
            "has more than one of username, identity_token and registry_token",
        )),
    }
}

/// Reads the age of a prune; none: zero.
///
/// # Errors
/// `INVALID_FIELD`: a negative one.
pub(super) fn unused_for(message: Option<prost_types::Duration>) -> Result<Duration> {
    let Some(message) = message else {
        return Ok(Duration::ZERO);
    };
    let positive = Duration::try_from(message);
    positive.map_err(|_| Error::invalid("unused_for", "must not be negative"))
}

/// How far a pull is.
pub(super) fn pulling(progress: &Progress) -> wire::PullResponse {
    wire::PullResponse {
        of: Some(wire::pull_response::Of::Progress(to_progress(progress))),
    }
}

/// The end of a pull.
pub(super) fn pulled(image: &Image) -> wire::PullResponse {
    wire::PullResponse {
        of: Some(wire::pull_response::Of::Image(to_image(image))),
    }
}

/// How far a push is.
pub(super) fn pushing(progress: &Progress) -> wire::PushResponse {
    wire::PushResponse {
        of: Some(wire::push_response::Of::Progress(to_progress(progress))),
    }
}

/// The end of a push.
pub(super) fn pushed(digest: &image::Digest) -> wire::PushResponse {
    wire::PushResponse {
        of: Some(wire::push_response::Of::Digest(digest.to_string())),
    }
}

fn to_progress(progress: &Progress) -> wire::Progress {
    wire::Progress {
        layers: progress.blobs.iter().map(to_layer).collect(),
    }
}

fn to_layer(blob: &Blob) -> wire::LayerProgress {
    let state = match blob.state {
        State::Waiting => wire::LayerState::Waiting,
        State::Moving => wire::LayerState::Transferring,
        State::Unpacking => wire::LayerState::Unpacking,
        State::Present => wire::LayerState::Present,
        State::Done => wire::LayerState::Done,
    };
    wire::LayerProgress {
        digest: blob.digest.to_string(),
        state: state.into(),
        done_bytes: blob.done,
        size_bytes: blob.whole,
        unpacked_bytes: blob.unpacked,
    }
}

/// An image without its configuration.
pub(super) fn to_summary(image: &Image) -> wire::Image {
    let record = &image.record;
    wire::Image {
        tenant: record.tenant.to_string(),
        reference: record.reference.clone(),
        digest: record.manifest.digest.to_string(),
        index_digest: record
            .index
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        platform: image.platform.clone(),
        size_bytes: image.bytes,
        pulled: Some(to_timestamp(record.pulled)),
        pinned: record.pinned,
        cells: image.cells,
        built: image.built.as_deref().and_then(time),
        ..wire::Image::default()
    }
}

/// What RFC 3339 says; an image may say anything.
fn time(text: &str) -> Option<prost_types::Timestamp> {
    let time: jiff::Timestamp = text.parse().ok()?;
    let nanoseconds = u64::try_from(time.as_nanosecond()).ok()?;
    Some(to_timestamp(Timestamp(nanoseconds)))
}

/// An image with its configuration and layers.
pub(super) fn to_image(image: &Image) -> wire::Image {
    let Some(content) = &image.content else {
        return to_summary(image);
    };
    let layers = content.manifest.layers.iter().zip(&content.config.diff_ids);
    let layers = layers.map(|(layer, diff_id)| wire::Layer {
        digest: layer.digest.to_string(),
        diff_id: diff_id.to_string(),
        media_type: layer.media_type.clone(),
        size_bytes: layer.size,
    });
    let run = &content.config.run;
    wire::Image {
        layers: layers.collect(),
        config: Some(wire::ImageConfig {
            entrypoint: run.entrypoint.clone(),
            cmd: run.cmd.clone(),
            env: run.env.clone(),
            user: run.user.clone(),
            working_dir: run.working_dir.clone(),
            stop_signal: run.stop_signal.clone(),
            volumes: run.volumes.iter().cloned().collect(),
            exposed_ports: run.exposed_ports.iter().cloned().collect(),
            labels: run.labels.clone(),
        }),
        ..to_summary(image)
    }
}

/// The outcome for one image.
pub(super) fn to_verified(verified: Verified) -> wire::Verified {
    wire::Verified {
        reference: verified.reference,
        digest: verified.digest.to_string(),
        read_bytes: verified.read_bytes,
        problems: verified.problems,
    }
}
