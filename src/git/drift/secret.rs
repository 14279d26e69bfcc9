//! The check for a Secret in a text, whose contents must not be in a log. Pure.
//!
//! It is made twice: on the text as it is spelled, which also finds a Secret inside another text, and on the parsed
//! YAML, which knows all spellings. In doubt a text is a Secret.

use granit_parser::{Event, Parser, Tag};

/// Returns what keeps a text from being shown, in words; `None` if nothing does.
pub(super) fn secret_reason(text: &str) -> Option<&'static str> {
    const SECRET: &str = "a Secret";
    if is_spelled_out(text) {
        return Some(SECRET);
    }
    match read(text) {
        Read::Plain => None,
        Read::Secret => Some(SECRET),
        Read::Unclear => Some("what may be a Secret"),
        Read::NoYaml => may_be_disguised(text).then_some("what may be a Secret, and is no YAML"),
    }
}

/// Returns whether a `kind` is followed by a word with `Secret` in it, with nothing between the two
/// but what YAML and JSON have there: colons, quotes, comments, tags, anchors, the ends of lines.
fn is_spelled_out(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.split("kind").skip(1).any(|rest| first_word(rest).contains("secret"))
}

fn first_word(text: &str) -> &str {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| !c.is_alphanumeric() && !"#!&".contains(c));
        let end = match rest.chars().next() {
            Some('#') => rest.find('\n'),
            Some('!' | '&') => rest.find(char::is_whitespace),
            _ => return rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default(),
        };
        rest = end.and_then(|end| rest.get(end..)).unwrap_or_default();
    }
}

/// Checks for a Secret in a text that is no YAML: to Kubernetes it is none, but perhaps it was to become one.
fn may_be_disguised(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["secret", "stringdata", "binary", "\\"].iter().any(|sign| text.contains(sign))
}

/// The result of the YAML reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    Plain,
    Secret,
    /// The kind is not written at its place.
    Unclear,
    NoYaml,
}

fn read(text: &str) -> Read {
    let mut open = Vec::new();
    for next in Parser::new_from_str(text) {
        let Ok((event, _)) = next else { return Read::NoYaml };
        let form = match event {
            Event::Scalar(text, _, _, tag) => {
                node(&mut open, resolve_scalar(&text, tag.as_deref()))
            }
            Event::Alias(_) => node(&mut open, None),
            Event::SequenceStart(..) => begin(&mut open, Open::List),
            Event::MappingStart(..) => begin(&mut open, Open::Map { key: None }),
            Event::SequenceEnd | Event::MappingEnd => {
                open.pop();
                Read::Plain
            }
            _ => Read::Plain,
        };
        if form != Read::Plain {
            return form;
        }
    }
    Read::Plain
}

/// Returns the text of a scalar, unless its tag makes another one of it, as `!!binary` does.
fn resolve_scalar<'a>(text: &'a str, tag: Option<&Tag>) -> Option<&'a str> {
    tag.is_none_or(|tag| tag.core_suffix() == Some("str")).then_some(text)
}

/// The values that are being read, from the outside in.
enum Open {
    List,
    Map { key: Option<Key> },
}

/// The kind of value that a key may have.
#[derive(Clone, Copy)]
enum Key {
    Kind,
    Other,
}

fn begin(open: &mut Vec<Open>, collection: Open) -> Read {
    // Neither a kind nor a key that counts is a list or a map: it is as if it were empty.
    let form = node(open, Some(""));
    open.push(collection);
    form
}

/// Takes a key or a value; `None` is one that is not written there.
fn node(open: &mut [Open], text: Option<&str>) -> Read {
    let Some(Open::Map { key }) = open.last_mut() else { return Read::Plain };
    match (key.take(), text) {
        (None | Some(Key::Kind), None) => Read::Unclear,
        (None, Some("stringData" | "secretGenerator")) => Read::Secret,
        (None, Some(text)) => {
            let kind = text.trim().eq_ignore_ascii_case("kind");
            *key = Some(if kind { Key::Kind } else { Key::Other });
            Read::Plain
        }
        (Some(Key::Kind), Some(text)) if text.to_ascii_lowercase().contains("secret") => {
            Read::Secret
        }
        (Some(Key::Kind | Key::Other), _) => Read::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_one_however_it_is_spelled() {
        for text in [
            "kind: Secret\n",
            "kind: Secret # x\n",
            r#"{"apiVersion":"v1","kind":"Secret","stringData":{"p":"hunter2"}}"#,
            "{apiVersion: v1, kind: Secret, data: {p: hunter2}}\n",
            "kind: !!str Secret\n",
            "kind: &a Secret\n",
            "kind:\n  Secret\n",
            "kind: # which\n  # of them\n  Secret\n",
            "kind: !!str &a 'Secret'\n",
            "? kind\n: Secret\n",
            "kind: >-\n  Secret\n",
            "\"kind\" : \"Secret\"\r\n",
            "kind: \"\\x53ecret\"\ndata: {p: hunter2}\n",
            "\"k\\u0069nd\": \"\\u0053ecret\"\n",
            "kind: \"Se\\\n  cret\"\n",
            "a: &k Secret\nkind: *k\n",
            "a: &k kind\n*k : Secret\n",
            "kind: !!binary U2VjcmV0\n",
            "!!binary a2luZA==: Secret\n",
            "kind: SecretList\nitems: [{data: {p: hunter2}}]\n",
            "kind: ConfigMap\n---\nkind: List\nitems:\n- kind: Secret\n",
            "kind: ConfigMap\nkind: Secret\n",
            "data:\n  more.yaml: |\n    kind: Secret\n    data: {p: hunter2}\n",
            "data: {more: '{\"kind\":\"Secret\"}'}\n",
            "stringData: {p: hunter2}\n",
            "kind: Kustomization\nsecretGenerator: [{literals: [p=hunter2]}]\n",
            "kind: Secret\ndata: {p: [hunter2\n",
            "kind: Deployment\n secret: broken\n",
        ] {
            assert!(secret_reason(text).is_some(), "{text}");
        }
    }

    #[test]
    fn what_names_secrets_is_none() {
        for text in [
            "kind: Deployment\nspec: {imagePullSecrets: [{name: a}], secretName: b}\n",
            "kind: Role\nrules: [{resources: [secrets], verbs: [get]}]\n",
            "# what kind of secret?\nkind: ConfigMap\ndata: {a: b}\n",
            "a: &x {b: c}\nd: *x\n[1, 2]: 3\n{a: b}: c\nkind: Service\n",
            "kind:\nname: x\n",
            "kind: Deployment\n replicas: 3\n",
            "words: that: are: no YAML\n",
            "Some prose.\n",
            "",
        ] {
            assert_eq!(secret_reason(text), None, "{text}");
        }
    }
}
