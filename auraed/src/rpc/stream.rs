// SPDX-License-Identifier: Apache-2.0
//! Streams of answers: each ends, with the reason, when its caller's certificate no longer counts
//! or its permission is withdrawn. And streams of requests: what must come first, and what goes on
//! beside the answers.

use std::pin::Pin;
use std::time::Duration;

use api::status::to_status;
use futures_util::{Stream, StreamExt, stream};
use model::error::{Error, Reason};
use tenants::Share;
use tokio::task::JoinHandle;
use tonic::{Status, Streaming};

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

/// The message that must come first. `pick` takes it out of what has come; `field` is its name, for
/// who has sent something else.
pub(super) async fn first<M, T>(
    asked: &mut Streaming<M>,
    within: Duration,
    field: &str,
    pick: impl FnOnce(M) -> Option<T>,
) -> Result<T, Error> {
    let Ok(came) = tokio::time::timeout(within, asked.message()).await else {
        let message = format!("the first message did not come within {within:?}");
        return Err(Error::new(Reason::Deadline, message));
    };
    // A broken stream has no reader.
    let picked = came.ok().flatten().and_then(pick);
    picked.ok_or_else(|| Error::invalid(field, "must be the first message"))
}

/// What reads the requests of a stream, in its caller's turns; it ends with the answers.
pub(super) struct Beside(JoinHandle<()>);

impl Beside {
    /// Begins it.
    pub(super) fn start(share: &Share, work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(share.run(work)))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
