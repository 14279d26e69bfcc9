//! Trouble, ordered by the test.

use jiff::Timestamp;

/// What is answered instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// 503, and nothing was done.
    Unavailable,
    /// 502 with a page of HTML, and nothing was done.
    BadGateway,
    /// 502 with a page of HTML, and it was done nevertheless.
    BadGatewayAfter,
    /// 429 with `Retry-After` in seconds, for that channel.
    Wait(u64),
    /// Slack's word for an error, and nothing was done.
    Says(&'static str),
    /// Slack's word for an error, and it was done nevertheless.
    SaysAfter(&'static str),
    /// It is done, and the connection is cut before the answer.
    CutAfter,
    /// The connection is cut, and nothing was done.
    CutBefore,
    /// It is done, and no answer comes, ever.
    SilentAfter,
    /// Nothing is done, and no answer comes, ever.
    SilentBefore,
}

#[derive(Default)]
pub(super) struct Faults {
    orders: Vec<(u32, String, Fault)>,
    pub(super) down_until: Option<Timestamp>,
}

impl Faults {
    pub(super) fn order(&mut self, times: u32, method: &str, fault: Fault) {
        self.orders.push((times, method.to_owned(), fault));
    }

    pub(super) fn is_ordered(&self, method: &str) -> bool {
        self.orders.iter().any(|(left, of, _)| *left > 0 && of == method)
    }

    pub(super) fn left(&self) -> Vec<String> {
        let left = self.orders.iter().filter(|(left, ..)| *left > 0);
        left.map(|(left, method, fault)| format!("{left} × {fault:?} on {method}")).collect()
    }

    /// What happens to that request.
    pub(super) fn judge(&mut self, method: &str, now: Timestamp) -> Option<Fault> {
        if self.down_until.is_some_and(|until| now < until) {
            return Some(Fault::Unavailable);
        }
        let order = self.orders.iter_mut().find(|(left, of, _)| *left > 0 && of == method)?;
        order.0 -= 1;
        Some(order.2.clone())
    }
}
