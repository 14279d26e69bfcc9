use super::*;

fn id(n: u32) -> DeployId {
    DeployId::parse(format!("20261121-{n:09}-abcdef")).unwrap()
}

/// Builds a listing: `a=1` is a file `a` whose object is `1`.
fn listing(text: &str) -> FolderListing {
    let item = |word: &str| {
        let (name, n) = word.split_once('=').unwrap();
        let id = Oid::from_str(&format!("{n:0>40}")).unwrap();
        (name.to_owned(), Item { id, mode: 0o100_644 })
    };
    text.split_whitespace().map(item).collect()
}

fn describe_difference(
    latest: &str,
    revisions: &[(u32, &str)],
) -> Option<(Option<DeployId>, Vec<String>)> {
    let latest = listing(latest);
    let revisions: Vec<_> = revisions.iter().map(|(n, text)| (id(*n), listing(text))).collect();
    let edits = difference(&latest, &revisions)?;
    let words = edits.changes.iter().map(|change| {
        let EditedFile { name, how } = change.file();
        format!("{name} {}", how.as_str())
    });
    Some((edits.base.cloned(), words.collect()))
}

#[test]
fn a_revision_that_is_live_is_no_edit_and_neither_is_nothing() {
    assert_eq!(describe_difference("a=1 b=2", &[(1, "a=1"), (2, "a=1 b=2")]), None);
    assert_eq!(
        describe_difference("a=1", &[(1, "a=1"), (2, "a=1 b=2")]),
        None,
        "rolled back by hand"
    );
    assert_eq!(describe_difference("", &[]), None, "the first deployment");
}

#[test]
fn an_edit_is_told_against_the_revision_that_differs_least_and_then_the_newer() {
    let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    for (latest, revisions, base, expected) in [
        ("a=9 b=2", &[(1, "a=1 b=2"), (2, "a=3 b=4")][..], Some(1), &["a changed"][..]),
        ("a=9 b=2", &[(1, "a=1 b=2"), (2, "a=3 b=2")], Some(2), &["a changed"]),
        ("a=1 c=5", &[(1, "a=1 b=2")], Some(1), &["b removed", "c added"]),
        ("", &[(1, "a=1")], Some(1), &["a removed"]),
        ("a=1", &[], None, &["a added"]),
    ] {
        assert_eq!(
            describe_difference(latest, revisions),
            Some((base.map(id), words(expected))),
            "{latest}"
        );
    }
}

fn diff_of(before: &str, after: &str, contents: &[(&str, ItemContent)]) -> String {
    let (before, after) = (listing(before), listing(after));
    let read_item = |item: Item| {
        let n = item.id.to_string().trim_start_matches('0').to_owned();
        contents.iter().find(|(id, _)| *id == n).map(|(_, content)| content.clone()).unwrap()
    };
    diff(&changes(Some(&before), &after), read_item)
}

fn text(text: &str) -> ItemContent {
    ItemContent::Text(text.to_owned())
}

#[test]
fn a_diff_has_what_changed_with_three_lines_around_it() {
    let old: String = (1..=9).map(|n| format!("line: {n}\n")).collect();
    let new = old.replace("line: 5", "line: five");
    let text = diff_of(
        "a=1 b=3",
        "a=2 c=4",
        &[("1", text(&old)), ("2", text(&new)), ("3", text("gone: 1\n")), ("4", text("new: 1\n"))],
    );
    insta::assert_snapshot!(text, @"
    --- a/a
    +++ b/a
    @@ -2,7 +2,7 @@
     line: 2
     line: 3
     line: 4
    -line: 5
    +line: five
     line: 6
     line: 7
     line: 8
    --- a/b
    +++ /dev/null
    @@ -1 +0,0 @@
    -gone: 1
    --- /dev/null
    +++ b/c
    @@ -0,0 +1 @@
    +new: 1
    ");
}

#[test]
fn what_cannot_be_shown_is_said() {
    let text = diff_of(
        "a=1 b=3 d=7",
        "a=2 b=4 c=5 e=8",
        &[
            ("1", text("kind: Deployment\n")),
            ("2", text("apiVersion: v1\nkind: \"Secret\"\nstringData: {password: hunter2}\n")),
            ("3", ItemContent::Other("7 bytes that are no text".into())),
            ("4", ItemContent::Other("9 bytes that are no text".into())),
            ("5", ItemContent::Other("a symbolic link".into())),
            ("7", text("- kind: Secret\n  data: hunter2\n")),
            ("8", text("bell: \u{7} esc: \u{1b}[31m turn: \u{202e}\n")),
        ],
    );
    assert!(!text.contains("hunter2"), "{text}");
    insta::assert_snapshot!(text, @"
    --- a/a
    +++ b/a
    … a Secret, not shown
    --- a/b
    +++ b/b
    … 7 bytes that are no text, then 9 bytes that are no text, not shown
    --- /dev/null
    +++ b/c
    … a symbolic link, not shown
    --- a/d
    +++ /dev/null
    … a Secret, not shown
    --- /dev/null
    +++ b/e
    @@ -0,0 +1 @@
    +bell: � esc: �[31m turn: �
    ");
}

#[test]
fn neither_side_of_a_diff_is_a_secret_in_any_spelling() {
    let plain = "kind: ConfigMap\ndata: {password: plain}\n";
    for secret in [
        "kind: Secret # x\ndata: {password: hunter2}\n",
        r#"{"apiVersion":"v1","kind":"Secret","data":{"password":"hunter2"}}"#,
        "{apiVersion: v1, kind: Secret, data: {password: hunter2}}\n",
        "kind: !!str Secret\ndata: {password: hunter2}\n",
        "kind: &a Secret\ndata: {password: hunter2}\n",
        "kind:\n  Secret\ndata: {password: hunter2}\n",
    ] {
        for (before, after) in [(plain, secret), (secret, plain)] {
            let diff = diff_of("a=1", "a=2", &[("1", text(before)), ("2", text(after))]);
            assert_eq!(diff, "--- a/a\n+++ b/a\n… a Secret, not shown\n", "{secret}");
        }
    }
}

#[test]
fn a_diff_shows_that_a_secret_differs_and_not_which_it_is() {
    let file = |secret: &str, mode: &str| {
        text(&format!(
            "kind: Deployment\nenv:\n- name: DB_PASSWORD\n  value: {secret}\n- name: MODE\n  value: {mode}\n"
        ))
    };
    let (old, new) = (file("hunter2", "slow"), file("swordfish", "fast"));
    let diff = diff_of("a=1", "a=2", &[("1", old), ("2", new)]);
    assert!(!diff.contains("hunter2") && !diff.contains("swordfish"), "{diff}");
    assert!(diff.contains("-  value: ••••\n+  value: ••••\n"), "{diff}");
    assert!(diff.contains("-  value: slow\n+  value: fast\n"), "{diff}");
}

#[test]
fn a_diff_is_bounded_and_says_so() {
    let many: String = (0..10_000).map(|n| format!("line: {n}\n")).collect();
    let diff =
        diff_of("b=3", "a=2 b=4", &[("2", text(&many)), ("3", text("x\n")), ("4", text("y\n"))]);
    assert_eq!(diff.lines().count(), DIFF_LINES + 1);
    assert_eq!(diff.lines().last(), Some("… the rest is not shown: 2 files"));
    let wide = "é".repeat(1_000_000);
    let diff = diff_of("", "a=2", &[("2", text(&wide))]);
    assert!(diff.len() < DIFF_BYTES, "{}", diff.len());
}

/// Returns as many short lines as a file may have, one of a few words each, without an order.
fn words(seed: u64) -> String {
    let next = |n: &u64| {
        Some(n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    };
    let numbers = std::iter::successors(Some(seed), next);
    let lines = numbers.map(|n| char::from(b'a' + u8::try_from((n >> 33) % 26).unwrap()));
    lines.take(crate::git::drift::detect::BYTES / 2).flat_map(|letter| [letter, '\n']).collect()
}

#[test]
fn texts_that_have_little_in_common_are_compared_to_an_end() {
    let diff = diff_of("a=1", "a=2", &[("1", text(&words(1))), ("2", text(&words(2)))]);
    assert!(diff.starts_with("--- a/a\n+++ b/a\n@@ "), "{diff}");
    assert_eq!(diff.lines().count(), DIFF_LINES + 1);
    // The shortest has lines in common; who stops looking for it has one text after the other.
    let lines = diff.lines().skip(3).take(DIFF_LINES - 3);
    let mut lines = lines.skip_while(|line| line.starts_with(' '));
    assert!(lines.all(|line| line.starts_with('-')), "{diff}");
}
