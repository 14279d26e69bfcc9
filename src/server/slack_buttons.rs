//! What the requests of Slack's buttons need: the secret, the client for answers, and who is who.

use std::collections::BTreeMap;
use std::sync::Arc;

use secrecy::SecretString;
use tokio::sync::Semaphore;

use crate::notify::slack::SlackClient;
use crate::notify::slack::people::{PeopleSettings, PersonName};

/// The number of acts at once: each takes a few calls to GitHub and to a repository.
const ACTS_AT_ONCE: usize = 16;
/// What the requests of Slack's buttons need.
pub struct SlackButtons {
    pub(super) secret: SecretString,
    pub(super) client: SlackClient,
    /// The GitHub logins by Slack's user ids.
    pub(super) logins: BTreeMap<String, String>,
    /// The room for acts at work.
    pub(super) acts: Arc<Semaphore>,
}

impl SlackButtons {
    /// Makes them of the app's signing secret, the client for answers, and the configured people. Only a person with a
    /// user id can act: an e-mail address is what somebody wrote into a profile.
    pub fn new(secret: SecretString, client: SlackClient, people: &PeopleSettings) -> Self {
        let user = |person: &PersonName| match person {
            PersonName::User(user) => Some(user.as_str().to_owned()),
            PersonName::Email(_) => None,
        };
        let people = people.people.iter();
        let logins = people.filter_map(|(login, person)| Some((user(person)?, login.clone())));
        let acts = Arc::new(Semaphore::new(ACTS_AT_ONCE));
        Self { secret, client, logins: logins.collect(), acts }
    }
}
