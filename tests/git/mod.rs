//! The manifest repository against the real git: in a folder, and over real HTTP.

mod follow;
mod http;
mod locks;
mod place;
mod property;
mod races;
mod removals;
mod writes;
