// SPDX-License-Identifier: Apache-2.0
//! Streams of answers: each ends, with the reason, when its caller's certificate no longer counts
//! or its permission is withdrawn.

use std::pin::Pin;

use api::status::to_status;
use futures_util::{Stream, StreamExt, stream};
use model::error::Error;
use tonic::Status;

/// The stream of a method's answers, as the generated traits want it.
pub(super) type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// `items`, until they end or `expelled` resolves with the reason that the caller is no longer
/// served.
pub(super) fn until_expelled<T, S, E>(items: S, expelled: E) -> Answers<T>
where
    T: Send + 'static,
    S: Stream<Item = Result<T, Status>> + Send + 'static,
    E: Future<Output = Error> + Send + 'static,
{
    let state = Some((Box::pin(items), Box::pin(expelled)));
    Box::pin(stream::unfold(state, async |state| {
        let (mut items, mut expelled) = state?;
        tokio::select! {
            biased;
            error = &mut expelled => Some((Err(to_status(error)), None)),
            item = items.next() => match item? {
                Ok(item) => Some((Ok(item), Some((items, expelled)))),
                Err(status) => Some((Err(status), None)),
            },
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::error::Reason;

    #[tokio::test]
    async fn a_stream_ends_with_its_items() {
        let items = stream::iter([Ok(1), Ok(2)]);
        let all: Vec<_> = until_expelled(items, std::future::pending())
            .collect()
            .await;
        assert_eq!(all.len(), 2);
        assert!(all.iter().all(Result::is_ok));
    }

    #[tokio::test]
    async fn a_stream_ends_with_its_caller() {
        let expelled = async { Error::new(Reason::CertRevoked, "the certificate was revoked") };
        let items = stream::pending::<Result<u8, Status>>();
        let all: Vec<_> = until_expelled(items, expelled).collect().await;
        assert_eq!(all.len(), 1);
        assert_eq!(
            all[0].as_ref().unwrap_err().code(),
            tonic::Code::Unauthenticated
        );
    }

    #[tokio::test]
    async fn nothing_follows_an_error() {
        let items = stream::iter([Ok(1), Err(Status::internal("x")), Ok(2)]);
        let all: Vec<_> = until_expelled(items, std::future::pending())
            .collect()
            .await;
        assert_eq!(all.len(), 2);
    }
}
