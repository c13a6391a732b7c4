// SPDX-License-Identifier: Apache-2.0
//! The end of an owner's queue. A request carries the way back for its answer, and who asks waits
//! on that way while it holds a sender of the queue. A sender takes its place in the queue first
//! and puts its message there afterwards; where the receiver is dropped between the two, the
//! message stays in a queue that the one who waits keeps alive, and neither ever ends. So an owner
//! that goes while others may ask closes its queue and takes out what still comes.

use tokio::sync::mpsc;

/// Lets no more in, and drops what has a place already: who asked is told that there is no answer.
/// Waits for senders that have a place, which is for as long as they take to use it.
pub async fn close<T>(queue: &mut mpsc::Receiver<T>) {
    queue.close();
    while let Some(unheard) = queue.recv().await {
        drop(unheard);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn who_asks_as_the_owner_goes_is_told_that_there_is_no_answer() {
        let (asks, mut queue) = mpsc::channel(2);
        let (waits_in_it, early) = oneshot::channel::<()>();
        asks.send(waits_in_it).await.unwrap();
        // In the midst of sending: the place is there, the message is not.
        let place = asks.reserve().await.unwrap();
        let owner = tokio::spawn(async move { close(&mut queue).await });
        early.await.unwrap_err();
        let (late, answer) = oneshot::channel();
        place.send(late);
        let answered = tokio::time::timeout(LONG, answer).await;
        answered.expect("an end").unwrap_err();
        owner.await.unwrap();
        let (refused, _) = oneshot::channel();
        asks.send(refused).await.unwrap_err();
    }
}
