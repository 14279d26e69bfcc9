//! A GitHub with state, over real HTTP on loopback, at a clock that the test moves.
//!
//! ```text
//! let github = World::start(&clock).await;
//! github.hooks_to(&service_url, secret);                  // where events go
//! let web = github.repository("acme/web");                // made, with the App installed at acme
//! web.commit(waml);                                       // on main
//! let id = web.deploys("prod", "v1").await;               // created, and its event delivered
//! assert_eq!(github.told(id), ["queued", "in_progress", "success"]);
//! github.settled();                                       // every test ends with this
//! ```
//!
//! `api_url()` and `token()`, or `app()`, are what a client is configured with. Trouble is ordered
//! beforehand: `fails(2, "POST statuses", Fault::BadGateway)`, `down_for(ten_minutes)`,
//! `webhooks(Webhooks::Lost)`, `late(3)`. Whatever GitHub would punish is noted, and `settled`
//! fails on it. The world asks nobody for the time: tokens, limits, dates and deliveries go by the
//! clock that was handed in.

mod answer; // what is answered
mod app; // the App: its key, its installations, its tokens
mod call; // what was asked, and by whom
mod checks; // check runs
mod comments; // comments on pull requests
mod deliveries; // webhooks, and the list of their deliveries
mod deployments; // deployments and their statuses
mod faults; // trouble, ordered by the test
mod git; // git over https, with its tokens
mod jwt; // who signs as the App
mod limits; // what may be asked how often
mod oauth; // people who sign in with a browser
mod people; // people: their tokens, rights and teams
mod pulls; // pull requests
mod registration; // an App is made of a manifest
mod repositories; // repositories, commits, files, branches
mod routes; // which address is what
mod server; // HTTP
mod settled; // what may not be left at a test's end
mod state; // everything there is
mod statuses; // commit statuses
mod verbs; // what tests do with a repository
mod world; // what tests do with GitHub

pub(crate) use crate::harness::github::app::Credentials;
pub(crate) use crate::harness::github::deliveries::Webhooks;
pub(crate) use crate::harness::github::faults::Fault;
pub(crate) use crate::harness::github::oauth::{CLIENT_ID, CLIENT_SECRET};
pub(crate) use crate::harness::github::registration::HOOK_SECRET;
pub(crate) use crate::harness::github::verbs::{Ask, Repository};
pub(crate) use crate::harness::github::world::World;
