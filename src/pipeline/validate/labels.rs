//! Labels and annotations: legal keys and values, and none that the-deployer sets.

use indexmap::IndexMap;

use super::{RuleReport, Subject};
use crate::manifests::RESERVED_KEYS;
use crate::model::id::is_rfc1123_label;
use crate::model::violation::Violation;
use crate::waml::confidential::is_confidential;
use crate::waml::node::Path;
use crate::waml::quote::{quote, quoted_name};

pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let section = subject.section;
    for (list, entries, is_label) in
        [("labels", &section.labels, true), ("annotations", &section.annotations, false)]
    {
        for (key, value) in entries.iter().flatten() {
            let path = Path::root().key(list).key(key);
            check_key(key, &path, report);
            if is_label {
                check_value(value.as_deref().unwrap_or_default(), &path, report);
            }
        }
    }
    check_size(section.annotations.as_ref(), report);
}

fn check_key(key: &str, path: &Path, report: &mut RuleReport<'_>) {
    let key_text = if is_confidential(path) { quoted_name(key) } else { quote(key) };
    if let Some(prefix) = RESERVED_KEYS.iter().find(|prefix| key.starts_with(**prefix)) {
        let violation = Violation::error("labels", format!("{key_text} is set by the-deployer"))
            .expected("cannot be set here")
            .help(format!("use a key that does not begin with `{prefix}`"));
        report.add(path, violation);
    } else if !is_qualified_name(key) {
        let help = "use up to 63 letters, digits, `-`, `_` and `.`, beginning and ending with a letter or digit, with an optional DNS prefix and `/`";
        let violation = Violation::error("labels", format!("{key_text} is not a legal key"));
        report.add(path, violation.expected("not a legal key").help(help));
    }
}

fn check_value(value: &str, path: &Path, report: &mut RuleReport<'_>) {
    if !value.is_empty() && !is_name_part(value) {
        let value_text = if is_confidential(path) { "this".to_owned() } else { quote(value) };
        let help = "use up to 63 letters, digits, `-`, `_` and `.`, beginning and ending with a letter or digit; other text fits into an annotation";
        let violation =
            Violation::error("labels", format!("{value_text} is not a legal label value"));
        report.add(path, violation.expected("not a legal value").help(help));
    }
}

/// Checks the size of annotations: Kubernetes allows 256 KiB on an object; half is left to others.
fn check_size(annotations: Option<&IndexMap<String, Option<String>>>, report: &mut RuleReport<'_>) {
    let sizes = annotations.into_iter().flatten();
    let size: usize = sizes.map(|(k, v)| k.len() + v.as_deref().unwrap_or_default().len()).sum();
    if size > 128 * 1024 {
        let violation = Violation::error("labels", format!("the annotations have {size} bytes"));
        let violation = violation.expected("too large").help("keep them under 131072 bytes");
        report.add(&Path::root().key("annotations"), violation);
    }
}

/// Checks for the form of a key: a name, with an optional DNS prefix.
pub(crate) fn is_qualified_name(key: &str) -> bool {
    match key.split_once('/') {
        None => is_name_part(key),
        Some((prefix, name)) => {
            prefix.len() <= 253 && prefix.split('.').all(is_rfc1123_label) && is_name_part(name)
        }
    }
}

/// Checks for the form of a label's value, and of a key's last part.
pub(crate) fn is_name_part(text: &str) -> bool {
    let end_ok = |c: char| c.is_ascii_alphanumeric();
    (1..=63).contains(&text.len())
        && text.starts_with(end_ok)
        && text.ends_with(end_ok)
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}
