//! A manifest repository of any size, as one stream into `git fast-import`.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::Place;
use crate::shape::{self, REVISIONS, Shape};

/// The repository of that size, made if it is not there yet. Nobody pushes to it: see [`copy`].
pub fn kept(place: &Place) -> PathBuf {
    let Place { apps, clusters, folder, .. } = place;
    let kept = folder.join(format!("generated-{apps}x{clusters}.git"));
    if !kept.exists() {
        std::fs::create_dir_all(folder).expect("a folder");
        let begun = Instant::now();
        let making = kept.with_extension("making");
        let _absent = std::fs::remove_dir_all(&making);
        make(place.shape(), &making);
        std::fs::rename(&making, &kept).expect("the repository in its place");
        eprintln!("{} files made in {:.1?}", place.shape().files(), begun.elapsed());
    }
    kept
}

/// A copy to push to, with these branches beside `main`. Objects are shared, nothing else.
pub fn copy(kept: &Path, to: &Path, branches: &[&str]) {
    let _absent = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
    let (from, to_text) = (kept.display().to_string(), to.display().to_string());
    git(Path::new("."), &["clone", "-q", "--bare", "--local", &from, &to_text]);
    for setting in [
        ["http.receivepack", "true"],
        // What a host does at its own times must not fall into ours.
        ["receive.autogc", "false"],
        ["gc.auto", "0"],
    ] {
        git(to, &["config", setting[0], setting[1]]);
    }
    for branch in branches {
        git(to, &["update-ref", &format!("refs/heads/{branch}"), "refs/heads/main"]);
    }
}

/// Runs git's command line with nothing of this machine's configuration.
pub fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=load", "-c", "user.email=load@example.com", "-c", "gc.auto=0"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .output()
        .expect("git");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?} in {}: {words}", folder.display());
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn make(shape: Shape, to: &Path) {
    git(Path::new("."), &["init", "-q", "--bare", "-b", "main", &to.display().to_string()]);
    let mut importing = Command::new("git")
        .args(["fast-import", "--quiet", "--force"])
        .current_dir(to)
        .stdin(Stdio::piped())
        .spawn()
        .expect("git fast-import");
    let stream = BufWriter::with_capacity(1 << 20, importing.stdin.take().expect("its input"));
    Stream { out: stream }.write(shape).expect("git fast-import reads on");
    assert!(importing.wait().expect("git fast-import").success(), "git fast-import failed");
    git(to, &["pack-refs", "--all"]);
}

struct Stream<W> {
    out: W,
}

impl<W: Write> Stream<W> {
    fn write(mut self, shape: Shape) -> std::io::Result<()> {
        writeln!(self.out, "commit refs/heads/main")?;
        writeln!(self.out, "committer load <load@example.com> 1767225600 +0000")?;
        let message = "all there was before";
        writeln!(self.out, "data {}\n{message}", message.len())?;
        for cluster in 0..shape.clusters {
            let target = shape::target(cluster);
            for app in 0..shape.apps {
                self.app(app, &target)?;
            }
        }
        writeln!(self.out, "done")?;
        self.out.flush()
    }

    fn app(&mut self, app: usize, target: &str) -> std::io::Result<()> {
        let (namespace, slug) = (shape::namespace(app), shape::slug(app));
        let folder = format!("manifests/{target}/{namespace}/{slug}");
        for revision in 1..=REVISIONS {
            let id = shape::old_id(app, revision);
            for (name, text) in shape::files(app, target, &format!("1.{revision}.0")) {
                self.file(&format!("{folder}/{id}/{name}"), &text)?;
                if revision == REVISIONS {
                    self.file(&format!("{folder}/latest/{name}"), &text)?;
                }
            }
        }
        let application = shape::application(app, target);
        self.file(&format!("apps/{target}/{namespace}.{slug}.yaml"), &application)
    }

    fn file(&mut self, path: &str, text: &str) -> std::io::Result<()> {
        writeln!(self.out, "M 100644 inline {path}\ndata {}\n{text}", text.len())
    }
}
