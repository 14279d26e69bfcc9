//! The client of Slack, with a bot's token or an incoming webhook.
//!
//! Nothing is retried here: each call is made once, takes no longer than its timeout, and ends with an answer or with a
//! [`SlackError`] that says if the message may have arrived. `address` has channels and people, `answer` reads Slack's
//! answers, `find_sent` searches for a message that may have arrived, and `people` finds users.

pub mod address; // channels and people
mod answer; // Slack's answers, pure
pub mod error; // the errors, with a way out
mod find_sent; // the search for a message that may have arrived
mod rate_limit; // the rate limits, pure
pub mod people; // the Slack user of a person

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::CONTENT_TYPE;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value as Json, json};

use crate::notify::message::SlackMessage;
use crate::notify::message::pressed::MessageContent;
use crate::notify::slack::address::SlackAddress;
use crate::notify::slack::answer::SlackAnswer;
use crate::notify::slack::error::SlackError;
use crate::notify::slack::rate_limit::{ChannelLimits, MethodBlocks};
use crate::support::cause::innermost_cause;
use crate::support::http::body::read_bounded;
use crate::support::http::retry_after::retry_after_seconds;
use crate::support::sync::lock;

/// Slack's own API.
pub const SLACK_API: &str = "https://slack.com/api";

/// Where Slack takes answers to those who press buttons.
const SLACK_ANSWERS: &str = "https://hooks.slack.com";
const POST: &str = "chat.postMessage";
const UPDATE: &str = "chat.update";
const FORM: &str = "application/x-www-form-urlencoded";
/// The event of a message's metadata; Slack wants a name.
const EVENT: &str = "deployment_told";
/// A page of messages with their blocks.
const LARGEST_ANSWER: usize = 8 * 1024 * 1024;
/// Names of channels whose ids are remembered.
const MAX_IDS: usize = 10_000;

/// The settings of the client.
#[derive(Debug, Clone)]
pub struct SlackClientSettings {
    /// The way to Slack.
    pub door: SlackTransport,
    /// The longest time of a call.
    pub timeout: Duration,
}

/// The way in which messages reach Slack.
#[derive(Debug, Clone)]
pub enum SlackTransport {
    /// With a bot's token.
    Bot {
        /// The API's address.
        api_url: String,
        /// The bot's token.
        token: SecretString,
    },
    /// Through an incoming webhook, into its one channel. Its address is the secret.
    Hook(SecretString),
}

/// The client of Slack. Clones share the known channels and the rate limits.
#[derive(Debug, Clone)]
pub struct SlackClient(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: SlackClientSettings,
    client: reqwest::Client,
    channels: Mutex<ChannelLimits>,
    methods: Mutex<MethodBlocks>,
    /// The ids of channels by name, from earlier answers.
    ids: Mutex<HashMap<String, String>>,
}

/// A message to post, with its destination.
#[derive(Debug, Clone, Copy)]
pub struct Post<'a> {
    /// The destination; a webhook has its own.
    pub to: &'a SlackAddress,
    /// The message.
    pub message: &'a SlackMessage,
    /// The form of the message.
    pub form: MessageForm,
    /// The message that it is a reply to.
    pub thread: Option<&'a str>,
    /// True if the channel shows a reply, too.
    pub broadcast: bool,
}

/// The form of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageForm {
    /// Blocks.
    Blocks,
    /// Text alone.
    Plain,
}

/// The new text of a message that Slack has.
#[derive(Debug, Clone, Copy)]
pub struct MessageUpdate<'a> {
    /// The message.
    pub posted: &'a Posted,
    /// Its new text.
    pub message: &'a SlackMessage,
    /// The form of the message.
    pub form: MessageForm,
}

/// A message that Slack has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    /// The channel's id.
    pub channel: String,
    /// Slack's name of the message.
    pub ts: String,
}

impl SlackClient {
    /// Builds the client.
    pub fn new(settings: SlackClientSettings, client: reqwest::Client) -> Self {
        let (channels, methods, ids) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self(Arc::new(Inner { settings, client, channels, methods, ids }))
    }

    /// Returns true for a bot, which may choose the channel, reply, search, and write to people.
    pub fn is_bot(&self) -> bool {
        match self.0.settings.door {
            SlackTransport::Bot { .. } => true,
            SlackTransport::Hook(_) => false,
        }
    }

    /// Posts a message, once; where it is now, if Slack says.
    ///
    /// # Errors
    /// [`SlackError`]; after [`SlackError::NoAnswer`] it may have arrived.
    pub async fn post(&self, post: Post<'_>, now: Timestamp) -> Result<Option<Posted>, SlackError> {
        match &self.0.settings.door {
            SlackTransport::Bot { .. } => self.post_as_bot(post, now).await,
            SlackTransport::Hook(url) => self.post_through(url, post, now).await.map(|()| None),
        }
    }

    async fn post_as_bot(
        &self,
        post: Post<'_>,
        now: Timestamp,
    ) -> Result<Option<Posted>, SlackError> {
        let receiver = post.to.as_str();
        self.take_turn(receiver, now)?;
        let reply = self.call(POST, receiver, &message(post), now).await;
        let reply = reply.inspect_err(|error| self.log_refusal(receiver, error))?;
        for warning in answer::warnings(&reply) {
            tracing::warn!(
                channel = receiver,
                warning,
                "Slack accepted the message with a warning"
            );
        }
        let text = |key| reply.get(key).and_then(Json::as_str).map(str::to_owned);
        let posted = text("channel").zip(text("ts")).map(|(channel, ts)| Posted { channel, ts });
        if let Some(posted) = &posted {
            self.remember_channel(receiver, &posted.channel);
        }
        Ok(posted)
    }

    /// Changes a message of the bot, once. A second time changes nothing.
    ///
    /// # Errors
    /// [`SlackError`]; [`SlackError::Thread`] where the message is gone, and [`SlackError::Blind`] for an incoming
    /// webhook.
    pub async fn update(
        &self,
        update: MessageUpdate<'_>,
        now: Timestamp,
    ) -> Result<(), SlackError> {
        let MessageUpdate { posted: Posted { channel, ts }, message, form } = update;
        self.take_turn(channel, now)?;
        let mut arguments = text_of(message, form);
        if form == MessageForm::Plain {
            extend(&mut arguments, json!({"blocks": []}));
        }
        extend(&mut arguments, identity(channel, message));
        extend(&mut arguments, json!({"ts": ts}));
        let reply = self.call(UPDATE, channel, &arguments, now).await;
        reply.inspect_err(|error| self.log_refusal(channel, error)).map(|_| ())
    }

    /// Answers a person who pressed a button; nobody else sees it. Only Slack gets it: another address is refused.
    ///
    /// # Errors
    /// [`SlackError`]; after [`SlackError::NoAnswer`] it may have arrived.
    pub async fn answer(&self, url: &str, text: &str) -> Result<(), SlackError> {
        let content =
            json!({"response_type": "ephemeral", "replace_original": false, "text": text});
        self.respond(url, &content).await
    }

    /// Replaces the message in which a person has pressed a button. Only Slack gets it, as an answer.
    ///
    /// # Errors
    /// [`SlackError`]; after [`SlackError::NoAnswer`] it may be replaced.
    pub async fn replace(&self, url: &str, content: &MessageContent) -> Result<(), SlackError> {
        let MessageContent { text, blocks } = content;
        let content = json!({"replace_original": true, "text": text, "blocks": blocks});
        self.respond(url, &content).await
    }

    /// Sends an answer to where Slack takes it.
    async fn respond(&self, url: &str, content: &Json) -> Result<(), SlackError> {
        if !self.is_own_address(url) {
            let problem = "the address to answer to is not one of Slack's".to_owned();
            return Err(SlackError::Unreachable(problem));
        }
        let answer = self.ask(self.0.client.post(url).json(content)).await?;
        answer::of_hook(&answer)
    }

    /// Checks that an address is where Slack takes answers: its own host, or the configured one.
    fn is_own_address(&self, url: &str) -> bool {
        let own = match &self.0.settings.door {
            SlackTransport::Bot { api_url, .. } if api_url == SLACK_API => SLACK_ANSWERS,
            SlackTransport::Bot { api_url, .. } => api_url,
            SlackTransport::Hook(url) => url.expose_secret(),
        };
        let origin = |url: &str| {
            let url = reqwest::Url::parse(url).ok()?;
            (url.username().is_empty() && url.password().is_none()).then(|| url.origin())
        };
        origin(own).is_some_and(|own| own.is_tuple() && origin(url) == Some(own))
    }

    async fn post_through(
        &self,
        url: &SecretString,
        post: Post<'_>,
        now: Timestamp,
    ) -> Result<(), SlackError> {
        let receiver = "the incoming webhook";
        self.take_turn(receiver, now)?;
        let request = self.0.client.post(url.expose_secret()).json(&content(post));
        let answer = self.ask(request).await?;
        let result =
            answer::of_hook(&answer).inspect_err(|error| self.log_refusal(receiver, error));
        self.apply_wait(result, receiver, now)
    }

    /// Calls a method of the Web API, once.
    async fn call(
        &self,
        method: &'static str,
        receiver: &str,
        arguments: &Json,
        now: Timestamp,
    ) -> Result<Json, SlackError> {
        let SlackTransport::Bot { api_url, token } = &self.0.settings.door else {
            return Err(SlackError::Blind("an incoming webhook can only be written to".to_owned()));
        };
        if let Some(after) = lock(&self.0.methods).left(method, now) {
            return Err(SlackError::Wait { what: method.to_owned(), after });
        }
        let url = format!("{api_url}/{method}");
        // Methods that read take no JSON.
        let request = match method {
            POST | UPDATE | "conversations.open" => self.0.client.post(url).json(arguments),
            _ => self.0.client.post(url).header(CONTENT_TYPE, FORM).body(as_form(arguments)),
        };
        let answer = self.ask(request.bearer_auth(token.expose_secret())).await?;
        let result = answer::of_method(method, receiver, &answer);
        if let Err(SlackError::Wait { after, .. }) = &result {
            lock(&self.0.methods).block(method, method == POST, now, *after);
        }
        self.apply_wait(result, receiver, now)
    }

    /// Errors name their innermost cause only: the outer ones repeat the address, which for a
    /// webhook is a secret.
    async fn ask(&self, request: reqwest::RequestBuilder) -> Result<SlackAnswer, SlackError> {
        let exchange = async { read(request.send().await?).await };
        match tokio::time::timeout(self.0.settings.timeout, exchange).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) if error.is_connect() || error.is_builder() => {
                Err(SlackError::Unreachable(innermost_cause(&error).to_string()))
            }
            Ok(Err(error)) => Err(SlackError::NoAnswer(innermost_cause(&error).to_string())),
            Err(_) => {
                let longest = self.0.settings.timeout;
                Err(SlackError::NoAnswer(format!("no answer within {longest:?}")))
            }
        }
    }

    /// Blocks the channel for the wait that Slack asks for.
    fn apply_wait<T>(
        &self,
        result: Result<T, SlackError>,
        receiver: &str,
        now: Timestamp,
    ) -> Result<T, SlackError> {
        if let Err(SlackError::Wait { after, .. }) = &result {
            lock(&self.0.channels).block(receiver, now, *after);
        }
        result
    }

    fn take_turn(&self, receiver: &str, now: Timestamp) -> Result<(), SlackError> {
        let turn = lock(&self.0.channels).try_acquire(receiver, now);
        turn.map_err(|after| SlackError::Wait { what: receiver.to_owned(), after })
    }

    /// Gives the turn back if the message surely was not taken.
    fn log_refusal(&self, receiver: &str, error: &SlackError) {
        if !matches!(error, SlackError::NoAnswer(_) | SlackError::Wait { .. }) {
            lock(&self.0.channels).release(receiver);
        }
    }

    fn remember_channel(&self, name: &str, id: &str) {
        let mut ids = lock(&self.0.ids);
        if ids.len() >= MAX_IDS {
            ids.clear();
        }
        ids.insert(name.to_owned(), id.to_owned());
    }

    fn channel_id(&self, name: &str) -> Option<String> {
        lock(&self.0.ids).get(name).cloned()
    }
}

/// Returns the arguments of `chat.postMessage`.
fn message(post: Post<'_>) -> Json {
    let mut message = content(post);
    extend(&mut message, identity(post.to.as_str(), post.message));
    if let Some(thread) = post.thread {
        extend(&mut message, json!({"thread_ts": thread, "reply_broadcast": post.broadcast}));
    }
    message
}

/// Returns the arguments that a new message and a changed one have in common, beside their text.
fn identity(channel: &str, message: &SlackMessage) -> Json {
    json!({
        "channel": channel,
        "parse": "none",
        "link_names": false,
        "metadata": {
            "event_type": EVENT,
            "event_payload": {"mark": message.stamp.mark()},
        },
    })
}

fn text_of(message: &SlackMessage, form: MessageForm) -> Json {
    let SlackMessage { text, blocks, plain, .. } = message;
    match form {
        MessageForm::Blocks => json!({"text": text, "blocks": blocks}),
        MessageForm::Plain => json!({"text": plain}),
    }
}

fn content(post: Post<'_>) -> Json {
    let mut content = text_of(post.message, post.form);
    extend(&mut content, json!({"unfurl_links": false, "unfurl_media": false}));
    content
}

fn extend(object: &mut Json, addition: Json) {
    if let (Json::Object(object), Json::Object(addition)) = (object, addition) {
        object.extend(addition);
    }
}

/// Writes arguments as a browser's form sends them; a body, because addresses end in logs.
fn as_form(arguments: &Json) -> String {
    let pairs = arguments.as_object().into_iter().flatten().map(|(key, value)| {
        (key.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    });
    let url = reqwest::Url::parse_with_params("http://form.invalid", pairs);
    url.ok().and_then(|url| url.query().map(str::to_owned)).unwrap_or_default()
}

async fn read(response: reqwest::Response) -> reqwest::Result<SlackAnswer> {
    let status = response.status().as_u16();
    let retry_after = retry_after_seconds(response.headers());
    let body = read_bounded(reqwest::Body::from(response), LARGEST_ANSWER).await?.bytes;
    Ok(SlackAnswer { status, retry_after, body })
}
