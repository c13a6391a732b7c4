// SPDX-License-Identifier: Apache-2.0
//! Several streams as one, by time. One item of each is held; items of one come in their own order,
//! and of two at the same time that of the first stream is first.

use futures_util::stream::{BoxStream, Stream, StreamExt, try_unfold};
use model::error::Error;

/// Items of one source.
pub(crate) type Items<T> = BoxStream<'static, Result<T, Error>>;

struct Merge<T> {
    heads: Vec<(Option<T>, Items<T>)>,
    time: fn(&T) -> u64,
}

/// All of them, by the time that `time` gives of each. It ends after the first error.
pub(crate) fn by_time<T: Send + 'static>(
    streams: Vec<Items<T>>,
    time: fn(&T) -> u64,
) -> impl Stream<Item = Result<T, Error>> + Send + 'static {
    let heads = streams.into_iter().map(|stream| (None, stream)).collect();
    try_unfold(Merge { heads, time }, Merge::next)
}

impl<T> Merge<T> {
    async fn next(mut self) -> Result<Option<(T, Self)>, Error> {
        for (head, stream) in &mut self.heads {
            if head.is_none() {
                *head = stream.next().await.transpose()?;
            }
        }
        self.heads.retain(|(head, _)| head.is_some());
        let time = self.time;
        let heads = self.heads.iter_mut().map(|(head, _)| head);
        let first = heads.min_by_key(|head| head.as_ref().map(time));
        let item = first.and_then(Option::take);
        Ok(item.map(|item| (item, self)))
    }
}
