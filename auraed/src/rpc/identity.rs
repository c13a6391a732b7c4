// SPDX-License-Identifier: Apache-2.0
//! The `Identity` service on the wire. `identity` does the work.

use std::sync::Arc;

use api::action::identity as action;
use api::convert::object::scope;
use api::convert::scalar::{maybe_duration, maybe_parse, maybe_timestamp, parse};
use api::identity::v0 as wire;
use api::identity::v0::identity_server::Identity as Service;
use api::status::to_status;
use identity::{GrantRequest, Identity, Permit, Reach, Target, UserKey};
use model::error::Error;
use model::name::{Label, ObjectPath, Tenant};
use model::text::{check_length, check_printable};
use store::GrantEffect;
use tenants::Tenants;
use tonic::{Request, Response, Status};

use super::audit;
use super::caller::Caller;
use super::stream::Answers;

/// The longest signing request that is read, in bytes.
const MAX_CSR: usize = 16 * 1024;

/// The service `Identity`.
pub(super) struct IdentityService {
    pub(super) identity: Arc<Identity>,
    pub(super) tenants: Tenants,
}

type Answer<T> = Result<Response<T>, Status>;

/// `user` of `tenant`, or of the caller's own.
fn user_key(own: &Tenant, tenant: &str, field: &str, name: &str) -> Result<UserKey, Status> {
    let (tenant, name) = tenant_and_name(own, tenant, field, name)?;
    Ok(UserKey { tenant, name })
}

fn tenant_and_name(
    own: &Tenant,
    tenant: &str,
    field: &str,
    name: &str,
) -> Result<(Tenant, Label), Status> {
    let tenant = maybe_parse("tenant", tenant).map_err(to_status)?;
    let name = parse(field, name).map_err(to_status)?;
    Ok((tenant.unwrap_or_else(|| own.clone()), name))
}

fn maybe_path(path: &str) -> Result<Option<ObjectPath>, Status> {
    maybe_parse("path", path).map_err(to_status)
}

/// The parts of an Allow or a Deny.
struct Wish<'a> {
    tenant: &'a str,
    user: &'a str,
    action: String,
    target_tenant: &'a str,
    path: &'a str,
}

impl IdentityService {
    fn enter<T>(&self, request: &Request<T>, action: &'static str) -> Result<Caller, Status> {
        Caller::of(&self.identity, request, action)
    }

    /// The named user and the permit for it; the audit's line names it, too.
    async fn about_user(
        &self,
        caller: &Caller,
        tenant: &str,
        name: &str,
    ) -> Result<(Permit, Label), Status> {
        let (tenant, name) = tenant_and_name(caller.tenant(), tenant, "name", name)?;
        let about = format!("user {tenant}/{name}");
        let target = Target::of(Some(tenant), None).about(about);
        Ok((caller.permit(target).await?, name))
    }

    async fn revoke_one(
        &self,
        caller: &Caller,
        message: &wire::RevokeRequest,
    ) -> Result<Result<Vec<String>, Error>, Status> {
        if message.before.is_some() {
            return Err(to_status(Error::invalid("before", "goes with a user")));
        }
        // To a member, a certificate of another tenant doesn't exist.
        let of = self.identity.tenant_of_certificate(&message.serial).await;
        let of = of.map_err(to_status)?;
        let of = of.filter(|of| of == caller.tenant() || *caller.tenant() == Tenant::system());
        let serial: String = message.serial.chars().take(64).collect();
        let target = Target::of(of, None).about(format!("certificate {serial}"));
        let permit = caller.permit(target).await?;
        let revoked = self
            .identity
            .revoke(permit, &message.serial, &message.reason);
        Ok(revoked.await)
    }

    async fn revoke_before(
        &self,
        caller: &Caller,
        message: &wire::RevokeRequest,
    ) -> Result<Result<Vec<String>, Error>, Status> {
        let before = maybe_timestamp("before", message.before.as_ref()).map_err(to_status)?;
        let invalid = |field: &str, problem: &str| to_status(Error::invalid(field, problem));
        if !message.serial.is_empty() {
            return Err(invalid("serial", "name a serial or a user, not both"));
        }
        let before = before.ok_or_else(|| invalid("before", "is required with a user"))?;
        let before = i64::try_from(before.0).unwrap_or(i64::MAX);
        let (permit, name) = self
            .about_user(caller, &message.tenant, &message.user)
            .await?;
        let reason = &message.reason;
        Ok(self
            .identity
            .revoke_before(permit, name, before, reason)
            .await)
    }

    async fn grant(
        &self,
        caller: &Caller,
        effect: GrantEffect,
        wish: Wish<'_>,
    ) -> Answer<wire::Grant> {
        let user = user_key(caller.tenant(), wish.tenant, "user", wish.user)?;
        let target = maybe_parse("target_tenant", wish.target_tenant).map_err(to_status)?;
        let target = target.unwrap_or_else(|| user.tenant.clone());
        let path = maybe_path(wish.path)?;
        let permit = caller.permit_at(&target, path.as_ref()).await?;
        let request = GrantRequest {
            user,
            effect,
            action: wish.action,
            path,
        };
        let granted = self.identity.grant(permit, request).await;
        granted
            .map(|grant| Response::new(audit::to_grant(&grant)))
            .map_err(to_status)
    }
}

#[tonic::async_trait]
impl Service for IdentityService {
    async fn create_user(&self, request: Request<wire::CreateUserRequest>) -> Answer<wire::User> {
        let caller = self.enter(&request, action::CREATE_USER)?;
        let message = request.into_inner();
        let (permit, name) = self
            .about_user(&caller, &message.tenant, &message.name)
            .await?;
        let administrator = message.administrator;
        let tenant = permit.tenant().clone();
        self.tenants.ensure(&tenant).await.map_err(to_status)?;
        let made = self.identity.create_user(permit, name, administrator).await;
        made.map(|user| Response::new(audit::to_user(&user)))
            .map_err(to_status)
    }

    async fn list_users(
        &self,
        request: Request<wire::ListUsersRequest>,
    ) -> Answer<wire::ListUsersResponse> {
        let caller = self.enter(&request, action::LIST_USERS)?;
        let scope = scope(caller.tenant(), &request.get_ref().tenant).map_err(to_status)?;
        let permit = caller.permit_scope(&scope, None).await?;
        let users = self.identity.list_users(&permit);
        Ok(Response::new(wire::ListUsersResponse {
            users: users.iter().map(audit::to_user).collect(),
        }))
    }

    async fn disable_user(&self, request: Request<wire::DisableUserRequest>) -> Answer<wire::User> {
        let caller = self.enter(&request, action::DISABLE_USER)?;
        let message = request.into_inner();
        let (permit, name) = self
            .about_user(&caller, &message.tenant, &message.name)
            .await?;
        let disabled = self.identity.disable_user(permit, name).await;
        disabled
            .map(|user| Response::new(audit::to_user(&user)))
            .map_err(to_status)
    }

    async fn enable_user(&self, request: Request<wire::EnableUserRequest>) -> Answer<wire::User> {
        let caller = self.enter(&request, action::ENABLE_USER)?;
        let message = request.into_inner();
        let (permit, name) = self
            .about_user(&caller, &message.tenant, &message.name)
            .await?;
        let enabled = self.identity.enable_user(permit, name).await;
        enabled
            .map(|user| Response::new(audit::to_user(&user)))
            .map_err(to_status)
    }

    async fn list_certificates(
        &self,
        request: Request<wire::ListCertificatesRequest>,
    ) -> Answer<wire::ListCertificatesResponse> {
        let caller = self.enter(&request, action::LIST_CERTIFICATES)?;
        let message = request.into_inner();
        let own = caller.peer().user();
        let (tenant, name) = match message.name.as_str() {
            // In whichever tenant's context: its own.
            "" => (own.tenant.as_str(), own.name.as_str()),
            name => (message.tenant.as_str(), name),
        };
        let (permit, name) = self.about_user(&caller, tenant, name).await?;
        let listed = self.identity.certificates(permit, name).await;
        let listed = listed.map_err(to_status)?.into_iter();
        Ok(Response::new(wire::ListCertificatesResponse {
            certificates: listed.map(audit::to_certificate).collect(),
        }))
    }

    async fn issue(&self, request: Request<wire::IssueRequest>) -> Answer<wire::IssueResponse> {
        let caller = self.enter(&request, action::ISSUE)?;
        let message = request.into_inner();
        check_length("csr_pem", &message.csr_pem, MAX_CSR).map_err(to_status)?;
        let lifetime = maybe_duration("lifetime", message.lifetime.as_ref()).map_err(to_status)?;
        let (permit, name) = self
            .about_user(&caller, &message.tenant, &message.name)
            .await?;
        let issued = self
            .identity
            .issue(permit, name, &message.csr_pem, lifetime)
            .await;
        issued
            .map(|issued| Response::new(audit::to_issued(issued)))
            .map_err(to_status)
    }

    async fn renew(&self, request: Request<wire::RenewRequest>) -> Answer<wire::IssueResponse> {
        let caller = self.enter(&request, action::RENEW)?;
        let message = request.into_inner();
        check_length("csr_pem", &message.csr_pem, MAX_CSR).map_err(to_status)?;
        let lifetime = maybe_duration("lifetime", message.lifetime.as_ref()).map_err(to_status)?;
        let permit = caller.permit(Target::own()).await?;
        let issued = self
            .identity
            .renew(permit, &message.csr_pem, lifetime)
            .await;
        issued
            .map(|issued| Response::new(audit::to_issued(issued)))
            .map_err(to_status)
    }

    async fn revoke(&self, request: Request<wire::RevokeRequest>) -> Answer<wire::RevokeResponse> {
        let caller = self.enter(&request, action::REVOKE)?;
        let message = request.into_inner();
        check_printable("reason", &message.reason).map_err(to_status)?;
        let revoked = match message.user.is_empty() {
            true => self.revoke_one(&caller, &message).await,
            false => self.revoke_before(&caller, &message).await,
        };
        let serials = revoked?.map_err(to_status)?;
        Ok(Response::new(wire::RevokeResponse { serials }))
    }

    async fn allow(&self, request: Request<wire::AllowRequest>) -> Answer<wire::Grant> {
        let caller = self.enter(&request, action::ALLOW)?;
        let message = request.into_inner();
        let wish = Wish {
            tenant: &message.tenant,
            user: &message.user,
            action: message.action,
            target_tenant: &message.target_tenant,
            path: &message.path,
        };
        self.grant(&caller, GrantEffect::Allow, wish).await
    }

    async fn deny(&self, request: Request<wire::DenyRequest>) -> Answer<wire::Grant> {
        let caller = self.enter(&request, action::DENY)?;
        let message = request.into_inner();
        let wish = Wish {
            tenant: &message.tenant,
            user: &message.user,
            action: message.action,
            target_tenant: &message.target_tenant,
            path: &message.path,
        };
        self.grant(&caller, GrantEffect::Deny, wish).await
    }

    async fn withdraw(
        &self,
        request: Request<wire::WithdrawRequest>,
    ) -> Answer<wire::WithdrawResponse> {
        let caller = self.enter(&request, action::WITHDRAW)?;
        if request.get_ref().id.is_empty() {
            return Err(to_status(Error::invalid("id", "is required")));
        }
        let permit = caller.permit(Target::own()).await?;
        let withdrawn = self.identity.withdraw(permit, &request.get_ref().id).await;
        withdrawn
            .map(|()| Response::new(wire::WithdrawResponse {}))
            .map_err(to_status)
    }

    async fn explain(
        &self,
        request: Request<wire::ExplainRequest>,
    ) -> Answer<wire::ExplainResponse> {
        let caller = self.enter(&request, action::EXPLAIN)?;
        let message = request.into_inner();
        let user = match message.user.as_str() {
            // In whichever tenant's context: its own.
            "" => caller.peer().user().clone(),
            name => user_key(caller.tenant(), &message.tenant, "user", name)?,
        };
        let target = maybe_parse("target_tenant", &message.target_tenant).map_err(to_status)?;
        let path = maybe_path(&message.path)?;
        let permit = caller.permit_at(&user.tenant, None).await?;
        let (target, path) = (target.as_ref(), path.as_ref());
        let explained = self
            .identity
            .explain(&permit, &user, &message.action, target, path);
        let explained = explained.map_err(to_status)?;
        Ok(Response::new(wire::ExplainResponse {
            allowed: explained.allowed,
            policies: explained.policies,
            explanation: explained.explanation,
        }))
    }

    type AuditStream = Answers<wire::AuditResponse>;

    async fn audit(&self, request: Request<wire::AuditRequest>) -> Answer<Self::AuditStream> {
        let caller = self.enter(&request, action::AUDIT)?;
        let message = request.into_inner();
        let since = maybe_timestamp("since", message.since.as_ref()).map_err(to_status)?;
        let until = maybe_timestamp("until", message.until.as_ref()).map_err(to_status)?;
        for (field, text) in [("actor", &message.actor), ("action", &message.action)] {
            check_length(field, text, 512).map_err(to_status)?;
        }
        if message.verify && message.follow {
            let problem = "has no end that could be verified; ask for one of follow and verify";
            return Err(to_status(Error::invalid("follow", problem)));
        }
        // The lines are of every tenant.
        let every = Target::every_tenant().reach(Reach::Visible);
        let permit = caller.permit(every).await?;
        let wanted = audit::Wanted {
            filter: audit::filter(
                since,
                until,
                message.actor,
                message.action,
                message.denied_only,
            ),
            follow: message.follow,
            verify: message.verify,
        };
        let lines = audit::stream(Arc::clone(&self.identity), permit, wanted);
        Ok(Response::new(super::stream::until_expelled(
            lines,
            caller.expelled(),
        )))
    }

    async fn who_am_i(
        &self,
        request: Request<wire::WhoAmIRequest>,
    ) -> Answer<wire::WhoAmIResponse> {
        let caller = self.enter(&request, action::WHO_AM_I)?;
        let permit = caller.permit(Target::own()).await?;
        let who = self.identity.who_am_i(&permit, caller.peer());
        Ok(Response::new(wire::WhoAmIResponse {
            spiffe_id: who.spiffe_id,
            tenant: who.user.tenant.to_string(),
            user: who.user.name.to_string(),
            administrator: who.administrator,
            serial: who.serial,
            expires: Some(audit::seconds(who.not_after)),
            node: who.node,
            trust_domain: who.trust_domain,
        }))
    }
}
