//! Trouble, ordered by the test.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::harness::github::answer::Answer;
use crate::harness::github::limits::{Limits, makes_content, told_to_wait, used_up};

/// Longer than any test.
pub(super) const EVER: Duration = Duration::from_hours(1);

/// What is answered instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// 502 with a page of HTML, and nothing was done.
    BadGateway,
    /// Any other status, and nothing was done.
    Status(u16),
    /// 200 with a page for people, as of a proxy that wants a login; and nothing was done.
    WebPage,
    /// 422, as for what GitHub understands and never takes.
    Unprocessable,
    /// 403 or 429 with `retry-after` in seconds: the secondary limit, of writes where it meets one.
    Wait(u16, i64),
    /// 403 with nothing remaining: the primary limit, until its reset.
    UsedUp,
    /// 401, as for a token that has ended or was revoked.
    BadCredentials,
    /// What was asked is done, and the connection is cut before the answer.
    CutAfter,
    /// The connection is cut, and what was asked is done so many seconds later.
    DoneLate(i64),
    /// The connection is cut, and nothing was done.
    CutBefore,
    /// What was asked is done, and no answer comes, ever: a client that dies then, dies in doubt.
    SilentAfter,
    /// Nothing is done, and no answer comes, ever.
    SilentBefore,
    /// It is kept waiting, and worked on when what is held is let go.
    Held,
}

/// What is to happen to a request.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It is answered as it should be, perhaps late, perhaps unheard.
    Work { delay: Duration, cut: bool },
    /// It is answered so, and nothing is done.
    Refuse(Answer),
    /// The connection ends, and it is worked on at that time.
    Later(Timestamp),
    /// The connection ends, and nothing is done.
    Cut,
    /// It is not answered, and nothing is done.
    Silence,
    /// It is looked at again when what is held is let go.
    Hold,
}

#[derive(Default)]
pub(super) struct Faults {
    orders: Vec<Order>,
    down_until: Option<Timestamp>,
}

struct Order {
    /// So many requests are let by first.
    skip: u32,
    left: u32,
    /// Every word stands in the request's line.
    words: String,
    fault: Fault,
}

impl Faults {
    pub(super) fn order(&mut self, times: u32, words: &str, fault: Fault) {
        self.order_after(0, times, words, fault);
    }

    pub(super) fn order_after(&mut self, skip: u32, times: u32, words: &str, fault: Fault) {
        self.orders.push(Order { skip, left: times, words: words.to_owned(), fault });
    }

    pub(super) fn down(&mut self, until: Timestamp) {
        self.down_until = Some(until);
    }

    pub(super) fn is_down(&self, now: Timestamp) -> bool {
        self.down_until.is_some_and(|until| now < until)
    }

    pub(super) fn is_ordered(&self, words: &str) -> bool {
        self.orders.iter().any(|order| order.left > 0 && order.words == words)
    }

    /// What was ordered and never came to be.
    pub(super) fn left(&self) -> Vec<String> {
        let left = self.orders.iter().filter(|order| order.left > 0);
        left.map(|order| format!("{} × {:?} on {:?}", order.left, order.fault, order.words))
            .collect()
    }

    /// What happens to that request of that sender.
    pub(super) fn judge(
        &mut self,
        line: &str,
        key: &str,
        limits: &mut Limits,
        now: Timestamp,
    ) -> Verdict {
        if self.is_down(now) {
            return Verdict::Refuse(gateway());
        }
        let fits = |order: &&mut Order| {
            order.left > 0 && order.words.split(' ').all(|word| line.contains(word))
        };
        let Some(order) = self.orders.iter_mut().find(fits) else {
            return Verdict::Work { delay: Duration::ZERO, cut: false };
        };
        if order.skip > 0 {
            order.skip -= 1;
            return Verdict::Work { delay: Duration::ZERO, cut: false };
        }
        order.left -= 1;
        verdict(order.fault, line, key, limits, now)
    }
}

fn verdict(fault: Fault, line: &str, key: &str, limits: &mut Limits, now: Timestamp) -> Verdict {
    match fault {
        Fault::BadGateway => Verdict::Refuse(gateway()),
        Fault::WebPage => Verdict::Refuse(web_page()),
        Fault::Unprocessable => Verdict::Refuse(Answer::refusal(422, "Validation Failed")),
        Fault::Status(status) => Verdict::Refuse(Answer::refusal(status, "Server Error")),
        Fault::Wait(status, seconds) => {
            let until = now + SignedDuration::from_secs(seconds);
            limits.stop(key, status, until, now, makes_content(line));
            Verdict::Refuse(told_to_wait(status, seconds))
        }
        Fault::UsedUp => {
            let reset = limits.use_up(key, now);
            limits.stop(key, 403, reset, now, false);
            Verdict::Refuse(used_up(key))
        }
        Fault::BadCredentials => Verdict::Refuse(Answer::refusal(401, "Bad credentials")),
        Fault::CutAfter => Verdict::Work { delay: Duration::ZERO, cut: true },
        Fault::DoneLate(seconds) => Verdict::Later(now + SignedDuration::from_secs(seconds)),
        Fault::CutBefore => Verdict::Cut,
        Fault::SilentAfter => Verdict::Work { delay: EVER, cut: true },
        Fault::SilentBefore => Verdict::Silence,
        Fault::Held => Verdict::Hold,
    }
}

fn web_page() -> Answer {
    let page = "<!doctype html><html><body>Please log in to the network</body></html>";
    let mut answer = Answer::empty(200).with("content-type", "text/html; charset=utf-8");
    answer.body = page.into();
    answer
}

fn gateway() -> Answer {
    let page = "<html><head><title>502 Bad Gateway</title></head></html>";
    let mut answer = Answer::empty(502).with("content-type", "text/html");
    answer.body = page.into();
    answer
}
