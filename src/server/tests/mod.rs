//! The server with a fake backend that has state.

mod admission; // who may come, and what they may
mod visitors; // the fake forge's people, and what is remembered
mod repeated; // Idempotency-Key
mod log; // what is logged, captured
mod acting; // POST /api/v1/apps/…
mod pages; // / and /deployments/{id}
mod placed; // GET /api/v1/apps
mod rolling; // rollbacks and holds
mod reading; // probes and the API
mod mutations;
mod webhooks;
mod wire; // over real sockets
mod world; // the fake backend, requests and answers // POST /webhooks/github
