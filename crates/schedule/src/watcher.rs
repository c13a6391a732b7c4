// SPDX-License-Identifier: Apache-2.0
//! Looks after the task of a schedule: begins it, takes it up again where it breaks off, and tidies
//! up behind it. A task that breaks off is a fault of this program: it is told, and the schedule
//! goes on from what it had published, after a pause that grows.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use model::error::Error;
use model::schedule::Why;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::handle::{Counted, Shared};
use crate::kept::{Kept, Status};
use crate::task::{Beginning, Handle, Over, Task};
use crate::watch::{Gone, key};

/// The first pause before a task is begun again; it doubles.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest.
const LONGEST: Duration = Duration::from_secs(300);
/// A task that went on for so long begins with the first pause again.
const STABLE: Duration = Duration::from_secs(600);

impl Shared {
    /// Begins the task of a schedule.
    pub(crate) fn begin(self: Arc<Self>, kept: Kept, counted: Counted) -> Handle {
        let named = kept.wish.named.clone();
        let status = watch::Sender::new(Arc::new(kept.first()));
        let (task, handle) = self.task(kept, status.clone());
        self.directory.insert(named, handle.clone(), counted);
        tokio::spawn(self.look_after(task, status));
        handle
    }

    fn task(&self, kept: Kept, status: watch::Sender<Arc<Status>>) -> (Task, Handle) {
        let named = &kept.wish.named;
        Task::new(Beginning {
            actor: self.actor(named),
            store: self.store.clone(),
            tenants: self.tenants.clone(),
            settings: self.settings.clone(),
            yard: self.yards.of(&named.tenant),
            others: self.directory.clone(),
            feed: self.feed.clone(),
            status,
            kept,
        })
    }

    async fn look_after(self: Arc<Self>, first: Task, status: watch::Sender<Arc<Status>>) {
        let wish = status.borrow().wish.clone();
        let share = self.tenants.share(&wish.named.tenant);
        let mut first = Some(first);
        let run = || {
            let task = first.take().unwrap_or_else(|| {
                let kept = Kept::of(&status.borrow());
                let (task, handle) = self.task(kept, status.clone());
                self.directory.replace(&wish.named, handle);
                task
            });
            share.run(task.run())
        };
        let waiting = until_over(run, |pause| broken(&status, pause)).await;
        self.directory.remove(&wish.named);
        let gone = Gone {
            named: wish.named.clone(),
            uid: wish.uid,
        };
        self.feed.gone(&key(&wish.named), wish.uid, gone);
        self.yards.of(&wish.named.tenant).tell();
        // Who asks from now on is told that it is gone.
        drop(status);
        if let Some(waiter) = waiting {
            let _ = waiter.send(Ok(()));
        }
    }
}

/// Says that the task of a schedule is gone, for a while.
fn broken(status: &watch::Sender<Arc<Status>>, pause: Duration) {
    let name = status.borrow().wish.named.clone();
    tracing::error!(tenant = %name.tenant, schedule = %name.name, ?pause, "its task broke off");
    status.send_modify(|status| {
        let words = "its task broke off, by a fault of the node's; it is taken up again";
        Arc::make_mut(status).why = Why::Broken(words.to_owned());
    });
}

/// Runs something again after each time that it breaks off, or panics, until it is over.
async fn until_over<F: Future<Output = Over>>(
    mut run: impl FnMut() -> F,
    mut broke: impl FnMut(Duration),
) -> Option<oneshot::Sender<Result<(), Error>>> {
    let mut pauses = Pauses(PAUSE);
    loop {
        let begun = Instant::now();
        match AssertUnwindSafe(run()).catch_unwind().await {
            Ok(Over::Removed(waiting)) => return waiting,
            Ok(Over::Broke) | Err(_) => {}
        }
        let pause = pauses.after(begun.elapsed());
        broke(pause);
        tokio::time::sleep(pause).await;
    }
}

/// What is waited before the next time; it grows.
struct Pauses(Duration);

impl Pauses {
    /// After one that went on for so long.
    fn after(&mut self, lasted: Duration) -> Duration {
        let pause = match lasted >= STABLE {
            true => PAUSE,
            false => self.0,
        };
        self.0 = pause.saturating_mul(2).min(LONGEST);
        pause
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn what_panics_is_taken_up_again_after_pauses_that_grow() {
        let runs = AtomicU32::new(0);
        let mut waited = Vec::new();
        let run = || async {
            match runs.fetch_add(1, Ordering::Relaxed) {
                0 => panic!("a fault"),
                _ => Over::Removed(None),
            }
        };
        let over = until_over(run, |pause| waited.push(pause)).await;
        assert!(over.is_none());
        assert_eq!(waited, [PAUSE]);
        let mut pauses = Pauses(PAUSE);
        let lasted = [0, 0, 0, STABLE.as_secs(), 0];
        let after = lasted.map(|it| pauses.after(Duration::from_secs(it)).as_secs());
        assert_eq!(after, [1, 2, 4, 1, 2]);
    }
}
