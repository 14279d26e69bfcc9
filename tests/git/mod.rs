//! The manifest repository against the real git: in a folder, and over real HTTP.

mod changes; // what a commit changed
mod follow;
mod half_made; // left by a process that was killed
mod hand_edits;
mod gone;
mod http;
mod index;
mod locks;
pub(crate) mod place;
mod property;
mod races;
mod rollbacks; // latest points at a former revision
mod removals;
mod revisions; // an app's history for people
mod ssh;
mod signing;
mod stalls; // replicas that stand still at any moment
mod together;
mod tokens;
mod trouble;
mod writes;
