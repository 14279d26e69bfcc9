//! The Web API's methods, and the incoming webhook.

use serde_json::{Value as Json, json};

use crate::harness::slack::blocks;
use crate::harness::slack::message::Message;
use crate::harness::slack::state::State;

/// What Slack answers.
pub(super) enum Answer {
    /// HTTP 200 with this.
    Says(Json),
    /// 429 with `Retry-After`.
    Wait(u64),
}

type Refusal = (&'static str, Json);

/// Slack gives at most so many on a page here, so that tests meet the second one.
const PAGE: usize = 3;

/// What the method answers to these arguments; `json` says in which form they came.
pub(super) fn call(state: &mut State, method: &str, arguments: &Json, json: bool) -> Answer {
    let done = match method {
        "chat.postMessage" => match post_message(state, arguments) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(seconds)) => return Answer::Wait(seconds),
            Err(refusal) => Err(refusal),
        },
        "chat.update" => update(state, arguments),
        "conversations.open" => open(state, arguments),
        // These take forms only.
        _ if json => Err(("invalid_arguments", Json::Null)),
        "conversations.history" => history(state, arguments, false),
        "conversations.replies" => history(state, arguments, true),
        "conversations.list" => list(state, arguments),
        "users.lookupByEmail" => lookup(state, arguments),
        _ => Err(("unknown_method", Json::Null)),
    };
    Answer::Says(done.unwrap_or_else(|(error, more)| {
        let mut says = json!({"ok": false, "error": error});
        if let (Json::Object(says), Json::Object(more)) = (&mut says, more) {
            says.extend(more);
        }
        says
    }))
}

fn scope(state: &State, needed: &str) -> Result<(), Refusal> {
    let provided = state.scopes.iter().cloned().collect::<Vec<_>>().join(",");
    if state.scopes.contains(needed) {
        return Ok(());
    }
    Err(("missing_scope", json!({"needed": needed, "provided": provided})))
}

fn text<'j>(arguments: &'j Json, key: &str) -> &'j str {
    arguments[key].as_str().unwrap_or_default()
}

fn bare(error: &'static str) -> Refusal {
    (error, Json::Null)
}

/// The channel's id, if the bot may write there.
fn writable(state: &State, place: &str) -> Result<String, Refusal> {
    let id = state.id_of(place).ok_or(bare("channel_not_found"))?;
    if let Some(user) = state.users.get(place) {
        return if user.disabled { Err(bare("user_disabled")) } else { Ok(id) };
    }
    let channel = state.channels.get(&id).ok_or(bare("channel_not_found"))?;
    match (channel.private, channel.member, channel.archived) {
        (true, false, _) => Err(bare("channel_not_found")),
        (_, _, true) => Err(bare("is_archived")),
        (false, false, _) if !state.scopes.contains("chat:write.public") => {
            Err(bare("not_in_channel"))
        }
        _ => Ok(id),
    }
}

fn post_message(state: &mut State, arguments: &Json) -> Result<Result<Json, u64>, Refusal> {
    scope(state, "chat:write")?;
    let id = writable(state, text(arguments, "channel"))?;
    if let Err(seconds) = state.pace(&id) {
        return Ok(Err(seconds));
    }
    let ts = keep(state, &id, arguments)?;
    Ok(Ok(json!({"ok": true, "channel": id, "ts": ts, "message": {"type": "message", "ts": ts}})))
}

/// Changes a message of the bot: what is not given stays.
fn update(state: &mut State, arguments: &Json) -> Result<Json, Refusal> {
    scope(state, "chat:write")?;
    let (channel, ts) = (text(arguments, "channel"), text(arguments, "ts"));
    if !state.channels.contains_key(channel) {
        // It takes ids alone.
        return Err(bare("channel_not_found"));
    }
    let blocks = &arguments["blocks"];
    if blocks.as_array().is_some_and(|blocks| !blocks.is_empty()) {
        check(blocks)?;
    }
    let named = |one: &&mut Message| one.channel == channel && one.ts == ts;
    let message = state.messages.iter_mut().find(named).ok_or(bare("message_not_found"))?;
    text(arguments, "text").clone_into(&mut message.text);
    if !blocks.is_null() {
        let is_empty = blocks.as_array().is_some_and(Vec::is_empty);
        message.blocks = if is_empty { Json::Null } else { blocks.clone() };
    }
    message.updates += 1;
    Ok(json!({"ok": true, "channel": channel, "ts": ts, "text": message.text}))
}

/// An answer to who pressed a button of that message: a sentence for them alone, or a new text of the message.
pub(super) fn answer(state: &mut State, ts: &str, arguments: &Json) -> Result<(), &'static str> {
    if arguments["replace_original"] != true {
        assert_eq!(arguments["response_type"], "ephemeral");
        state.answers.push(text(arguments, "text").to_owned());
        return Ok(());
    }
    assert!(!text(arguments, "text").is_empty(), "blocks without a text for notifications");
    check(&arguments["blocks"]).map_err(|(error, _)| error)?;
    let message = state.messages.iter_mut().find(|message| message.ts == ts);
    let message = message.ok_or("message_not_found")?;
    message.blocks = arguments["blocks"].clone();
    text(arguments, "text").clone_into(&mut message.text);
    message.updates += 1;
    message.read = false;
    Ok(())
}

fn check(blocks: &Json) -> Result<(), Refusal> {
    blocks::check(blocks).map_err(|(error, messages)| {
        let messages: Vec<_> = messages.iter().map(|text| format!("[ERROR] {text}")).collect();
        (error, json!({"response_metadata": {"messages": messages}}))
    })
}

/// Keeps a message, if it is well formed.
fn keep(state: &mut State, channel: &str, arguments: &Json) -> Result<String, Refusal> {
    let (said, shown) = (text(arguments, "text"), &arguments["blocks"]);
    if said.is_empty() && shown.is_null() {
        return Err(bare("no_text"));
    }
    assert!(!said.is_empty(), "blocks without a text for notifications");
    assert!(said.chars().count() <= 40_000, "Slack would cut the text");
    if !shown.is_null() {
        check(shown)?;
    }
    let thread_ts = arguments["thread_ts"].as_str().map(str::to_owned);
    if let Some(thread) = &thread_ts {
        let root = |one: &&Message| one.channel == channel && one.ts == *thread;
        let root = state.messages.iter().find(root).ok_or(bare("thread_not_found"))?;
        assert!(root.thread_ts.is_none(), "a reply is no thread: use its root");
    }
    let metadata = arguments["metadata"].clone();
    let flat =
        |payload: &Json| payload.as_object().is_some_and(|map| map.values().all(Json::is_string));
    if !metadata.is_null()
        && (!metadata["event_type"].is_string() || !flat(&metadata["event_payload"]))
    {
        return Err(bare("invalid_metadata_format"));
    }
    let ts = state.ts();
    state.messages.push(Message {
        channel: channel.to_owned(),
        ts: ts.clone(),
        thread_ts,
        broadcast: arguments["reply_broadcast"] == true,
        text: said.to_owned(),
        blocks: shown.clone(),
        metadata,
        read: false,
        updates: 0,
    });
    Ok(ts)
}

/// What the incoming webhook answers: a status, its text, and how long to wait.
pub(super) fn hook(state: &mut State, arguments: &Json) -> (u16, String, Option<u64>) {
    let Some(channel) = state.hook.clone() else { return (404, "no_service".to_owned(), None) };
    if state.channels[&channel].archived {
        return (410, "channel_is_archived".to_owned(), None);
    }
    if let Err(seconds) = state.pace(&channel) {
        return (429, "rate_limited".to_owned(), Some(seconds));
    }
    match keep(state, &channel, arguments) {
        Ok(_) => (200, "ok".to_owned(), None),
        Err((error, _)) => (400, error.to_owned(), None),
    }
}

fn open(state: &State, arguments: &Json) -> Result<Json, Refusal> {
    scope(state, "im:write")?;
    let user = text(arguments, "users");
    let known = state.users.get(user).ok_or(bare("user_not_found"))?;
    if known.disabled {
        return Err(bare("user_disabled"));
    }
    Ok(json!({"ok": true, "channel": {"id": state.id_of(user)}}))
}

fn history(state: &State, arguments: &Json, replies: bool) -> Result<Json, Refusal> {
    let id = text(arguments, "channel");
    let kind = if id.starts_with('D') {
        "im:history"
    } else {
        let channel = state.channels.get(id).ok_or(bare("channel_not_found"))?;
        if !channel.member {
            let hidden = if channel.private { "channel_not_found" } else { "not_in_channel" };
            return Err(bare(hidden));
        }
        if channel.private { "groups:history" } else { "channels:history" }
    };
    scope(state, kind)?;
    let (oldest, root) = (text(arguments, "oldest"), text(arguments, "ts"));
    let seconds = |ts: &str| ts.split('.').next().unwrap().parse::<i64>().unwrap_or_default();
    let here = state.messages.iter().filter(|one| one.channel == id);
    let here = here.filter(|one| seconds(&one.ts) >= seconds(oldest));
    let wanted = here.filter(|one| {
        if replies {
            one.ts == root || one.thread_ts.as_deref() == Some(root)
        } else {
            one.thread_ts.is_none() || one.broadcast
        }
    });
    let metadata = text(arguments, "include_all_metadata") == "true";
    let mut messages: Vec<Json> = wanted.map(|one| one.json(metadata)).collect();
    if replies && !state.messages.iter().any(|one| one.channel == id && one.ts == root) {
        return Err(bare("thread_not_found"));
    }
    if !replies {
        messages.reverse();
    }
    Ok(page(messages, "messages", arguments))
}

fn list(state: &State, arguments: &Json) -> Result<Json, Refusal> {
    scope(state, "channels:read")?;
    scope(state, "groups:read")?;
    let seen =
        state.channels.iter().filter(|(_, one)| !one.archived && (!one.private || one.member));
    let one = |(id, one): (&String, &crate::harness::slack::state::Channel)| json!({"id": id, "name": one.name, "is_private": one.private, "is_member": one.member});
    Ok(page(seen.map(one).collect(), "channels", arguments))
}

fn lookup(state: &State, arguments: &Json) -> Result<Json, Refusal> {
    scope(state, "users:read.email")?;
    let email = text(arguments, "email");
    let found = state.users.iter().find(|(_, one)| one.email == email && !one.disabled);
    let (id, _) = found.ok_or(bare("users_not_found"))?;
    Ok(json!({"ok": true, "user": {"id": id}}))
}

fn page(all: Vec<Json>, key: &str, arguments: &Json) -> Json {
    let from: usize = text(arguments, "cursor").parse().unwrap_or_default();
    let next = from + PAGE;
    let cursor = if next < all.len() { next.to_string() } else { String::new() };
    let some: Vec<_> = all.into_iter().skip(from).take(PAGE).collect();
    json!({"ok": true, key: some, "response_metadata": {"next_cursor": cursor}})
}
