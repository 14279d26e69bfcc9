//! Processes of one image, and the Secrets with which it is pulled.

use super::{WEB, check_section};

#[test]
fn processes_are_few_have_names_of_their_own_and_something_to_run() {
    let messages = check_section(
        "    processes: {web: {}, Up: {args: [x]}, twin: {}, a: {command: [x]}}\n    jobs: [{name: a, args: [x]}]\n",
    );
    assert_eq!(
        messages,
        [
            "8:26: a process cannot be called `Up` [processes]",
            "8:43: the process `twin` would do what `web` does [processes]",
            "8:53: a process cannot be called `a` [processes]",
        ]
    );
    let many: Vec<String> = (0..17).map(|n| format!("p{n}: {{args: [x]}}")).collect();
    let messages = check_section(&format!("    processes: {{{}}}\n", many.join(", ")));
    assert_eq!(messages, ["8:5: an app has at most 16 processes, and this has 17 [processes]"]);
    let messages = check_section(&format!(
        "{WEB}    processes: {{worker: {{args: [x]}}}}\n    versions: [{{name: v1, tag: \"1\", weight: 100}}]\n"
    ));
    assert!(
        messages
            .iter()
            .any(|message| message.contains("an app with live versions has one process")),
        "{messages:?}"
    );
}

#[test]
fn pull_secrets_are_named_and_few() {
    let messages = check_section("    image: {pullSecrets: [ghcr, Ghcr]}\n");
    assert_eq!(messages, ["8:33: `Ghcr` is not the name of a Secret [image]"]);
    let many = vec!["a"; 17].join(", ");
    let messages = check_section(&format!("    image: {{pullSecrets: [{many}]}}\n"));
    assert_eq!(messages, ["8:13: an image has more than 16 pull secrets [image]"]);
}
