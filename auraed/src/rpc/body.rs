// SPDX-License-Identifier: Apache-2.0
//! Guards the body of an answer: where its stream panics, the call ends with INTERNAL. Without the
//! guard the whole connection, which other calls share, would end without an error.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use api::status::to_status;
use http::HeaderMap;
use http_body::{Body as HttpBody, Frame, SizeHint};
use model::error::Error;
use tonic::body::Body;

/// The body of an answer, guarded as the module's header says.
pub(super) struct Guarded {
    inner: Body,
    ended: bool,
}

impl Guarded {
    pub(super) fn new(inner: Body) -> Self {
        Self {
            inner,
            ended: false,
        }
    }
}

impl HttpBody for Guarded {
    type Data = <Body as HttpBody>::Data;
    type Error = <Body as HttpBody>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let this = &mut *self;
        let polled = catch_unwind(AssertUnwindSafe(|| {
            Pin::new(&mut this.inner).poll_frame(cx)
        }));
        match polled {
            Ok(frame) => {
                let frame = ready!(frame);
                self.ended = frame.is_none();
                Poll::Ready(frame)
            }
            Err(_) => {
                tracing::error!("a stream panicked");
                self.ended = true;
                let error = Error::internal("the node failed on this stream; its log says where");
                let mut trailers = HeaderMap::new();
                // It can only fail on header values that `to_status` doesn't make; then the stream
                // ends without a status, which clients take for an error as well.
                let _ = to_status(error).add_header(&mut trailers);
                Poll::Ready(Some(Ok(Frame::trailers(trailers))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken;

    impl HttpBody for Broken {
        type Data = <Body as HttpBody>::Data;
        type Error = tonic::Status;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
            panic!("a defect, made for this test");
        }
    }

    #[tokio::test]
    async fn a_stream_that_panics_ends_with_internal_and_nothing_more() {
        let mut body = Guarded::new(Body::new(Broken));
        let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        let trailers = frame.unwrap().unwrap().into_trailers().unwrap();
        let status = tonic::Status::from_header_map(&trailers).unwrap();
        assert_eq!(status.code(), tonic::Code::Internal);
        assert!(body.is_end_stream());
        let after = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        assert!(after.is_none());
    }
}
