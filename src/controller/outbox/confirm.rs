//! Ends are looked at again where something before them was told in doubt: a status that got no answer
//! may be applied after the end, and would show for ever what is over.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::controller::Parts;
use crate::controller::outbox::Sender;
use crate::controller::outbox::pace::later;
use crate::controller::outside::{NotDelivered, Outside, Remedy};
use crate::store::{Confirmation, StoreError};

/// How many are looked at at once.
const TAKEN: u32 = 2;
/// What is not applied by then never is.
const LAST_LOOK: SignedDuration = SignedDuration::from_mins(10);
/// Between two looks, where one failed or found something.
const SOON: Duration = Duration::from_mins(1);
/// For longer nobody tries to look.
const PATIENCE: SignedDuration = SignedDuration::from_hours(24);

/// How a look ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// People see the end.
    Confirmed,
    /// They saw something older, and see the end again.
    ToldAgain,
    /// Nobody knows; the other side may have said when to ask again.
    Failed(Option<Duration>),
}

impl<O: Outside> Parts<O> {
    /// Looks at the ends that are to be looked at now; how many those were.
    pub(super) async fn confirm_some(&self, sender: &Sender) -> Result<usize, StoreError> {
        let now = self.clock.now();
        let admitted = sender.admit(TAKEN, now);
        if admitted == 0 {
            return Ok(0);
        }
        let taken = self.store.take_confirmations(now, self.settings.lease, admitted).await;
        let came = taken.as_ref().map_or(0, |taken| u32::try_from(taken.len()).unwrap_or(admitted));
        sender.turned_back(admitted.saturating_sub(came));
        let taken = taken?;
        for one in &taken {
            self.confirm(one).await?;
        }
        Ok(taken.len())
    }

    async fn confirm(&self, one: &Confirmation) -> Result<(), StoreError> {
        let message = &one.message;
        let looking = self.outside.confirm(message);
        let look = match tokio::time::timeout(self.settings.lease / 2, looking).await {
            Ok(Ok(false)) => Look::Confirmed,
            Ok(Ok(true)) => Look::ToldAgain,
            Ok(Err(NotDelivered { problem, .. })) => match problem.remedy {
                Remedy::Retry { after } => Look::Failed(after),
                Remedy::Reject | Remedy::Late { .. } | Remedy::Doubt | Remedy::GiveUp => {
                    Look::Failed(None)
                }
            },
            Err(_elapsed) => Look::Failed(None),
        };
        let (deployment, sink, state) =
            (&message.deployment, &message.sink, message.status.state.as_str());
        if look == Look::ToldAgain {
            tracing::warn!(%deployment, %sink, state, "an older status was applied late; the end is told again");
        }
        self.store.confirmed(one, next(look, one.told_at, self.clock.now())).await
    }
}

/// When it is looked again, if it is.
fn next(look: Look, told_at: Timestamp, now: Timestamp) -> Option<Timestamp> {
    let last = later(told_at, LAST_LOOK);
    let soon = |wait: Duration| later(now, SignedDuration::try_from(wait).unwrap_or(LAST_LOOK));
    match look {
        Look::Confirmed => (now < last).then_some(last),
        Look::ToldAgain => Some(soon(SOON)),
        Look::Failed(_) if now.duration_since(told_at) > PATIENCE => None,
        Look::Failed(wish) => Some(soon(wish.unwrap_or_default().max(SOON))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_looked_at_twice_and_after_whatever_was_found() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        assert_eq!(next(Look::Confirmed, at(0), at(60)), Some(at(600)));
        assert_eq!(next(Look::Confirmed, at(0), at(600)), None);
        assert_eq!(next(Look::ToldAgain, at(0), at(600)), Some(at(660)));
        assert_eq!(next(Look::Failed(None), at(0), at(600)), Some(at(660)));
        let wish = Look::Failed(Some(Duration::from_secs(1800)));
        assert_eq!(next(wish, at(0), at(600)), Some(at(2400)));
        assert_eq!(next(wish, at(0), at(25 * 3600)), None, "nobody looks for ever");
    }
}
