//! Tests the answers of the server: the whole program without its loops, over real sockets, one request after another.

mod admission; // callers, and what they may do
mod insights; // how long deployments take, and how they end
mod narrow; // tokens for some apps or targets
mod strangers; // tokens that nobody knows
mod webhooks; // POST /webhooks/github
mod world; // requests, answers, and a program to ask
mod shop; // the program with an app deployed
mod acting; // POST /api/v1/apps/…/remove
mod rolling; // rollbacks and holds
mod rollouts; // one release over many targets
mod locks; // locks, cancellations, plans
mod secrets; // POST /api/v1/apps/…/secrets
mod repeated; // Idempotency-Key
mod contract; // the OpenAPI document, and that answers are as it says
mod full; // the program when there is everything that it can show
mod schema; // as much of JSON Schema as the document has
mod mutations; // events with anything anywhere in them
mod pages; // the grid, deployments, what a browser may do
mod page_views; // apps, rollouts, insights, locks, the audit log, the service
mod page_streams; // open pages as things go on
mod sign_in; // sessions and forms, over bare HTTP
mod page_deploys; // builds that people deploy at GitHub from a page
mod reading; // probes, lists, and routes that there are not
mod deployments; // a deployment's log, filters
mod apps; // GET /api/v1/apps
mod hosts; // the code host, and builds
mod streams; // a deployment as it goes on
mod wire; // over sockets: half a request, and stopping
