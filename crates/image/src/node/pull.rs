// SPDX-License-Identifier: Apache-2.0
//! A pull from its request to the image's name: what the tenant has, what its quota admits, what
//! the registry gives, what is unpacked of it. The name comes last, so that an image is there
//! altogether or not at all.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use identity::Permit;
use model::error::{Error, Reason};
use model::name::Tenant;
use tenants::Taken;
use tokio::sync::watch;

use super::holdings::Hold;
use super::layers::{Layers, Step, Work};
use super::left::{Left, Named};
use super::records::{Content, Record};
use super::transfer::Transfer;
use super::{Image, Images, now};
use crate::digest::Digest;
use crate::manifest::Descriptor;
use crate::platform::Platform;
use crate::reference::Reference;
use crate::registry::{
    Admission, Credentials, Decision, Feed, Progress, PullPolicy, PullRequest, Pulled, State, Tap,
};
use crate::store::Layer;

/// How long a transfer may take.
pub(super) const DEADLINE: Duration = Duration::from_secs(6 * 60 * 60);

/// What is to be pulled.
#[derive(Clone, Debug)]
pub struct Pull {
    /// For whom.
    pub tenant: Tenant,
    /// The image.
    pub reference: Reference,
    /// Whether the registry is asked.
    pub policy: PullPolicy,
    /// What it must run on; `None`: this node.
    pub platform: Option<Platform>,
    /// Shown to the registry; `None`: the node's own for administrators, and none for others.
    pub credentials: Option<Credentials>,
}

/// The node's credentials are its administrators': with them another tenant would read what it has
/// no leave for.
pub(super) fn shown(permit: &Permit, given: Option<Credentials>) -> Option<Credentials> {
    given.or_else(|| (!permit.is_administrator()).then_some(Credentials::Anonymous))
}

impl Images {
    /// Begins a pull.
    ///
    /// # Errors
    /// `PERMISSION_DENIED`; `LIMIT_EXCEEDED` where the tenant has as many transfers as it may.
    /// Everything else is the transfer's.
    pub fn pull(&self, permit: Permit, pull: Pull) -> Result<Transfer<Image>, Error> {
        self.fetch(&permit, pull)
    }

    pub(super) async fn pulled(
        &self,
        pull: Pull,
        place: &Arc<Taken>,
        progress: watch::Sender<Progress>,
    ) -> Result<Image, Error> {
        let platform = pull.platform.clone().unwrap_or_else(Platform::ours);
        let there = self.there(&pull, &platform).await?;
        match (pull.policy.decide(there.is_some()), there.clone()) {
            (Decision::Use, Some(image)) => return Ok(image),
            (Decision::Refuse, _) => return Err(never(&pull.reference)),
            _ => {}
        }
        self.make_room().await;
        let known = there.map(|image| image.record.manifest.digest);
        let left = Left::new(self.inner()?, &pull.tenant);
        let telling = progress.clone();
        let told = Arc::new(move |blob: &Digest, step| tell(&telling, blob, step));
        let layers = Layers::new(self.inner()?, &pull.tenant, place, told);
        let request = PullRequest {
            reference: pull.reference.clone(),
            platform: platform.clone(),
            credentials: pull.credentials.clone(),
            owner: pull.tenant.to_string(),
            known,
            deadline: DEADLINE,
            admission: self.admission(&pull.tenant, &left),
            tap: Some(Arc::new(Taps {
                work: Arc::clone(&layers.0),
                platform: platform.clone(),
                name: pull.reference.to_string(),
            })),
        };
        let inner = self.inner()?;
        let client = inner.client()?;
        let pulled = client.pull(&inner.store, &request, progress.clone());
        let pulled = pulled.await.map_err(Error::from)?;
        let content = self.content(&pulled.manifest).await?;
        let layers = layers.all(&content, &left).await?;
        let (hold, named) = left.take()?;
        self.named(&pull, pulled, content, hold, (layers, named))
            .await
    }

    /// Counts what a manifest points to for the tenant, before it is fetched.
    fn admission(&self, tenant: &Tenant, left: &Left) -> Admission {
        let (images, tenant, left) = (self.clone(), tenant.clone(), left.share());
        Admission::new(move |descriptor, manifest| {
            left.admit(images.inner()?, &tenant, descriptor, manifest)
        })
    }

    /// Frees some of a full disk. Where that fails the pull may still have room.
    async fn make_room(&self) {
        if let Err(error) = self.relieve().await {
            tracing::warn!(%error, "a full disk is not relieved before a pull");
        }
    }

    /// What the tenant has by this name already: all of it, for this platform.
    async fn there(&self, pull: &Pull, platform: &Platform) -> Result<Option<Image>, Error> {
        let full = pull.reference.to_string();
        let record = match self.inner()?.record(&pull.tenant, &full) {
            Some(record) => record,
            None => return Ok(None),
        };
        let wanted = platform.clone();
        self.blocking(move |inner| {
            let image = inner.read(record);
            let whole = |content: &Arc<Content>| {
                wanted.runs(&content.platform()) && content.is_whole(&inner.store)
            };
            Ok(image.content.as_ref().is_some_and(whole).then_some(image))
        })
        .await
    }

    async fn content(&self, manifest: &Descriptor) -> Result<Content, Error> {
        let manifest = manifest.clone();
        self.blocking(move |inner| Content::read(&inner.store, &manifest))
            .await
    }

    /// Gives the image its name.
    async fn named(
        &self,
        pull: &Pull,
        pulled: Pulled,
        content: Content,
        hold: Hold,
        kept: (Vec<Layer>, Named),
    ) -> Result<Image, Error> {
        let time = now();
        let index = pulled.target.digest.clone();
        let record = Record {
            tenant: pull.tenant.clone(),
            reference: pull.reference.to_string(),
            manifest: pulled.manifest.clone(),
            index: (index != pulled.manifest.digest).then_some(index),
            pulled: time,
            used: time,
            pinned: false,
        };
        // Blobs and layers stay until the image has its name.
        let record = self.keep(record, hold, (pulled.pins, kept)).await?;
        Ok(self.inner()?.image(record, Some(Arc::new(content))))
    }
}

/// How a pull unpacks what still comes.
#[derive(Debug)]
struct Taps {
    work: Arc<Work>,
    platform: Platform,
    name: String,
}

impl Tap for Taps {
    fn image(&self, manifest: &Descriptor) -> Result<(), Error> {
        let content = Content::read(self.work.store(), manifest)?;
        check_platform(&content, &self.platform, &self.name)?;
        self.work.want(&content);
        Ok(())
    }

    fn begin(&self, blob: &Digest, file: File) -> Option<Box<dyn Feed>> {
        self.work.begin(blob, file)
    }

    fn came(&self, blob: &Digest) {
        self.work.came(blob);
    }
}

/// Says how far a layer is.
fn tell(progress: &watch::Sender<Progress>, blob: &Digest, step: Step) {
    progress.send_modify(|progress| {
        for of in progress.blobs.iter_mut().filter(|of| of.digest == *blob) {
            match step {
                Step::Read(bytes) => {
                    of.unpacked = bytes.min(of.whole);
                    if of.done == of.whole {
                        of.state = State::Unpacking;
                    }
                }
                Step::Done => {
                    of.state = State::Done;
                    (of.done, of.unpacked) = (of.whole, of.whole);
                }
            }
        }
    });
}

/// An image for another platform than asked for: one without an index says it only in its
/// configuration.
pub(super) fn check_platform(
    content: &Content,
    wanted: &Platform,
    name: &str,
) -> Result<(), Error> {
    let found = content.platform();
    if wanted.runs(&found) {
        return Ok(());
    }
    let problem = format!("{name} is for {found}, not for {wanted}");
    let hint = format!("name its platform: aurae image pull --platform {found} …");
    Err(Error::new(Reason::Unsupported, problem).hint(hint))
}

fn never(reference: &Reference) -> Error {
    let familiar = reference.familiar();
    Error::not_found("image", reference.to_string()).hint(format!(
        "the policy is never: aurae image pull --policy always {familiar}"
    ))
}
