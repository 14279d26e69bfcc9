//! The GitHub of the tests, and the real client against it.

mod app; // the real client as an App: installations and tokens
mod visitors; // who comes with a token of their own
mod calls; // what it asks and tells
mod client; // a client, as short as a test wants it
mod trouble; // what is in an App's way
mod world; // what it answers, and what it refuses
