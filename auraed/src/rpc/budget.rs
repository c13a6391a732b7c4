// SPDX-License-Identifier: Apache-2.0
//! Bounds the calls and requests that reach no handler yet: the number of a tenant's open calls,
//! and the bytes of its requests while they arrive. Both are quotas of the tenant (`streams`,
//! `request_bytes`), so a tenant that sends or opens too much is refused, and other tenants aren't.
//!
//! The caller's certificate is checked here, once for every call, those of health and reflection
//! included ([`Authenticated`]): a caller whose certificate was revoked is refused, with its line
//! in the audit, before a byte of its request is stored. A unary request that doesn't arrive within
//! [`BODY_TIME`] is refused. Which action is permitted is not decided here.
//!
//! Calls and their answers are worked for in the turns of the caller's tenant (`tenants::Time`). A
//! tenant whose calls of a method were refused too often for a quota waits with the next one,
//! before anything is decided for it (`tenants::Refusals`).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use api::status::to_status;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use identity::{Identity, Peer};
use model::error::{Error, Reason};
use model::name::Tenant;
use model::quota::Quota;
use tenants::{Pool, Refusals, Share, Taken, Tenants, Turn};
use tokio::time::Sleep;
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};

use super::caller::Authenticated;

/// How long a unary request may take to arrive, from its first byte that is asked for.
const BODY_TIME: Duration = Duration::from_secs(10);

/// Puts [`Budget`] around a service.
#[derive(Clone)]
pub(crate) struct BudgetLayer {
    identity: Arc<Identity>,
    tenants: Tenants,
    refusals: Refusals,
    streams: Pool,
    bytes: Pool,
}

impl BudgetLayer {
    /// With pools of its own.
    pub(crate) fn new(identity: Arc<Identity>, tenants: &Tenants) -> Self {
        Self {
            identity,
            tenants: tenants.clone(),
            refusals: Refusals::default(),
            streams: Pool::new(tenants, Quota::Streams),
            bytes: Pool::new(tenants, Quota::RequestBytes),
        }
    }

    /// Answers a call of this peer, once it has been counted.
    async fn answer<S>(
        self,
        mut inner: S,
        mut request: Request<Body>,
        tenant: Tenant,
        share: Share,
    ) -> Result<Response<Body>, S::Error>
    where
        S: Service<Request<Body>, Response = Response<Body>>,
    {
        let action = api::action::of_rpc(request.uri().path());
        let method = action.map_or("", |action| action.name);
        let wait = self.refusals.wait(&tenant, method, Instant::now());
        if let Some(wait) = wait {
            tokio::time::sleep(wait).await;
        }
        let checked = Authenticated::check(&self.identity, &mut request, action).await;
        let response = match checked.and_then(|_caller| self.streams.take(&tenant, 1)) {
            Ok(place) => {
                let streams = action.is_some_and(|action| action.client_streams);
                let (bytes, of) = (self.bytes, tenant.clone());
                let counted = |body| Body::new(Counted::new(body, bytes, of, streams));
                let response = inner.call(request.map(counted)).await?;
                response.map(|body| Body::new(Held::new(body, place, &share)))
            }
            Err(error) => to_status(error).into_http(),
        };
        if wait.is_none() && is_beyond_a_quota(&response) {
            self.refusals.refused(&tenant, method, Instant::now());
        }
        Ok(response)
    }
}

/// Whether the answer is the refusal `LIMIT_EXCEEDED`, which has no body.
fn is_beyond_a_quota(response: &Response<Body>) -> bool {
    let code = Code::ResourceExhausted as i32;
    let said = response.headers().get(Status::GRPC_STATUS);
    let said = said.and_then(|value| value.to_str().ok());
    said.and_then(|text| text.parse().ok()) == Some(code)
}

impl<S> Layer<S> for BudgetLayer {
    type Service = Budget<S>;

    fn layer(&self, inner: S) -> Budget<S> {
        Budget {
            inner,
            layer: self.clone(),
        }
    }
}

/// A service that counts calls and bytes, as the module's header says.
#[derive(Clone)]
pub(crate) struct Budget<S> {
    inner: S,
    layer: BudgetLayer,
}

impl<S> Service<Request<Body>> for Budget<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The clone may not be ready; the one that was asked is.
        let next = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, next);
        let layer = self.layer.clone();
        let Some(peer) = request.extensions().get::<Peer>().cloned() else {
            // Only a listener that forgets the peer leads here.
            let error = Error::internal("the connection has no peer identity");
            return Box::pin(async move { Ok(to_status(error).into_http()) });
        };
        let share = layer.tenants.share(&peer.user().tenant);
        let of_body = share.clone();
        Box::pin(share.run(layer.answer(inner, request, peer.user().tenant.clone(), of_body)))
    }
}

/// The body of an answer; the call counts until it has been sent. It is made in the turns of the
/// caller's tenant.
struct Held {
    body: Body,
    turn: Turn,
    _place: Taken,
}

impl Held {
    fn new(body: Body, place: Taken, share: &Share) -> Self {
        Self {
            body,
            turn: share.turn(),
            _place: place,
        }
    }
}

impl HttpBody for Held {
    type Data = <Body as HttpBody>::Data;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        let Self { body, turn, .. } = self.get_mut();
        turn.poll(cx, |cx| Pin::new(body).poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a request, whose bytes count until the handler has them: of a unary call until all
/// are decoded, of a stream until the next part is asked for.
struct Counted {
    body: Body,
    pool: Pool,
    tenant: Tenant,
    streams: bool,
    taken: Option<Taken>,
    /// Of a unary call, from the first time that it is polled.
    late: Option<Pin<Box<Sleep>>>,
}

impl Counted {
    fn new(body: Body, pool: Pool, tenant: Tenant, streams: bool) -> Self {
        Self {
            body,
            pool,
            tenant,
            streams,
            taken: None,
            late: None,
        }
    }

    fn count(&mut self, bytes: usize) -> Result<(), Error> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        match &mut self.taken {
            Some(taken) if !self.streams => taken.grow(bytes),
            _ => {
                // The part before was decoded.
                self.taken = None;
                self.taken = Some(self.pool.take(&self.tenant, bytes)?);
                Ok(())
            }
        }
    }

    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        if self.streams {
            return false;
        }
        let late = self
            .late
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(BODY_TIME)));
        late.as_mut().poll(cx).is_ready()
    }
}

impl HttpBody for Counted {
    type Data = <Body as HttpBody>::Data;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        if self.is_late(cx) {
            let message = format!("the request did not arrive within {BODY_TIME:?}");
            return Poll::Ready(Some(Err(to_status(Error::new(Reason::Deadline, message)))));
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
            && let Err(error) = self.count(data.len())
        {
            return Poll::Ready(Some(Err(to_status(error))));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use model::quota::Capacity;

    use super::*;

    /// A thousand bytes, and then nothing for ever.
    struct Stalls(Option<Bytes>);

    impl HttpBody for Stalls {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            match self.0.take() {
                Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                None => Poll::Pending,
            }
        }
    }

    async fn next(body: &mut Counted) -> Option<Result<Frame<Bytes>, Status>> {
        std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await
    }

    #[tokio::test]
    async fn a_request_that_stalls_is_refused_and_gives_its_bytes_back() {
        let dir = tempfile::tempdir().unwrap();
        let capacity = Capacity {
            whole: BTreeMap::from([(Quota::RequestBytes, 4000)]),
            reserve: 0,
        };
        let store = store::Store::open(dir.path()).unwrap();
        let tenants = Tenants::start(store, dir.path(), capacity).await.unwrap();
        let pool = Pool::new(&tenants, Quota::RequestBytes);
        // The administrators' may have all of it.
        let system: Tenant = "system".parse().unwrap();
        let stalls = Body::new(Stalls(Some(Bytes::from(vec![0; 1000]))));
        let mut body = Counted::new(stalls, pool.clone(), system.clone(), false);
        assert!(next(&mut body).await.unwrap().unwrap().is_data());
        assert_eq!(pool.room(&system), 3000);
        assert!(body.late.is_some(), "the time runs from the first byte on");
        body.late = Some(Box::pin(tokio::time::sleep(Duration::from_millis(50))));
        let refused = next(&mut body).await.unwrap().unwrap_err();
        let refused = api::status::from_status(&refused);
        assert_eq!(refused.reason, Some(Reason::Deadline), "{refused:?}");
        drop(body);
        assert_eq!(pool.room(&system), 4000);
    }
}
