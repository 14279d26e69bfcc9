//! GitHub, and GitHub Enterprise Server: the client of the API, its credentials, and the webhook.
//!
//! ```text
//! client ─▶ auth ─▶ wire ─▶ answer, limits ─▶ request ─▶ permission
//! ```
//!
//! In reading order: [`client`] has the calls, [`auth`] the token or App that they are sent with, `request` one request
//! as data, `wire` sends it, `answer` reads errors, and `limits` keeps the rate limits. [`webhook`] reads events; it
//! shares nothing with the client but types.

pub mod address; // addresses for people and for git, pure
pub mod app_manifest; // the registration of the App from a manifest
mod answer; // answers that are no success, pure
pub mod auth; // the credentials of the service
pub mod client; // the calls of the API
mod limits; // the rate limits of each account
pub mod permission; // permissions needed and granted, pure
mod request; // a request and its pass, as data
pub mod webhook; // events, pure
mod wire; // one request, its redirects and its answer
