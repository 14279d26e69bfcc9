//! What the server asks of the program, answered by the inbox, the store and the world.

mod intake; // what comes in
mod records; // what happened
mod apps; // what is where
mod app; // one app
mod history; // an app's revisions
mod acts; // what people do
mod host; // the code host, and builds
mod locks; // what people stop
mod plans; // what a deployment would do
mod condition; // how it is
mod visitors; // who calls
mod audit; // who did what

use crate::app::health::Health;
use crate::app::intake::Intake;
use crate::app::outside::World;
use crate::controller::Controller;
use crate::controller::inbox::Inbox;
use crate::controller::previews::Previews;
use crate::server::ports::CodeHost;
use crate::store::Store;
use crate::telemetry;

/// The server's side of the program.
pub(crate) struct Backend {
    pub(crate) inbox: Inbox,
    pub(crate) controller: Controller<World>,
    pub(crate) previews: Previews<World>,
    pub(crate) store: Store,
    /// Which code host, as callers are told.
    pub(crate) code_host: CodeHost,
    pub(crate) world: World,
    pub(crate) health: Health,
    pub(crate) registry: telemetry::Metrics,
    pub(crate) intake: Intake,
}
