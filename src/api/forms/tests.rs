//! Tests that the patterns of names and texts allow exactly what the parsers accept.

use proptest::string::string_regex;
use proptest::test_runner::TestRunner;

use super::*;
use crate::model::app_instance::AppInstance;
use crate::model::id::{
    CommitSha, DeployId, ImageTag, LockId, Namespace, RepoName, Slug, TargetName,
};
use crate::model::removal::reason;
use proptest::strategy::{Strategy as _, ValueTree as _};

/// Every text of the form, within its length, is taken by the parser.
pub(crate) fn hold(form: Form, parses: impl Fn(String) -> bool) {
    let inside = form.pattern.trim_start_matches('^').trim_end_matches('$');
    // Shorter ones of the same form: most of the others are longer than a name may be.
    let inside = inside.replace("$|^", "|").replace("{0,61}", "{0,6}").replace(")*", "){0,2}");
    let texts = string_regex(&inside).unwrap();
    let mut runner = TestRunner::deterministic();
    let mut count = 0;
    for _ in 0..400 {
        let text = texts.new_tree(&mut runner).unwrap().current();
        let long = text.chars().count();
        if (form.least..=form.most).contains(&long) {
            count += 1;
            assert!(parses(text.clone()), "{text:?} is of the form {}", form.pattern);
        }
    }
    assert!(count > 50, "{}: only {count} texts are short enough", form.pattern);
}

#[test]
fn what_the_contract_allows_is_taken() {
    hold(Form::SLUG, |text| Slug::parse(text).is_ok());
    hold(Form::NAMESPACE, |text| Namespace::parse(text).is_ok());
    hold(Form::TARGET, |text| TargetName::parse(text).is_ok());
    hold(Form::DEPLOY_ID, |text| DeployId::parse(text).is_ok());
    hold(Form::LOCK_ID, |text| LockId::parse(text).is_ok());
    hold(Form::TAG, |text| ImageTag::parse(text).is_ok());
    hold(Form::COMMIT, |text| CommitSha::parse(text).is_ok());
    hold(Form::REPOSITORY, |text| RepoName::parse(text).is_ok());
    hold(Form::APP_INSTANCE, |text| AppInstance::parse(&text).is_some());
    hold(Form::DURATION, |text| crate::support::time_text::duration(&text).is_some());
    hold(Form::LINE, |text| reason(&text).is_ok());
}

#[test]
fn what_is_taken_every_day_is_allowed() {
    let pattern = |form: Form| regex::Regex::new(form.pattern).unwrap();
    for (form, text) in [
        (Form::TARGET, "prod-cluster-1"),
        (Form::TARGET, "prod.eu-west-1"),
        (Form::TARGET, "Prod_1"),
        (Form::TAG, "1.0.202206151506-sha.649008fb"),
        (Form::DEPLOY_ID, "20261121-054812123-3f9a2c"),
        (Form::REPOSITORY, "weave-lab/my.app_1"),
        (Form::REPOSITORY, "a/b"),
        (Form::APP, "devx/my-app"),
        (Form::LINE, "checkout fails since 1.10 – see ticket"),
        (Form::LINE, "障害対応"),
        (Form::KEY, "0b1c-2d"),
    ] {
        assert!(pattern(form).is_match(text), "{text}");
    }
    for text in ["", " ", "a\u{202e}b", "a\nb", "\u{200b}"] {
        let is_allowed = pattern(Form::LINE).is_match(text);
        assert!(!is_allowed, "{text:?}");
        assert!(reason(text).is_err() || text.contains('\n'), "{text:?}");
    }
}
