// SPDX-License-Identifier: Apache-2.0
//! What of a pod could not be removed: tried again until it is gone. What it takes of its tenant's
//! quota is held until then, since it is on the node until then.

use std::io;
use std::time::Duration;

use model::name::ObjectPath;

/// The wait after the first failure; each is twice the one before.
const FIRST: Duration = Duration::from_secs(1);
/// The longest of them.
const LONGEST: Duration = Duration::from_secs(300);

/// Removes what a pod of that name has left; resolves, and lets go of what is held, when it is
/// gone.
pub(crate) async fn until_removed<H>(
    held: H,
    pod: ObjectPath,
    remove: impl Fn() -> io::Result<()> + Clone + Send + 'static,
) {
    let mut wait = FIRST;
    loop {
        let error = match tokio::task::spawn_blocking(remove.clone()).await {
            Ok(Ok(())) => break,
            Ok(Err(error)) => error,
            Err(error) => io::Error::other(error),
        };
        tracing::error!(%pod, %error, ?wait, "the volumes of a pod stay behind; tried again");
        tokio::time::sleep(wait).await;
        wait = wait.saturating_mul(2).min(LONGEST);
    }
    drop(held);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn what_is_held_of_a_quota_is_held_until_the_volumes_are_gone() {
        let held = Arc::new(());
        let watched = Arc::downgrade(&held);
        let tries = Arc::new(AtomicU32::new(0));
        let remove = {
            let (tries, watched) = (tries.clone(), watched.clone());
            move || {
                assert_eq!(watched.strong_count(), 1);
                match tries.fetch_add(1, Ordering::SeqCst) {
                    0 => Err(io::Error::from(io::ErrorKind::ResourceBusy)),
                    _ => Ok(()),
                }
            }
        };
        until_removed(held, "web".parse().unwrap(), remove).await;
        assert_eq!(tries.load(Ordering::SeqCst), 2);
        assert_eq!(watched.strong_count(), 0);
    }
}
