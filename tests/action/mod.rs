//! `deploy/action/`: the composite action, run as a runner runs it, against a GitHub with state.
//!
//! Bash, curl and jq are the real ones. `sleep` and `date` are the test's: they go by its clock, so
//! that an hour of waiting takes no time, and what happens meanwhile is in the test's hands.

mod canary_example; // the example of a canary
mod creating;
mod job; // a runner, as far as the action sees it
mod rollouts; // a rollout as one deployment
mod shape;
mod waiting;
