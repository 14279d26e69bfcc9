//! The manifest repository against the real git: in a folder, and over real HTTP.

mod follow;
mod http;
mod index;
mod locks;
pub(crate) mod place;
mod property;
mod races;
mod removals;
mod ssh;
mod together;
mod tokens;
mod trouble;
mod writes;
