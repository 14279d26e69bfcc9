//! Checks blocks as Slack does: its documented limits, and the one that is not.

use serde_json::Value as Json;

/// Undocumented; see slackapi/bolt-js#2509.
const TOGETHER: usize = 13_200;

/// Slack's error, with what it says beside it.
pub(super) fn check(blocks: &Json) -> Result<(), (&'static str, Vec<String>)> {
    let Some(list) = blocks.as_array() else {
        return Err(("invalid_blocks_format", vec![]));
    };
    let mut wrong = Vec::new();
    if list.len() > 50 {
        wrong.push(format!("no more than 50 items allowed, {} given", list.len()));
    }
    let mut names: Vec<&str> = list.iter().filter_map(|one| one["block_id"].as_str()).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    if names.len() != all {
        wrong.push("block_id is not unique".to_owned());
    }
    for (n, block) in list.iter().enumerate() {
        one(block, &format!("/blocks/{n}"), &mut wrong);
    }
    if !wrong.is_empty() {
        return Err(("invalid_blocks", wrong));
    }
    if blocks.to_string().chars().count() > TOGETHER {
        return Err(("msg_blocks_too_long", vec![]));
    }
    Ok(())
}

fn one(block: &Json, at: &str, wrong: &mut Vec<String>) {
    if block["block_id"].as_str().is_some_and(|name| name.chars().count() > 255) {
        wrong.push(format!("{at}/block_id: must be at most 255 characters"));
    }
    match block["type"].as_str().unwrap_or_default() {
        "header" => {
            keys(block, &["type", "text", "block_id"], at, wrong);
            text(&block["text"], &["plain_text"], 150, &format!("{at}/text"), wrong);
        }
        "section" => {
            keys(block, &["type", "text", "fields", "block_id", "accessory"], at, wrong);
            if block["text"].is_null() && block["fields"].is_null() {
                wrong.push(format!("{at}: text or fields must be given"));
            }
            if !block["text"].is_null() {
                text(&block["text"], &BOTH, 3000, &format!("{at}/text"), wrong);
            }
            if !block["fields"].is_null() {
                for (n, field) in items(block, "fields", 10, at, wrong).enumerate() {
                    text(field, &BOTH, 2000, &format!("{at}/fields/{n}"), wrong);
                }
            }
        }
        "context" => {
            keys(block, &["type", "elements", "block_id"], at, wrong);
            for (n, element) in items(block, "elements", 10, at, wrong).enumerate() {
                text(element, &BOTH, 3000, &format!("{at}/elements/{n}"), wrong);
            }
        }
        "actions" => {
            keys(block, &["type", "elements", "block_id"], at, wrong);
            for (n, element) in items(block, "elements", 25, at, wrong).enumerate() {
                button(element, &format!("{at}/elements/{n}"), wrong);
            }
        }
        "divider" => keys(block, &["type", "block_id"], at, wrong),
        other => wrong.push(format!("{at}: unsupported type: {other}")),
    }
}

const BOTH: [&str; 2] = ["mrkdwn", "plain_text"];

fn button(element: &Json, at: &str, wrong: &mut Vec<String>) {
    keys(element, &["type", "text", "url", "action_id", "value", "style", "confirm"], at, wrong);
    if element["type"] != "button" {
        wrong.push(format!("{at}: unsupported element"));
    }
    text(&element["text"], &["plain_text"], 75, &format!("{at}/text"), wrong);
    if !element["confirm"].is_null() {
        let confirm = &element["confirm"];
        keys(confirm, &["title", "text", "confirm", "deny", "style"], at, wrong);
        for (key, most) in [("title", 100), ("text", 300), ("confirm", 30), ("deny", 30)] {
            text(&confirm[key], &["plain_text"], most, &format!("{at}/confirm/{key}"), wrong);
        }
    }
    let value = element["value"].as_str().unwrap_or_default();
    if value.chars().count() > 2000 {
        wrong.push(format!("{at}/value: must be at most 2000 characters"));
    }
    // A button that acts leads nowhere.
    if element["url"].is_null() && !value.is_empty() {
        return;
    }
    let url = element["url"].as_str().unwrap_or_default();
    if url.chars().count() > 3000 || reqwest::Url::parse(url).is_err() {
        wrong.push(format!("{at}/url: invalid url: {url}"));
    }
    if element["action_id"].as_str().is_some_and(|id| id.chars().count() > 255) {
        wrong.push(format!("{at}/action_id: must be at most 255 characters"));
    }
}

fn items<'j>(
    block: &'j Json,
    key: &str,
    most: usize,
    at: &str,
    wrong: &mut Vec<String>,
) -> impl Iterator<Item = &'j Json> + use<'j> {
    let list = block[key].as_array().map(Vec::as_slice).unwrap_or_default();
    if list.is_empty() || list.len() > most {
        wrong.push(format!("{at}/{key}: must have 1 to {most} items, has {}", list.len()));
    }
    list.iter()
}

fn text(text: &Json, kinds: &[&str], most: usize, at: &str, wrong: &mut Vec<String>) {
    keys(text, &["type", "text", "emoji", "verbatim"], at, wrong);
    let kind = text["type"].as_str().unwrap_or_default();
    if !kinds.contains(&kind) {
        wrong.push(format!("{at}: must be one of {kinds:?}"));
    }
    if (kind == "mrkdwn" && !text["emoji"].is_null())
        || (kind == "plain_text" && !text["verbatim"].is_null())
    {
        wrong.push(format!("{at}: invalid additional property"));
    }
    let length = text["text"].as_str().unwrap_or_default().encode_utf16().count();
    if length < 1 || length > most {
        wrong.push(format!("{at}/text: must be 1 to {most} characters, is {length}"));
    }
}

fn keys(object: &Json, known: &[&str], at: &str, wrong: &mut Vec<String>) {
    let strangers = object.as_object().into_iter().flat_map(|map| map.keys());
    let strangers = strangers.filter(|key| !known.contains(&key.as_str()));
    wrong.extend(strangers.map(|key| format!("{at}: invalid additional property: {key}")));
}
