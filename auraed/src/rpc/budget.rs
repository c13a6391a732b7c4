// SPDX-License-Identifier: Apache-2.0
//! Bounds what calls take before and after their handlers: the number of a tenant's open calls,
//! the bytes of its requests while they arrive, and those of its answers until they are sent. These
//! are quotas of the tenant (`streams`, `request_bytes`), so a tenant that sends or opens too much,
//! or doesn't read what it has asked for, is refused, and other tenants aren't.
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
use bytes::Bytes;
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
                let (bytes, of) = (self.bytes.clone(), tenant.clone());
                let counted = |body| Body::new(Counted::new(body, bytes, of, streams));
                let response = inner.call(request.map(counted)).await?;
                let unary = action.filter(|action| !action.server_streams);
                let room = unary.map(|action| Room {
                    pool: &self.bytes,
                    tenant: &tenant,
                    is_done: action.changes,
                });
                held(response, room, place, &share).await
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

/// Where the bytes of an answer count.
struct Room<'a> {
    pool: &'a Pool,
    tenant: &'a Tenant,
    /// The call has changed something, so its answer is told in any case. Its request had room in
    /// the same pool before it was done.
    is_done: bool,
}

impl Room<'_> {
    fn take(&self, bytes: u64) -> Result<Taken, Error> {
        match self.is_done {
            true => Ok(self.pool.count(self.tenant, bytes)),
            false => self.pool.take_or_alone(self.tenant, bytes),
        }
    }
}

/// The answer with its place in the pools. That of a call with one answer is encoded here, so that
/// its bytes are counted in `room` while its client reads them, however slowly.
async fn held(
    response: Response<Body>,
    room: Option<Room<'_>>,
    place: Taken,
    share: &Share,
) -> Response<Body> {
    let (head, mut body) = response.into_parts();
    let mut first = None;
    let mut bytes = None;
    if let Some(room) = room {
        first = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        let data = first
            .as_ref()
            .and_then(|frame| frame.as_ref().ok()?.data_ref());
        // A refusal has no data.
        let taken = data.map(|data| room.take(u64::try_from(data.len()).unwrap_or(u64::MAX)));
        match taken.transpose() {
            Ok(taken) => bytes = taken,
            Err(error) => {
                let unread = error.hint("read the answers to earlier calls before the next one");
                return to_status(unread).into_http();
            }
        }
    }
    let body = Held {
        body,
        first,
        turn: share.turn(),
        _place: place,
        _bytes: bytes,
    };
    Response::from_parts(head, Body::new(body))
}

/// The body of an answer; the call counts until it has been sent. It is made in the turns of the
/// caller's tenant.
struct Held {
    body: Body,
    /// What was read of it already.
    first: Option<Result<Frame<Bytes>, Status>>,
    turn: Turn,
    _place: Taken,
    _bytes: Option<Taken>,
}

impl HttpBody for Held {
    type Data = <Body as HttpBody>::Data;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        let Self {
            body, first, turn, ..
        } = self.get_mut();
        match first.take() {
            Some(frame) => Poll::Ready(Some(frame)),
            None => turn.poll(cx, |cx| Pin::new(body).poll_frame(cx)),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.first {
            // What was read is no part of the body's own hint any more.
            Some(_) => SizeHint::default(),
            None => self.body.size_hint(),
        }
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

    /// An answer of so many bytes.
    async fn answer(of: u64, pool: &Pool, tenant: &Tenant) -> Response<Body> {
        answer_of(of, pool, tenant, false).await
    }

    async fn answer_of(of: u64, pool: &Pool, tenant: &Tenant, is_done: bool) -> Response<Body> {
        let bytes = Bytes::from(vec![0; usize::try_from(of).unwrap()]);
        let body = Body::new(Stalls(Some(bytes)));
        let tenants = pool.tenants();
        let place = Pool::new(tenants, Quota::Streams).take(tenant, 1).unwrap();
        let share = tenants.share(tenant);
        let room = Room {
            pool,
            tenant,
            is_done,
        };
        held(Response::new(body), Some(room), place, &share).await
    }

    #[tokio::test]
    async fn answers_that_are_not_read_count_until_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let capacity = Capacity {
            whole: BTreeMap::from([(Quota::RequestBytes, 4000), (Quota::Streams, 100)]),
            reserve: 0,
        };
        let store = store::Store::open(dir.path()).unwrap();
        let tenants = Tenants::start(store, dir.path(), capacity).await.unwrap();
        let pool = Pool::new(&tenants, Quota::RequestBytes);
        let system: Tenant = "system".parse().unwrap();
        let refused = |response: &Response<Body>| is_beyond_a_quota(response);
        let first = answer(3000, &pool, &system).await;
        assert!(!refused(&first));
        assert!(refused(&answer(3000, &pool, &system).await));
        assert_eq!(pool.room(&system), 1000);
        // What has happened is told.
        let done = answer_of(3000, &pool, &system, true).await;
        assert!(!refused(&done));
        assert_eq!(pool.room(&system), 0);
        drop(done);
        // Its client has read it.
        drop(first);
        let large = answer(9000, &pool, &system).await;
        assert!(!refused(&large), "alone, it is not too large");
        assert!(refused(&answer(1, &pool, &system).await));
        let mut body = large.into_body();
        let read = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        let read = read.unwrap().unwrap();
        assert_eq!(read.data_ref().map(Bytes::len), Some(9000));
        drop(body);
        assert_eq!(pool.room(&system), 4000);
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
