// SPDX-License-Identifier: Apache-2.0
//! The layer around every call, those of health and reflection included: a span with an id, the
//! deadline, the guard that turns a panic into INTERNAL, and our errors in place of the transport's
//! own refusals. Not here: permission (each handler asks `identity`) and limits of connections
//! (`listen`).

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use api::status::to_status;
use futures_util::FutureExt;
use http::{Request, Response};
use model::error::{Error, Reason};
use tonic::body::Body;
use tower::{Layer, Service};
use tracing::Instrument;

use super::body::Guarded;
use super::deadline::{self, DefaultDeadline};

/// How much earlier than the transport's own timer a call ends, so that the client gets our error.
const EARLIER: Duration = Duration::from_millis(10);

/// The id of one call within this daemon, for the span and the audit; in the request's extensions.
#[derive(Clone, Debug)]
pub(crate) struct CallId(pub(crate) String);

/// Puts [`Guard`] around a service.
#[derive(Clone, Debug)]
pub(crate) struct GuardLayer {
    /// Of unary calls without a deadline of their own.
    pub(crate) default_deadline: DefaultDeadline,
    /// The largest request, in bytes; only for the words of the refusal.
    pub(crate) max_message: usize,
}

impl<S> Layer<S> for GuardLayer {
    type Service = Guard<S>;

    fn layer(&self, inner: S) -> Guard<S> {
        Guard {
            inner,
            settings: self.clone(),
        }
    }
}

/// A service with what the module's header names around each call.
#[derive(Clone, Debug)]
pub(crate) struct Guard<S> {
    inner: S,
    settings: GuardLayer,
}

impl<S> Service<Request<Body>> for Guard<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        // The clone may not be ready; the one that was asked is.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        let max_message = self.settings.max_message;
        let id = next_id();
        let span = tracing::info_span!("rpc", method = %request.uri().path(), id = %id);
        let bound = bound_of(&request, self.settings.default_deadline.get());
        request.extensions_mut().insert(CallId(id));
        let work = async move {
            let started = Instant::now();
            let call = AssertUnwindSafe(async move { inner.call(request).await }).catch_unwind();
            let outcome = match bound {
                None => call.await,
                Some(bound) => match tokio::time::timeout(bound, call).await {
                    Ok(outcome) => outcome,
                    Err(_) => return Ok(too_late(bound)),
                },
            };
            match outcome {
                Ok(result) => {
                    tracing::debug!(elapsed = ?started.elapsed(), "answered");
                    result.map(|response| restate(response, max_message))
                }
                Err(_) => Ok(panicked()),
            }
        };
        Box::pin(work.instrument(span))
    }
}

fn next_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{:08x}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn bound_of(request: &Request<Body>, default: Duration) -> Option<Duration> {
    let header = request.headers().get("grpc-timeout");
    let asked = header.and_then(|value| value.to_str().ok());
    let asked = asked.and_then(deadline::parse);
    let asked = asked.map(|asked| asked.saturating_sub(EARLIER.min(asked / 10)));
    deadline::of_call(api::action::of_rpc(request.uri().path()), asked, default)
}

fn too_late(bound: Duration) -> Response<Body> {
    let message = format!("the call was not done within {bound:?}");
    let error = Error::new(Reason::Deadline, message)
        .hint("its effects may still go on; get the object's state before trying again");
    to_status(error).into_http()
}

fn panicked() -> Response<Body> {
    // The panic hook has written where; the client learns no internals.
    tracing::error!("a handler panicked");
    to_status(Error::internal(
        "the node failed on this call; its log says where",
    ))
    .into_http()
}

/// Guards the stream of the answer, and gives the transport's refusal of a large message our form.
fn restate(response: Response<Body>, max_message: usize) -> Response<Body> {
    let code = response.headers().get("grpc-status");
    if code.is_some_and(|code| code == "11") {
        let message = format!("the request is larger than the {max_message} bytes that are read");
        let error = Error::new(Reason::LimitExceeded, message)
            .hint("put large inputs into a file or a volume, or send them on standard input");
        return to_status(error).into_http();
    }
    response.map(|body| Body::new(Guarded::new(body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Answer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

    #[derive(Clone)]
    struct Handler(fn() -> Answer<Response<Body>>);

    impl Service<Request<Body>> for Handler {
        type Response = Response<Body>;
        type Error = std::convert::Infallible;
        type Future = Answer<Result<Response<Body>, Self::Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<Body>) -> Self::Future {
            let answer = (self.0)();
            Box::pin(async move { Ok(answer.await) })
        }
    }

    async fn reason_of(handler: Handler, timeout: Option<&str>) -> Option<Reason> {
        let layer = GuardLayer {
            default_deadline: DefaultDeadline::new(Duration::from_millis(50)),
            max_message: 10,
        };
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = "/aurae.runtime.v0.Runtime/Get".parse().unwrap();
        if let Some(timeout) = timeout {
            let value = timeout.parse().unwrap();
            request.headers_mut().insert("grpc-timeout", value);
        }
        let response = layer.layer(handler).call(request).await.unwrap();
        let status = tonic::Status::from_header_map(response.headers()).unwrap();
        api::status::from_status(&status).reason
    }

    #[tokio::test]
    async fn a_handler_that_panics_answers_internal() {
        let handler = Handler(|| Box::pin(async { panic!("a defect, made for this test") }));
        assert_eq!(reason_of(handler, None).await, Some(Reason::Internal));
    }

    #[tokio::test]
    async fn a_handler_that_never_answers_meets_the_deadline() {
        let never = Handler(|| Box::pin(std::future::pending()));
        assert_eq!(reason_of(never.clone(), None).await, Some(Reason::Deadline));
        assert_eq!(reason_of(never, Some("20m")).await, Some(Reason::Deadline));
    }

    #[tokio::test]
    async fn a_message_too_large_is_refused_in_our_words() {
        let large = Handler(|| {
            Box::pin(async { tonic::Status::out_of_range("Error, decoded…").into_http() })
        });
        assert_eq!(reason_of(large, None).await, Some(Reason::LimitExceeded));
    }
}
