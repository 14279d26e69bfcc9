//! A Slack on loopback: what the Web API and incoming webhooks do with messages, at the clock that
//! the test moves. It refuses what Slack refuses, in Slack's words, and keeps everything that was sent.
//!
//! [`Slack::read`] reads a channel as its members see it; a test that ends with messages nobody
//! looked at fails in [`Slack::all_read`], and so does one during which Slack was pressed.

mod blocks; // what Slack says of blocks
mod faults; // trouble, ordered by the test
mod message; // one message, as it was sent and as it is read
mod methods; // the Web API
pub(crate) mod press; // people press buttons
mod server; // HTTP
mod state; // the workspace

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value as Json;
use the_deployer::support::clock::Clock;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub(crate) use crate::harness::slack::faults::Fault;
pub(crate) use crate::harness::slack::message::Read;
use crate::harness::slack::server::Hub;
use crate::harness::slack::state::{Channel, State, User};

/// The bot's token.
pub(crate) const TOKEN: &str = "xoxb-17653672481-19874698323-pdFZKVeTuE8sk7oOcBrzbqgy";
/// The end of the incoming webhook's address.
const HOOK: &str = "services/T061EG9R6/B061EG9R7/XXXXXXXXXXXXXXXXXXXXXXXX";

/// A workspace; it ends when this is dropped, which must be after [`Slack::all_read`].
pub(crate) struct Slack {
    hub: Hub,
    server: tokio::task::JoinHandle<()>,
    looked_at: bool,
}

impl Slack {
    /// Starts at the time of that clock.
    pub(crate) async fn start(clock: &Clock) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::new(clock.clone())));
        let hub = Hub { state, origin, changes: watch::Sender::new(0) };
        let server = tokio::spawn(server::serve(listener, hub.clone()));
        Self { hub, server, looked_at: false }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.hub.state.lock().unwrap()
    }

    /// Where its API is.
    pub(crate) fn api_url(&self) -> String {
        format!("{}/api", self.hub.origin)
    }

    /// The address of its incoming webhook, into that channel.
    pub(crate) fn hook_into(&self, channel: &str) -> String {
        let id = self.state().id_of(channel).unwrap();
        self.state().hook = Some(id);
        format!("{}/{HOOK}", self.hub.origin)
    }

    /// A public channel, and our bot in it; its id.
    pub(crate) fn channel(&self, name: &str) -> String {
        self.state().add(Channel::new(name))
    }

    /// Changes a channel, which is made if it is not there.
    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Channel)) {
        let mut state = self.state();
        let id = state.id_of(name).unwrap_or_else(|| state.add(Channel::new(name)));
        change(state.channels.get_mut(&id).unwrap());
    }

    /// Somebody with that e-mail address; their id.
    pub(crate) fn person(&self, email: &str) -> String {
        let mut state = self.state();
        let id = format!("U0{:07}", state.users.len() + 1);
        state.users.insert(id.clone(), User { email: email.to_owned(), disabled: false });
        id
    }

    /// Nobody may write to them any more.
    pub(crate) fn leaves(&self, user: &str) {
        self.state().users.get_mut(user).unwrap().disabled = true;
    }

    /// The bot loses that right.
    pub(crate) fn takes_scope(&self, scope: &str) {
        assert!(self.state().scopes.remove(scope), "it does not have {scope}");
    }

    /// The token is no longer taken, or is again.
    pub(crate) fn revokes(&self, revoked: bool) {
        self.state().revoked = revoked;
    }

    /// Answers 503 to everything, until the clock has moved so far.
    pub(crate) fn down_for(&self, time: Duration) {
        let mut state = self.state();
        state.faults.down_until = Some(state.now() + SignedDuration::try_from(time).unwrap());
    }

    /// The next so many requests to that method (`hook` for the webhook) meet the fault. What was
    /// ordered and does not come to be fails the test.
    pub(crate) fn fails(&self, times: u32, method: &str, fault: Fault) {
        self.state().faults.order(times, method, fault);
    }

    /// Ends when a fault that was ordered for that method has come to be.
    pub(crate) fn met(&self, method: &str) -> impl Future<Output = ()> + use<> {
        let (hub, method) = (self.hub.clone(), method.to_owned());
        async move {
            let met = || !hub.state.lock().unwrap().faults.is_ordered(&method);
            hub.changes.subscribe().wait_for(|_| met()).await.unwrap();
        }
    }

    /// A message is deleted by a person.
    pub(crate) fn deletes(&self, channel: &str, ts: &str) {
        let mut state = self.state();
        let id = state.id_of(channel).unwrap();
        state.messages.retain(|message| message.channel != id || message.ts != ts);
    }

    /// What is in a channel, or in a person's conversation with the bot, oldest first: replies too.
    pub(crate) fn read(&self, place: &str) -> Vec<Read> {
        self.state().read(place)
    }

    /// What Slack sends along when a button is pressed: the message with it, if there is one, and where the person is
    /// answered.
    pub(crate) fn pressed(&self, button: &Json) -> (Option<Json>, String) {
        let message = self.state().message_with(button);
        let ts = message.as_ref().and_then(|message| message["ts"].as_str()).unwrap_or("none");
        let url = format!("{}/actions/T061EG9R6/1/{ts}", self.hub.origin);
        (message, url)
    }

    /// The newest text of a message, once it was changed so often.
    pub(crate) async fn changed(&self, channel: &str, ts: &str, updates: usize) -> Read {
        let find = || self.read(channel).into_iter().find(|one| one.ts == ts);
        let there = || find().is_some_and(|one| one.updates >= updates);
        self.hub.changes.subscribe().wait_for(|_| there()).await.unwrap();
        find().unwrap()
    }

    /// The answers to people who pressed buttons, once there are so many.
    pub(crate) async fn answers(&self, count: usize) -> Vec<String> {
        let there = || self.state().answers.len() >= count;
        self.hub.changes.subscribe().wait_for(|_| there()).await.unwrap();
        self.state().answers.clone()
    }

    /// The methods that were called, in order.
    pub(crate) fn called(&self) -> Vec<String> {
        self.state().called.clone()
    }

    /// Every test ends with this: everything was read, every ordered trouble came, and nobody
    /// pressed.
    pub(crate) fn all_read(mut self) {
        self.looked_at = true;
        let state = self.state();
        assert_eq!(state.unread(), Vec::<String>::new(), "nobody looked at these");
        assert_eq!(state.faults.left(), Vec::<String>::new(), "trouble that never came");
        assert_eq!(state.pressed, Vec::<String>::new(), "Slack had asked to wait");
    }
}

impl Drop for Slack {
    fn drop(&mut self) {
        self.server.abort();
        assert!(
            self.looked_at || std::thread::panicking(),
            "a test with a Slack ends with all_read()"
        );
    }
}
