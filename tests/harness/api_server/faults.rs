//! The faults of the API server for tests.

use std::time::Duration;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Log,
    /// Which kinds there are.
    Discover,
}

/// How requests are answered in place of the truth.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// A status with an object of kind `Status`.
    Status(u16),
    /// A status with a text, as something in between answers.
    Text(u16, &'static str),
    /// A status with `Retry-After`.
    Busy(u16, u32),
    /// A status with an object of kind `Status`, after so long.
    Late(u16, Duration),
    /// No answer at all.
    Silent,
    /// The head of an answer, and nothing more.
    HeadOnly,
    /// The truth, a byte at a time with a pause before each.
    Slow(Duration),
    /// The truth, cut after so many bytes: the connection breaks.
    Cut(usize),
    /// The head of an answer, and its end.
    Empty,
    /// Something else.
    Body(String),
}

/// Which requests have the fault, and how often.
#[derive(Debug, Clone)]
pub(crate) struct FaultRule {
    /// Absent: any.
    pub(crate) verb: Option<Verb>,
    /// `pods`; absent: any.
    pub(crate) resource: Option<&'static str>,
    /// How many requests come before the first that has it.
    pub(crate) skip: usize,
    /// How many requests are left that have it.
    pub(crate) left: usize,
    pub(crate) fault: Fault,
}

impl FaultRule {
    /// For every request, until the server recovers.
    pub(crate) fn always(fault: Fault) -> Self {
        Self { verb: None, resource: None, skip: 0, left: usize::MAX, fault }
    }

    pub(crate) fn of(self, verb: Verb, resource: &'static str) -> Self {
        Self { verb: Some(verb), resource: Some(resource), ..self }
    }

    pub(crate) fn after(self, skip: usize) -> Self {
        Self { skip, ..self }
    }

    pub(crate) fn times(self, left: usize) -> Self {
        Self { left, ..self }
    }

    /// Takes one of those that are left.
    pub(super) fn strike(&mut self, verb: Verb, resource: &str) -> Option<Fault> {
        let is_meant = self.verb.is_none_or(|one| one == verb)
            && self.resource.is_none_or(|one| one == resource);
        if !is_meant || self.left == 0 {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.left -= 1;
        Some(self.fault.clone())
    }
}
