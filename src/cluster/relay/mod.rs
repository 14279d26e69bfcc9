//! The way of a cluster's changes from an agent inside it to the service: what the agent reports, and what the service
//! takes of it. Pure on both sides.
//!
//! ```text
//! agent:    ClusterEvent ─▶ sender (present objects, what the service has of them) ─▶ ClusterReport ─┐
//!                             ▲ verdict ◀──────────────────────────────────────────────────────────┐ │
//! service:  ClusterEvent ◀─ receiver (session, sequence, silence) ◀────────────────────────────────┴─┘
//! ```
//!
//! The agent reports states, not a log of events: of an object that changed ten times during an outage the last state
//! alone. So its memory is that of the present objects, however long the service is away. The rules do not need the
//! states between: a list skips them, too.
//!
//! A session is one telling of the whole: it begins with a list of each kind, and its reports are numbered. The service
//! takes each number once. It answers that it wants a new session when it does not know the present one, because it
//! has been started anew or another replica has taken over; so what was acknowledged by a process that died is told
//! again, and as a list, of which only the differences count.

pub mod report; // what is reported, and the answer
pub mod wanted_log; // logs that callers read through the agent
pub mod failing; // the containers whose logs say why a workload does not run
pub mod sender; // the agent's side
pub mod receiver; // the service's side
