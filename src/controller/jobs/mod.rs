//! What is done with a claimed deployment. Each job recomputes everything from the deployment's
//! id; nothing is remembered from an earlier attempt.

pub(super) mod deploy;
pub(super) mod rollback; // a former revision made live again
