//! Slack's answers. Pure.
//!
//! The Web API says its errors with HTTP 200 and `ok: false`
//! (<https://docs.slack.dev/reference/methods/chat.postMessage#errors>); incoming webhooks with a
//! status and one word of plain text.

use std::time::Duration;

use serde_json::Value as Json;

use crate::notify::slack::error::SlackError;

/// One answer of Slack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SlackAnswer {
    pub(super) status: u16,
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Vec<u8>,
}

/// The wait where Slack does not name one.
const USUAL_WAIT: Duration = Duration::from_secs(30);
/// The limit of a word of Slack's: a longer text is another program's page.
const LONGEST_WORD: usize = 100;

/// Returns the object of a method's answer.
pub(super) fn of_method(
    method: &'static str,
    receiver: &str,
    answer: &SlackAnswer,
) -> Result<Json, SlackError> {
    let body: Option<Json> = serde_json::from_slice(&answer.body).ok();
    if answer.status == 429 {
        return Err(wait(receiver, answer));
    }
    let Some(body) = body.filter(Json::is_object) else {
        return Err(without_a_word(method, answer));
    };
    match (body.get("ok").and_then(Json::as_bool), body.get("error").and_then(Json::as_str)) {
        (Some(true), _) => Ok(body),
        (_, Some(code)) => Err(refusal(method, receiver, code, &body, answer)),
        (_, None) => Err(without_a_word(method, answer)),
    }
}

/// Checks that an incoming webhook took the message.
pub(super) fn of_hook(answer: &SlackAnswer) -> Result<(), SlackError> {
    let method = "the incoming webhook";
    let word = String::from_utf8_lossy(&answer.body).trim().to_owned();
    let is_a_word = word.len() <= LONGEST_WORD
        && word.chars().all(|c| c.is_ascii_lowercase() || matches!(c, '_' | '-'));
    match answer.status {
        200..=299 if word == "ok" => Ok(()),
        429 => Err(wait("the incoming webhook", answer)),
        400..=499 if is_a_word && !word.is_empty() => {
            Err(refusal(method, method, &word, &Json::Null, answer))
        }
        _ => Err(without_a_word(method, answer)),
    }
}

fn wait(receiver: &str, answer: &SlackAnswer) -> SlackError {
    let after = answer.retry_after.unwrap_or(USUAL_WAIT);
    SlackError::Wait { what: receiver.to_owned(), after: after.max(Duration::from_secs(1)) }
}

/// Builds the error of an answer that is none of Slack's: a gateway's page, or nothing.
fn without_a_word(method: &'static str, answer: &SlackAnswer) -> SlackError {
    let status = format!("HTTP {}", answer.status);
    match answer.status {
        // It says that it did nothing; other faults of a gateway may come after the message went in.
        503 => SlackError::Unreachable(status),
        200..=299 | 500..=599 => SlackError::NoAnswer(status),
        300..=399 | 401 | 403 | 404 | 407 | 410 => SlackError::Credentials {
            code: status,
            help: "look at the address and the secret under `notify.slack`, and at any proxy between",
        },
        _ => SlackError::Refused { method, code: status },
    }
}

/// Converts one of Slack's error codes into an error.
fn refusal(
    method: &'static str,
    receiver: &str,
    code: &str,
    body: &Json,
    answer: &SlackAnswer,
) -> SlackError {
    let word: String = code.chars().take(LONGEST_WORD).collect();
    if let Some(help) = place(code) {
        return SlackError::Place { code: word, help };
    }
    if let Some(help) = credentials(code) {
        return SlackError::Credentials { code: word, help };
    }
    match code {
        "ratelimited" | "rate_limited" => wait(receiver, answer),
        "service_unavailable" | "request_timeout" | "team_added_to_org" => {
            SlackError::Unreachable(word)
        }
        // "It is possible that some aspect of the operation succeeded before the error was raised."
        "fatal_error" | "internal_error" | "rollup_error" => SlackError::NoAnswer(word),
        "thread_not_found"
        | "cannot_reply_to_message"
        | "message_not_found"
        | "restricted_action_non_threadable_channel" => SlackError::Thread(word),
        "users_not_found" => SlackError::Nobody,
        "missing_scope" => SlackError::Scope {
            method,
            needed: body
                .get("needed")
                .and_then(Json::as_str)
                .unwrap_or("it does not name")
                .to_owned(),
        },
        _ if is_of_blocks(code) => SlackError::Blocks(details(word, body)),
        _ => SlackError::Refused { method, code: details(word, body) },
    }
}

fn is_of_blocks(code: &str) -> bool {
    matches!(
        code,
        "invalid_blocks"
            | "invalid_blocks_format"
            | "msg_blocks_too_long"
            | "invalid_attachments"
            | "too_many_attachments"
            | "metadata_too_large"
            | "invalid_metadata_format"
            | "invalid_metadata_schema"
            | "metadata_must_be_sent_from_app"
    )
}

/// Codes that say that this place takes nothing, and what to do.
fn place(code: &str) -> Option<&'static str> {
    Some(match code {
        "channel_not_found" => {
            "there is no such channel, or it is private and the bot is not in it: correct `slack` in the WAML, or invite the bot there"
        }
        "not_in_channel" => "the bot is not in it: invite it there with `/invite`",
        "is_archived" | "channel_is_archived" => {
            "it is archived: name another one in `slack` of the WAML, or open it again"
        }
        "restricted_action"
        | "restricted_action_read_only_channel"
        | "restricted_action_thread_only_channel"
        | "posting_to_general_channel_denied"
        | "as_user_not_supported"
        | "team_not_found"
        | "external_channel_migrating"
        | "slack_connect_blocked_file_type" => {
            "it does not let the bot write: name another one in `slack` of the WAML, or let the bot write there"
        }
        "user_not_found" | "user_disabled" | "user_not_visible" | "cannot_dm_bot" | "is_bot"
        | "user_is_bot" => "that person cannot be written to",
        "messages_tab_disabled" => {
            "the app takes no part in direct messages: turn on its Messages tab (docs/slack.md)"
        }
        _ => return None,
    })
}

/// Returns the way out for codes that mean missing permissions.
fn credentials(code: &str) -> Option<&'static str> {
    Some(match code {
        "not_authed"
        | "invalid_auth"
        | "token_revoked"
        | "token_expired"
        | "account_inactive"
        | "not_allowed_token_type"
        | "invalid_token" => "put the app's present bot token (xoxb-…) under `notify.slack.token`",
        "no_service"
        | "no_service_id"
        | "no_team"
        | "no_active_hooks"
        | "team_disabled"
        | "action_prohibited"
        | "user_not_found_or_disabled" => {
            "make a new incoming webhook, and put its address under `notify.slack.webhook`"
        }
        "no_permission"
        | "org_login_required"
        | "ekm_access_denied"
        | "access_denied"
        | "accesslimited"
        | "two_factor_setup_required"
        | "team_access_not_granted"
        | "enterprise_is_restricted" => "ask an owner of the workspace to allow the app",
        _ => return None,
    })
}

/// Writes Slack's details beside its word: `invalid_blocks: [ERROR] must be …`.
fn details(word: String, body: &Json) -> String {
    let messages = body.pointer("/response_metadata/messages").and_then(Json::as_array);
    match messages.and_then(|messages| messages.first()).and_then(Json::as_str) {
        Some(first) => format!("{word}: {}", first.chars().take(200).collect::<String>()),
        None => word,
    }
}

/// Returns the warnings of an answer, without those that every answer has.
pub(super) fn warnings(body: &Json) -> Vec<String> {
    let list = body.pointer("/response_metadata/warnings").and_then(Json::as_array);
    let texts = list.into_iter().flatten().chain(body.get("warning"));
    let mut warnings: Vec<String> = texts.filter_map(Json::as_str).map(str::to_owned).collect();
    warnings.sort_unstable();
    warnings.dedup();
    warnings
        .retain(|warning| !matches!(warning.as_str(), "missing_charset" | "superfluous_charset"));
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> SlackAnswer {
        SlackAnswer { status, retry_after: None, body: body.into() }
    }

    fn error(status: u16, body: &str) -> SlackError {
        of_method("chat.postMessage", "#squad", &answer(status, body)).unwrap_err()
    }

    fn parse_error_code(code: &str) -> SlackError {
        error(200, &format!("{{\"ok\":false,\"error\":\"{code}\"}}"))
    }

    #[test]
    fn an_answer_is_ok_only_where_it_says_so() {
        let ok = of_method("m", "w", &answer(200, "{\"ok\":true,\"ts\":\"1.2\"}")).unwrap();
        assert_eq!(ok["ts"], "1.2");
        for body in ["", "ok", "[]", "{}", "{\"ok\":null}", "<html>"] {
            assert!(matches!(error(200, body), SlackError::NoAnswer(_)), "{body}");
        }
    }

    #[test]
    fn whether_it_may_have_arrived_is_told_apart() {
        for sure in [
            error(503, ""),
            parse_error_code("service_unavailable"),
            parse_error_code("request_timeout"),
        ] {
            assert!(matches!(sure, SlackError::Unreachable(_)), "{sure:?}");
        }
        for unsure in [
            error(500, ""),
            error(502, "<html>"),
            error(504, ""),
            parse_error_code("fatal_error"),
            parse_error_code("internal_error"),
        ] {
            assert!(matches!(unsure, SlackError::NoAnswer(_)), "{unsure:?}");
        }
    }

    #[test]
    fn how_long_to_wait_is_heeded() {
        let rate_limited = SlackAnswer {
            retry_after: Some(Duration::from_secs(7)),
            ..answer(429, "{\"ok\":false,\"error\":\"ratelimited\"}")
        };
        let Err(SlackError::Wait { what, after }) = of_method("m", "#squad", &rate_limited) else {
            panic!()
        };
        assert_eq!((what.as_str(), after.as_secs()), ("#squad", 7));
        assert_eq!(
            wait("w", &answer(429, "")),
            SlackError::Wait { what: "w".to_owned(), after: USUAL_WAIT }
        );
        assert!(matches!(parse_error_code("ratelimited"), SlackError::Wait { .. }));
        assert!(matches!(of_hook(&rate_limited), Err(SlackError::Wait { .. })));
    }

    #[test]
    fn each_refusal_is_taken_for_what_it_is() {
        for code in ["channel_not_found", "not_in_channel", "is_archived", "user_not_found"] {
            assert!(matches!(parse_error_code(code), SlackError::Place { .. }), "{code}");
        }
        for code in ["invalid_auth", "token_revoked", "account_inactive", "org_login_required"] {
            assert!(matches!(parse_error_code(code), SlackError::Credentials { .. }), "{code}");
        }
        for code in ["invalid_blocks", "msg_blocks_too_long"] {
            assert!(matches!(parse_error_code(code), SlackError::Blocks(_)), "{code}");
        }
        assert!(matches!(parse_error_code("users_not_found"), SlackError::Nobody));
        assert!(matches!(parse_error_code("thread_not_found"), SlackError::Thread(_)));
        assert!(matches!(parse_error_code("something_new"), SlackError::Refused { .. }));
        let scope =
            error(200, "{\"ok\":false,\"error\":\"missing_scope\",\"needed\":\"chat:write\"}");
        assert!(scope.to_string().contains("needs the scope chat:write"), "{scope}");
    }

    #[test]
    fn webhooks_say_it_in_plain_words() {
        assert_eq!(of_hook(&answer(200, "ok")), Ok(()));
        assert!(matches!(of_hook(&answer(200, "<html>")), Err(SlackError::NoAnswer(_))));
        let elsewhere = of_hook(&answer(302, ""));
        assert!(matches!(elsewhere, Err(SlackError::Credentials { .. })), "nothing is sent on");
        assert!(matches!(
            of_hook(&answer(404, "channel_not_found")),
            Err(SlackError::Place { .. })
        ));
        assert!(matches!(of_hook(&answer(400, "invalid_blocks")), Err(SlackError::Blocks(_))));
        assert!(matches!(
            of_hook(&answer(403, "invalid_token")),
            Err(SlackError::Credentials { .. })
        ));
        assert!(matches!(of_hook(&answer(404, "<html>")), Err(SlackError::Credentials { .. })));
        assert!(matches!(
            of_hook(&answer(410, "channel_is_archived")),
            Err(SlackError::Place { .. })
        ));
        assert!(matches!(of_hook(&answer(503, "")), Err(SlackError::Unreachable(_))));
        assert!(matches!(of_hook(&answer(500, "rollup_error")), Err(SlackError::NoAnswer(_))));
    }

    #[test]
    fn what_slack_warns_of_is_kept_but_for_charsets() {
        let body = serde_json::json!({"ok": true, "warning": "missing_charset,message_truncated",
            "response_metadata": {"warnings": ["missing_charset", "message_truncated"]}});
        assert!(warnings(&body).contains(&"message_truncated".to_owned()));
        assert!(!warnings(&body).contains(&"missing_charset".to_owned()));
    }
}
