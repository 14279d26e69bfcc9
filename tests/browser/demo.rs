//! The pages of the demo: what a newcomer sees.

use std::io::{BufRead as _, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use serde_json::json;

use crate::cli::program;
use crate::harness::browser::Page;
use crate::harness::folder;

/// The demo while it runs, and the address of its pages.
struct Demo {
    child: Child,
    url: String,
    // It prints more.
    _lines: Lines<BufReader<ChildStdout>>,
}

impl Demo {
    fn start(folder: &Path) -> Self {
        let mut command = program("the-deployer", folder);
        command.arg("demo").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = lines.by_ref().map_while(Result::ok).find(|line| line.contains("still running"));
        let said = said.expect("it says that it is still running");
        let (_, rest) = said.split_once("http://").unwrap_or_else(|| panic!("{said}"));
        let address = rest.split(|c: char| c.is_whitespace() || c == '/').next().unwrap();
        let address = address.trim_end_matches(['.', ',', '`']);
        Self { child, url: format!("http://{address}"), _lines: lines }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

#[tokio::test]
async fn the_demo_leaves_a_lively_overview_a_rollout_and_insights() {
    let Some(page) = Page::take("the demo in a browser").await else { return };
    let folder = folder::temporary();
    let home = folder.path().to_owned();
    let demo = tokio::task::spawn_blocking(move || Demo::start(&home)).await.unwrap();
    page.open(&demo.url, "/").await;
    let counts = page.text("#counts").await;
    for words in ["failed", "locked"] {
        assert!(counts.contains(words), "{counts}");
    }
    let rows = page.texts(".grid tbody th").await;
    let samples = rows.iter().filter(|row| row.starts_with("sample/")).count();
    assert!(samples >= 5 && rows.len() > samples, "several apps, marked as a sample: {rows:?}");
    let columns = page.texts(".grid thead th").await;
    for target in ["staging", "prod-eu", "prod-us", "prod-cluster-1"] {
        assert!(columns.iter().any(|column| column == target), "{columns:?}");
    }
    page.screenshot("demo-grid").await;
    page.open(&demo.url, "/rollouts").await;
    page.press("sample/gateway").await;
    assert_eq!(page.text(".summary .badge").await, "rolling out");
    assert!(page.offers("Approve").await);
    page.screenshot("demo-rollout").await;
    page.open(&demo.url, "/insights?window=7d").await;
    assert!(page.count(".plots svg.plot path.p50").await >= 1, "a curve");
    assert!(page.count("section[aria-labelledby=ends] svg.plot rect.good").await >= 5, "a week");
    assert!(page.count("section[aria-labelledby=failures] tbody tr").await >= 1);
    for (name, width, scheme) in [("1280-light", 1280, "light"), ("400-dark", 400, "dark")] {
        page.resize(width, 800).await;
        page.colors(scheme).await;
        page.assert_fits().await;
        page.assert_accessible().await;
        page.screenshot(&format!("demo-insights-{name}")).await;
    }
    // A value shows itself where a reader points at it, without a script, too.
    let shown = "const column = document.querySelector('.plots .column'); column.focus(); \
                 return getComputedStyle(column.querySelector('.value')).visibility";
    assert_eq!(page.run(shown, json!([])).await, "visible");
    assert_eq!(page.console().await, Vec::<String>::new());
}
