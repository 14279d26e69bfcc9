//! The server with a fake backend that has state.

mod acting; // POST /api/v1/apps/…
mod pages; // / and /deployments/{id}
mod placed; // GET /api/v1/apps
mod rolling; // rollbacks and holds
mod reading; // probes and the API
mod mutations;
mod webhooks;
mod wire; // over real sockets
mod world; // the fake backend, requests and answers // POST /webhooks/github
