// SPDX-License-Identifier: Apache-2.0
//! The streams of one call of a program, with their limits. Which method it names is
//! `nodes::method`'s; whether it is sent is `super`'s; how, is `nodes`'.

use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};
use prost_reflect::DynamicMessage;
use tokio::sync::mpsc;

use super::Item;
use crate::nodes::{Found, too_late};
use crate::protocol::Failure;
use crate::session::Items;
use crate::wire;

/// What a program sends as messages, and what is wrong with the first that isn't one; after it
/// nothing is sent any more.
pub(super) fn typed(
    found: &Found,
    items: Items,
) -> (
    impl Stream<Item = DynamicMessage> + Send + 'static + use<>,
    impl Stream<Item = Item> + Send + 'static + use<>,
) {
    let input = found.descriptor.input();
    let (tell, told) = mpsc::channel::<Failure>(1);
    let outgoing = items.filter_map(move |item| {
        let message = wire::to_message(&input, &item);
        let tell = tell.clone();
        async move {
            match message {
                Ok(message) => Some(message),
                Err(problem) => {
                    // A stream that has ended already says why itself.
                    let _ = tell.send(problem.into()).await;
                    std::future::pending().await
                }
            }
        }
    });
    let wrong = stream::unfold(told, |mut told| async {
        told.recv().await.map(|failure| (Err(failure), told))
    });
    (outgoing, wrong)
}

/// The stream, and a failure in its middle once its time is up.
pub(super) fn until(
    answers: impl Stream<Item = Item> + Send + 'static,
    timeout: Duration,
) -> BoxStream<'static, Item> {
    let alarm = async move {
        tokio::time::sleep(timeout).await;
        Err(too_late(timeout))
    };
    ending(answers, stream::once(alarm))
}

/// The first stream until it ends, or until the second says what is wrong; nothing after that.
pub(super) fn ending(
    answers: impl Stream<Item = Item> + Send + 'static,
    wrong: impl Stream<Item = Item> + Send + 'static,
) -> BoxStream<'static, Item> {
    let answers = answers.map(Some).chain(stream::iter([None]));
    stream::select(answers, wrong.map(Some))
        .scan(false, |over, item| {
            let next = item.filter(|_| !*over);
            *over |= matches!(next, Some(Err(_)));
            std::future::ready(next)
        })
        .boxed()
}
