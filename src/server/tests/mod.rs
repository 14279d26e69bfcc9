//! The server with a fake backend that has state.

mod admission; // who may come, and what they may
mod strangers; // tokens that nobody knows, and names that are not ours
mod narrow; // tokens that are for some
mod visitors; // the fake forge's people, and what is remembered
mod repeated; // Idempotency-Key
mod acting; // POST /api/v1/apps/…
mod contract; // the OpenAPI document, and that answers are as it says
mod deployments; // a deployment's log, filters
mod pages; // / and /deployments/{id}
mod placed; // GET /api/v1/apps
mod hosts; // the code host, and builds
mod rolling; // rollbacks and holds
mod reading; // probes and the API
mod locks; // /api/v1/locks, cancel, plan
mod records; // what the backend has of deployments and apps
mod schema; // a validator for answers
mod streams; // a deployment as it goes on
mod mutations;
mod webhooks; // POST /webhooks/github
mod wire; // over real sockets
mod world; // the fake backend, requests and answers
