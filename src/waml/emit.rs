//! The YAML writer, whose output every reader in the Kubernetes world understands alike.
//!
//! YAML 1.1 readers take `on`, `1_000`, `12:30` and `2024-01-01` for something else than text, so text is written plain
//! only where no reader can mistake it, and quoted otherwise. Block style, two spaces, keys in the order given: the
//! same value gives the same bytes. The writer does not know the meaning of the values.

use serde_json::Value as Json;

/// Writes one document, ending with a newline.
pub fn document(value: &Json) -> String {
    let mut out = String::with_capacity(1024);
    match value {
        Json::Object(fields) => return map(fields),
        Json::Array(list) if !list.is_empty() => items(list, 0, &mut out),
        other => {
            scalar(other, 2, &mut out);
            out.push('\n');
        }
    }
    out
}

/// Writes a document that is a map.
pub fn map(fields: &serde_json::Map<String, Json>) -> String {
    let mut out = String::with_capacity(1024);
    if fields.is_empty() {
        out.push_str("{}\n");
    } else {
        entries(fields, 0, &mut out);
    }
    out
}

fn entries(map: &serde_json::Map<String, Json>, indent: usize, out: &mut String) {
    for (n, (key, value)) in map.iter().enumerate() {
        if n > 0 {
            pad(indent, out);
        }
        text_on_one_line(key, out);
        out.push(':');
        match value {
            Json::Object(map) if !map.is_empty() => {
                out.push('\n');
                pad(indent + 2, out);
                entries(map, indent + 2, out);
            }
            Json::Array(list) if !list.is_empty() => {
                out.push('\n');
                pad(indent, out);
                items(list, indent, out);
            }
            other => {
                out.push(' ');
                scalar(other, indent + 2, out);
                out.push('\n');
            }
        }
    }
}

fn items(list: &[Json], indent: usize, out: &mut String) {
    for (n, value) in list.iter().enumerate() {
        if n > 0 {
            pad(indent, out);
        }
        out.push_str("- ");
        match value {
            Json::Object(map) if !map.is_empty() => entries(map, indent + 2, out),
            Json::Array(list) if !list.is_empty() => items(list, indent + 2, out),
            other => {
                scalar(other, indent + 2, out);
                out.push('\n');
            }
        }
    }
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn scalar(value: &Json, indent: usize, out: &mut String) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(true) => out.push_str("true"),
        Json::Bool(false) => out.push_str("false"),
        Json::Number(number) => out.push_str(&decimal(number)),
        Json::String(text) if is_block(text) => block(text, indent, out),
        Json::String(text) => text_on_one_line(text, out),
        Json::Array(_) => out.push_str("[]"),
        Json::Object(_) => out.push_str("{}"),
    }
}

/// Writes a number without an exponent: YAML 1.1 reads `1e3` as text.
fn decimal(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => {
            let text = float.to_string();
            if text.contains('.') { text } else { format!("{text}.0") }
        }
        _ => number.to_string(),
    }
}

fn text_on_one_line(text: &str, out: &mut String) {
    if is_plain(text) {
        out.push_str(text);
    } else {
        write_quoted(text, out);
    }
}

/// Checks that every reader takes the text for itself without quotes.
fn is_plain(text: &str) -> bool {
    let first_ok = |b: u8| {
        b.is_ascii_alphabetic() || b == b'/' || (b.is_ascii_digit() && is_word_with_digits(text))
    };
    let rest_ok = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'/' | b'-');
    let colon_ok = |at: usize| text.as_bytes().get(at + 1).is_some_and(|next| rest_ok(*next));
    !text.is_empty()
        && text.bytes().next().is_some_and(first_ok)
        && text.bytes().enumerate().all(|(at, b)| rest_ok(b) || (b == b':' && colon_ok(at)))
        && !is_reserved(text)
}

/// Checks for texts such as `200m`, `256Mi` and `1.0.2022-sha.6490`: they begin with a digit, and
/// hold a letter that occurs in no number, date or time of either YAML version.
fn is_word_with_digits(text: &str) -> bool {
    !text.contains(':')
        && text.bytes().any(|b| b"ghijklmnpqrsuvw".contains(&b.to_ascii_lowercase()))
}

fn is_reserved(text: &str) -> bool {
    const RESERVED: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    RESERVED.iter().any(|word| text.eq_ignore_ascii_case(word))
}

fn write_quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_printable(c) => out.push(c),
            c if u32::from(c) <= 0xff => escape(format_args!("\\x{:02x}", u32::from(c)), out),
            c if u32::from(c) <= 0xffff => escape(format_args!("\\u{:04x}", u32::from(c)), out),
            c => escape(format_args!("\\U{:08x}", u32::from(c)), out),
        }
    }
    out.push('"');
}

fn escape(code: std::fmt::Arguments<'_>, out: &mut String) {
    out.push_str(&code.to_string());
}

/// Checks that a character is printable in both versions, and no line break in either.
fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(u32::from(c), 0x2028 | 0x2029 | 0xfeff | 0xfff9..=0xffff | 0xe000..=0xf8ff)
        && u32::from(c) & 0xfffe != 0xfffe
}

/// Checks that a text of several lines reads the same as a literal block: it begins with a visible
/// character, has at most one newline at its end, and holds nothing that a reader might fold.
fn is_block(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let begins_well = |line: &str| line.chars().next().is_none_or(|c| !c.is_whitespace());
    body.contains('\n')
        && !body.ends_with('\n')
        && !body.starts_with(['\n', ' ', '\t'])
        && text.chars().all(|c| c == '\n' || is_printable(c))
        && body.lines().next().is_some_and(begins_well)
        && body.lines().all(|line| !line.trim().is_empty() || line.is_empty())
}

fn block(text: &str, indent: usize, out: &mut String) {
    out.push_str(if text.ends_with('\n') { "|" } else { "|-" });
    for line in text.lines() {
        out.push('\n');
        if !line.is_empty() {
            pad(indent, out);
            out.push_str(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_reads_like_what_kubectl_writes() {
        let value = json!({
            "kind": "Deployment",
            "spec": {
                "replicas": 3, "paused": false, "ratio": 0.5, "empty": {}, "none": [],
                "containers": [{"image": "ghcr.io/a/b:1.0", "args": ["-v", "on"]}, ["nested", 1]],
                "cpu": "200m", "time": "12:30", "script": "set -e\n\nexit 1\n",
            },
        });
        assert_eq!(
            document(&value),
            "kind: Deployment\nspec:\n  replicas: 3\n  paused: false\n  ratio: 0.5\n  empty: {}\n  none: []\n  containers:\n  - image: ghcr.io/a/b:1.0\n    args:\n    - \"-v\"\n    - \"on\"\n  - - nested\n    - 1\n  cpu: 200m\n  time: \"12:30\"\n  script: |\n    set -e\n\n    exit 1\n"
        );
    }

    #[test]
    fn text_that_any_reader_mistakes_is_quoted() {
        for text in [
            "",
            " ",
            "on",
            "Yes",
            "y",
            "n",
            "null",
            "~",
            "true",
            "017",
            "0x1F",
            "1_000",
            "1e3",
            "12:30",
            "2024-01-01",
            "2024-01-01T00:00:00Z",
            "=",
            "<<",
            "- a",
            "a: b",
            "a #b",
            "#a",
            "*a",
            "&a",
            "!a",
            "%a",
            "@a",
            "`a",
            "'a'",
            "\"a\"",
            "{a}",
            "[a]",
            "a,b",
            ".nan",
            ".inf",
            "-1",
            "+1",
            "1.10",
            "a:",
            "a\tb",
            "?",
            "0o17",
            "0b1",
            "1.5e3",
            "é",
            "---",
            "...",
            "190:20:30",
            "0.1.2",
            "9223372036854775808",
        ] {
            assert!(
                document(&json!(text)).starts_with('"'),
                "{text:?}: {}",
                document(&json!(text))
            );
        }
        for text in
            ["a", "my-app", "200m", "256Mi", "/healthz", "1.0.202206151506-sha.649008fb", "a:8000"]
        {
            assert_eq!(document(&json!(text)), format!("{text}\n"));
        }
    }

    fn json_value() -> impl proptest::strategy::Strategy<Value = Json> {
        use proptest::prelude::*;
        let text = prop_oneof![
            "[ -~\\n\\t\\r:#'\"\\-é\u{85}\u{2028}\u{feff}\u{1f600}]{0,40}",
            proptest::sample::select(vec![
                "on", "1_000", "12:30", "<<", "\n a", "\ta\nb", "a\n\n", "a \nb", "\n\ta"
            ])
            .prop_map(str::to_owned),
        ];
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            (-1.0e9..1.0e9f64).prop_map(Json::from),
            text.clone().prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
                proptest::collection::vec((text.clone(), inner), 0..5)
                    .prop_map(|pairs| Json::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(1000))]
        #[test]
        fn two_other_readers_read_back_what_was_written(value in json_value()) {
            let text = document(&value);
            let libyaml: Json = serde_yaml::from_str(&text).unwrap();
            proptest::prop_assert_eq!(&libyaml, &value, "libyaml on\n{}", text);
            let saphyr: Json = serde_saphyr::from_str(&text).unwrap();
            proptest::prop_assert_eq!(&saphyr, &value, "saphyr on\n{}", text);
            let nodes = crate::waml::yaml::parse_stream("f", &text, &crate::waml::yaml::Budget::default()).unwrap();
            proptest::prop_assert_eq!(&crate::waml::scalar::read_untyped(&nodes[0]), &value, "ours on\n{}", text);
        }
    }
}
