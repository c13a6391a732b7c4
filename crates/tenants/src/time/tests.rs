// SPDX-License-Identifier: Apache-2.0
//! Futures that are polled by hand: whose turn it is, and that no turn is lost.

use std::sync::atomic::AtomicU32;
use std::task::{Wake, Waker};
use std::time::Duration;

use super::*;

/// Counts how often its future was woken.
#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A future by hand: its turn, and how often it was woken.
struct Hand {
    turn: Turn,
    woken: Arc<Woken>,
}

impl Hand {
    fn of(share: &Share) -> Self {
        Self {
            turn: share.turn(),
            woken: Arc::default(),
        }
    }

    /// Whether it was its turn.
    fn poll(&mut self, work: impl FnOnce()) -> bool {
        let waker = Waker::from(self.woken.clone());
        let mut cx = Context::from_waker(&waker);
        let polled = self.turn.poll(&mut cx, |_| {
            work();
            Poll::Ready(())
        });
        polled.is_ready()
    }

    fn woken(&self) -> u32 {
        self.woken.0.load(Ordering::Relaxed)
    }
}

/// Time that stands still.
fn still() -> Time {
    Time {
        inner: Arc::new(Inner {
            clock: Clock::Hand(AtomicU64::new(1)),
            accounts: Accounts::default(),
            lane: Lane::default(),
            waited: AtomicU64::new(0),
        }),
    }
}

/// So many nanoseconds pass.
fn pass(time: &Time, nanoseconds: u64) {
    if let Clock::Hand(now) = &time.inner.clock {
        now.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

fn share(time: &Time, uid: u32) -> Share {
    time.of(Payer::User(uid), WEIGHT, false)
}

/// Shares of one that is within its share, and of two that are far beyond theirs.
fn fair_and_greedy(time: &Time) -> (Share, Share, Share) {
    let [fair, greedy, other] = [1, 2, 3].map(|uid| share(time, uid));
    for one in [&fair, &greedy, &other] {
        assert!(Hand::of(one).poll(|| {}));
    }
    exhaust(&greedy);
    exhaust(&other);
    (fair, greedy, other)
}

/// It has used far more than its share just now.
fn exhaust(share: &Share) {
    share.add(Duration::from_secs(3600));
}

#[test]
fn beyond_their_share_payers_have_one_poll_at_a_time_and_no_other_waits() {
    let time = still();
    let (fair, greedy, other) = fair_and_greedy(&time);
    let (mut second, mut third) = (Hand::of(&greedy), Hand::of(&other));
    // What is polled within another's poll stands for what the other thread polls meanwhile.
    assert!(Hand::of(&greedy).poll(|| {
        assert!(!second.poll(|| panic!("the lane is taken")));
        assert!(!third.poll(|| panic!("the lane is taken, for every other")));
        assert!(
            Hand::of(&fair).poll(|| {}),
            "within its share nothing waits"
        );
        assert_eq!((second.woken(), third.woken()), (0, 0));
    }));
    // One of them is woken, and the other one once that is done.
    assert_eq!(second.woken() + third.woken(), 1);
    let (first, last) = match second.woken() {
        1 => (&mut second, &mut third),
        _ => (&mut third, &mut second),
    };
    assert!(!last.poll(|| panic!("it was granted to the other")));
    assert!(first.poll(|| {}));
    assert_eq!(last.woken(), 1);
    assert!(last.poll(|| {}));
    assert_eq!(time.waited(), 3);
}

#[test]
fn a_payer_alone_never_waits() {
    let time = still();
    let greedy = share(&time, 1);
    assert!(Hand::of(&greedy).poll(|| {
        assert!(Hand::of(&greedy).poll(|| {}));
    }));
    assert_eq!(time.waited(), 0);
}

#[test]
fn a_payer_with_a_thousand_waiting_lets_another_have_its_turn() {
    let time = still();
    let (_, greedy, other) = fair_and_greedy(&time);
    let mut crowd: Vec<Hand> = (0..1000).map(|_| Hand::of(&greedy)).collect();
    let mut late = Hand::of(&other);
    assert!(Hand::of(&greedy).poll(|| {
        assert!(crowd.iter_mut().all(|one| !one.poll(|| {})));
        assert!(!late.poll(|| {}));
    }));
    let mut before = 0;
    while late.woken() == 0 {
        let granted = crowd.iter_mut().find(|one| one.woken() == 1);
        let granted = granted.expect("one of those in line holds the lane");
        // Longer than the quantum: each is a whole share.
        assert!(granted.poll(|| pass(&time, 300_000)));
        granted.woken.0.store(2, Ordering::Relaxed);
        before += 1;
    }
    assert!(before <= 1, "{before} of the others' before it");
}

#[test]
fn what_is_dropped_in_line_or_with_its_grant_leaves_both_to_others() {
    let time = still();
    let (_, greedy, _) = fair_and_greedy(&time);
    let mut line: Vec<Hand> = (0..3).map(|_| Hand::of(&greedy)).collect();
    assert!(Hand::of(&greedy).poll(|| {
        assert!(line.iter_mut().all(|one| !one.poll(|| {})));
    }));
    assert_eq!(line[0].woken(), 1);
    // The second leaves the line, the first one goes with its grant.
    drop(line.remove(1));
    drop(line.remove(0));
    assert_eq!(line[0].woken(), 1);
    assert!(line[0].poll(|| {}));
    assert!(Hand::of(&greedy).poll(|| {}), "the lane is free");
}

#[test]
fn a_poll_that_panics_leaves_the_lane() {
    let time = still();
    let (_, greedy, _) = fair_and_greedy(&time);
    let mut broken = Hand::of(&greedy);
    let polled = std::panic::AssertUnwindSafe(|| broken.poll(|| panic!("for this test")));
    assert!(std::panic::catch_unwind(polled).is_err());
    assert!(Hand::of(&greedy).poll(|| {}));
}

#[tokio::test]
async fn a_grant_that_is_not_taken_goes_to_the_next() {
    let time = still();
    let (_, greedy, _) = fair_and_greedy(&time);
    let (mut stuck, mut next) = (Hand::of(&greedy), Hand::of(&greedy));
    assert!(Hand::of(&greedy).poll(|| {
        assert!(!stuck.poll(|| {}));
        assert!(!next.poll(|| {}));
    }));
    assert_eq!(stuck.woken(), 1);
    while next.woken() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(!stuck.poll(|| {}), "it is behind those that wait now");
    assert!(next.poll(|| {}));
    while stuck.woken() == 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
