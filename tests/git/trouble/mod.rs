//! Tests faults of a git server: every case over http and over ssh, and with each way to push. After each the history
//! tells that no deployment is lost and none is doubled.

mod branches; // missing, renamed, empty, rewritten
mod doors; // keys, tokens, and what is not there
mod edits; // signed commits, and what somebody edits meanwhile
mod lines; // slow, cut, and answers that are lost
mod place; // the ways to a server
mod races; // others are faster
mod refusals; // the server says no
mod together; // the same, when many go in one push
