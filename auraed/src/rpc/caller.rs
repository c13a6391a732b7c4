// SPDX-License-Identifier: Apache-2.0
//! The caller of a call: that its certificate counts ([`Authenticated`]), and the permits for all
//! effects of the call ([`Caller`]). The layer of `budget` checks the certificate before the
//! request is read, and hands the result on in the request's extensions; every handler begins with
//! it. A handler that the layer doesn't surround refuses all calls.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::action::Action;
use api::standing;
use api::status::to_status;
use identity::{Effect, Identity, Peer, Permit, Reach, Standing, Target};
use model::error::Error;
use model::name::{ObjectPath, Tenant};
use model::object::ObjectRef;
use model::request::Scope;
use tonic::{Request, Status};

use super::layer::CallId;

/// A caller whose certificate counted when the call began. Only [`Authenticated::check`] makes one.
#[derive(Clone)]
pub(super) struct Authenticated {
    peer: Peer,
    /// The call's, for the audit.
    id: String,
}

impl Authenticated {
    /// Checks the certificate of the connection's peer, and puts the result in place of the peer.
    /// `action` is the call's, where the method is one of the contract: then the audit gets a line
    /// about a caller that is refused.
    pub(super) async fn check<B>(
        identity: &Identity,
        request: &mut http::Request<B>,
        action: Option<&Action>,
    ) -> Result<Self, Error> {
        let id = request.extensions().get::<CallId>();
        let id = id.map(|id| id.0.clone()).unwrap_or_default();
        let Some(peer) = request.extensions_mut().remove::<Peer>() else {
            // Only a listener that forgets the peer leads here; no call is served without one.
            return Err(Error::internal("the connection has no peer identity"));
        };
        if let Err(unauthenticated) = identity.check(&peer) {
            if let Some(action) = action {
                // `authorize` refuses the caller as well, and writes the line.
                let target = Target::own().request(id);
                identity.authorize(&peer, action.name, target).await?;
            }
            return Err(unauthenticated.into());
        }
        let authenticated = Self { peer, id };
        request.extensions_mut().insert(authenticated.clone());
        Ok(authenticated)
    }
}

/// A caller, and the action of the call.
pub(super) struct Caller {
    identity: Arc<Identity>,
    peer: Peer,
    action: &'static str,
    id: String,
    /// It wants to be no more than a member.
    as_a_member: bool,
    /// The permissions that were given; they are checked again for as long as the call goes on.
    permitted: Mutex<Vec<Standing>>,
}

impl Caller {
    /// The caller of `request`, whose action is `action`.
    pub(super) fn of<T>(
        identity: &Arc<Identity>,
        request: &Request<T>,
        action: &'static str,
    ) -> Result<Self, Status> {
        let Some(Authenticated { peer, id }) = request.extensions().get().cloned() else {
            let error = Error::internal("the caller of this call was not checked");
            return Err(to_status(error));
        };
        Ok(Self {
            identity: Arc::clone(identity),
            peer,
            action,
            id,
            as_a_member: as_a_member(request)?,
            permitted: Mutex::default(),
        })
    }

    /// The caller's own tenant, which is meant where a request names none.
    pub(super) fn tenant(&self) -> &Tenant {
        &self.peer.user().tenant
    }

    /// The authenticated peer of the connection.
    pub(super) fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The call's action, `subsystem.Method`.
    pub(super) fn action(&self) -> &'static str {
        self.action
    }

    /// The client's own id for the request stands in the audit, where there is one.
    pub(super) fn known_as(&mut self, request_id: Option<&str>) {
        if let Some(id) = request_id {
            id.clone_into(&mut self.id);
        }
    }

    /// A permit for one object.
    pub(super) async fn permit_for(&self, target: &ObjectRef) -> Result<Permit, Status> {
        self.permit_at(&target.tenant, Some(&target.path)).await
    }

    /// A permit for one object and all that is in it.
    pub(super) async fn permit_below(&self, target: &ObjectRef) -> Result<Permit, Status> {
        let at = Target::of(Some(target.tenant.clone()), Some(target.path.clone()));
        self.permit(at.reach(Reach::Subtree)).await
    }

    /// A permit for a call that has more effects than its own.
    pub(super) async fn permit_effects(
        &self,
        tenant: &Tenant,
        path: &ObjectPath,
        reach: Reach,
        also: Vec<Effect>,
    ) -> Result<Permit, Status> {
        let mut target = Target::of(Some(tenant.clone()), Some(path.clone())).reach(reach);
        target.also = also;
        self.permit(target).await
    }

    /// A permit for a tenant, or for one path of it.
    pub(super) async fn permit_at(
        &self,
        tenant: &Tenant,
        path: Option<&ObjectPath>,
    ) -> Result<Permit, Status> {
        self.permit(Target::of(Some(tenant.clone()), path.cloned()))
            .await
    }

    /// A permit to list the objects of one tenant or of all.
    pub(super) async fn permit_scope(
        &self,
        scope: &Scope,
        below: Option<&ObjectPath>,
    ) -> Result<Permit, Status> {
        match scope {
            Scope::Tenant(tenant) => {
                let target = Target::of(Some(tenant.clone()), below.cloned());
                self.permit(target.reach(Reach::Visible)).await
            }
            Scope::Every => {
                let target = Target::every_tenant().reach(Reach::Visible);
                self.permit(target).await
            }
        }
    }

    /// A permit. No other function of `rpc` asks `identity` for one.
    pub(super) async fn permit(&self, target: Target) -> Result<Permit, Status> {
        let target = target.request(self.id.clone());
        let decided = self.identity.authorize(&self.peer, self.action, target);
        let permit = decided.await.map_err(|denied| to_status(denied.into()))?;
        self.permitted().push(permit.standing());
        match self.as_a_member {
            true => Ok(permit.as_a_member()),
            false => Ok(permit),
        }
    }

    fn permitted(&self) -> MutexGuard<'_, Vec<Standing>> {
        self.permitted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves, with the reason, when the caller's certificate counts no longer, or what was
    /// permitted so far is withdrawn.
    pub(super) fn expelled(&self) -> impl Future<Output = Error> + Send + use<> {
        let (identity, peer) = (Arc::clone(&self.identity), self.peer.clone());
        let permitted = self.permitted().clone();
        async move { identity.withdrawn(&peer, &permitted).await.into() }
    }

    /// `work`, which may take long, unless the caller's certificate or permission ends before it is
    /// done.
    pub(super) async fn unless_expelled<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Status> {
        tokio::select! {
            done = work => done.map_err(to_status),
            error = self.expelled() => Err(to_status(error)),
        }
    }
}

/// Whether the call gives up an administrator's rights ([`standing`]).
fn as_a_member<T>(request: &Request<T>) -> Result<bool, Status> {
    match request.metadata().get(standing::KEY) {
        None => Ok(false),
        Some(value) if value == standing::MEMBER => Ok(true),
        Some(_) => {
            let problem = format!("must be {}", standing::MEMBER);
            Err(to_status(Error::invalid(standing::KEY, problem)))
        }
    }
}
