//! What the files of a repository say about the service in it. Pure.

use std::collections::BTreeMap;

use crate::model::id::is_rfc1123_label;

/// The files that are looked at, below the folder of the repository.
pub(super) const FILES: [&str; 10] = [
    "Dockerfile",
    "Containerfile",
    "Procfile",
    "package.json",
    "go.mod",
    "Cargo.toml",
    "requirements.txt",
    "pyproject.toml",
    "Gemfile",
    "pom.xml",
];

/// A value, and the file that says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Guess<T> {
    /// The value.
    pub(super) value: T,
    /// Where it is from: `EXPOSE in Dockerfile`.
    pub(super) source: String,
}

impl<T> Guess<T> {
    pub(super) fn new(value: T, source: impl Into<String>) -> Self {
        Self { value, source: source.into() }
    }
}

/// What the files say of the port that a service listens on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum PortGuess {
    /// The service listens on this port.
    Exposed(Guess<u16>),
    /// The usual port of its framework; the service may have another.
    Usual(Guess<u16>),
    /// The Procfile has no process that listens.
    NoWeb,
    /// No file says whether it listens.
    #[default]
    Unknown,
}

/// The port and the processes of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct GuessedService {
    pub(super) port: PortGuess,
    /// The processes of a Procfile, by name, each with its command line.
    pub(super) processes: Vec<(String, String)>,
}

/// Looks at the files, by name.
pub(super) fn guess_service(files: &BTreeMap<&str, String>) -> GuessedService {
    let processes = files.get("Procfile").map(|text| read_procfile(text)).unwrap_or_default();
    let is_web = processes.is_empty() || processes.iter().any(|(name, _)| name == "web");
    let port = match exposed_port(files) {
        _ if !is_web => PortGuess::NoWeb,
        Some(port) => PortGuess::Exposed(port),
        None => framework_port(files).map_or(PortGuess::Unknown, PortGuess::Usual),
    };
    GuessedService { port, processes }
}

/// Reads `EXPOSE 8080/tcp` of the last stage of a Dockerfile that has one.
fn exposed_port(files: &BTreeMap<&str, String>) -> Option<Guess<u16>> {
    let (name, text) = ["Dockerfile", "Containerfile"]
        .into_iter()
        .find_map(|name| Some((name, files.get(name)?)))?;
    let mut exposes = text.lines().filter_map(|line| {
        let (word, rest) = line.trim().split_once(char::is_whitespace)?;
        word.eq_ignore_ascii_case("EXPOSE").then_some(rest)
    });
    let port = exposes.next_back()?.split_whitespace().find_map(|port| {
        let number = port.strip_suffix("/tcp").unwrap_or(port);
        number.parse::<u16>().ok().filter(|number| *number > 0)
    })?;
    Some(Guess::new(port, format!("EXPOSE in {name}")))
}

/// Returns the port on which a framework listens if nobody says another one.
fn framework_port(files: &BTreeMap<&str, String>) -> Option<Guess<u16>> {
    const FRAMEWORKS: [(&str, &str, u16); 20] = [
        ("package.json", "\"next\"", 3000),
        ("package.json", "\"nuxt\"", 3000),
        ("package.json", "\"express\"", 3000),
        ("package.json", "\"@nestjs/core\"", 3000),
        ("go.mod", "github.com/gin-gonic/gin", 8080),
        ("go.mod", "github.com/labstack/echo", 1323),
        ("go.mod", "github.com/gofiber/fiber", 3000),
        ("go.mod", "github.com/go-chi/chi", 3000),
        ("go.mod", "github.com/gorilla/mux", 8000),
        ("Cargo.toml", "actix-web", 8080),
        ("Cargo.toml", "rocket", 8000),
        ("Cargo.toml", "axum", 3000),
        ("requirements.txt", "django", 8000),
        ("requirements.txt", "fastapi", 8000),
        ("requirements.txt", "flask", 5000),
        ("pyproject.toml", "django", 8000),
        ("pyproject.toml", "fastapi", 8000),
        ("pyproject.toml", "flask", 5000),
        ("Gemfile", "rails", 3000),
        ("pom.xml", "spring-boot", 8080),
    ];
    FRAMEWORKS.into_iter().find_map(|(file, word, port)| {
        let has_it = files.get(file)?.lines().any(|line| match file {
            // Go lists what its modules need as well.
            "go.mod" => !line.ends_with("// indirect") && is_required(line, word),
            "Cargo.toml" => is_dependency(line, word),
            _ => line.to_ascii_lowercase().contains(word),
        });
        let name = word.trim_matches('"').trim_start_matches("github.com/");
        has_it.then(|| Guess::new(port, format!("the usual port of {name}, which {file} names")))
    })
}

/// Returns whether a line of go.mod requires the module, in any major version.
fn is_required(line: &str, module: &str) -> bool {
    let mut words = line.split_whitespace().filter(|word| *word != "require");
    let rest = words.next().and_then(|path| path.strip_prefix(module));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("/v"))
}

/// Returns whether a line of Cargo.toml is a dependency of that name: `axum = "0.8"`, `[dependencies.axum]`.
fn is_dependency(line: &str, name: &str) -> bool {
    let key = line.split(['=', '#']).next().unwrap_or_default().trim();
    let table = key.trim_start_matches('[').trim_end_matches(']').trim();
    key == name
        || key.strip_suffix(".workspace") == Some(name)
        || table == format!("dependencies.{name}")
}

/// Reads the lines `NAME: COMMAND` of a Procfile; a release phase is no process.
fn read_procfile(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let processes = lines.filter_map(|line| {
        let (name, command) = line.split_once(':')?;
        let name = name.trim().to_ascii_lowercase().replace('_', "-");
        let command = command.trim();
        let is_process = is_rfc1123_label(&name) && name != "release" && !command.is_empty();
        is_process.then(|| (name, command.to_owned()))
    });
    let mut unique: Vec<(String, String)> = Vec::new();
    for (name, command) in processes.take(16) {
        if unique.iter().all(|(other, _)| *other != name) {
            unique.push((name, command));
        }
    }
    unique
}

/// Makes a slug of a name: lower-case letters, digits and `-`, as Kubernetes takes it.
pub(super) fn to_slug(name: &str) -> Option<String> {
    let mut slug = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.ends_with('-') && !slug.is_empty() {
            slug.push('-');
        }
    }
    let slug: String = slug.chars().take(40).collect();
    let slug = slug.trim_end_matches('-').to_owned();
    is_rfc1123_label(&slug).then_some(slug)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&'static str, &str)]) -> GuessedService {
        guess_service(&files.iter().map(|(name, text)| (*name, (*text).to_owned())).collect())
    }

    /// The port that a framework suggests.
    fn usual(files: &[(&'static str, &str)]) -> u16 {
        match of(files).port {
            PortGuess::Usual(port) => port.value,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_dockerfile_goes_before_the_framework() {
        let next = r#"{"dependencies": {"next": "15"}}"#;
        let dockerfile = "FROM a AS build\nEXPOSE 1\nFROM b\nexpose 9000/udp 8081/tcp\n";
        let found = of(&[("Dockerfile", dockerfile), ("package.json", next)]);
        assert_eq!(found.port, PortGuess::Exposed(Guess::new(8081, "EXPOSE in Dockerfile")));
        assert_eq!(usual(&[("package.json", next)]), 3000);
        assert_eq!(usual(&[("requirements.txt", "Flask==3\n")]), 5000);
        let none = of(&[("Dockerfile", "FROM a\nEXPOSE $PORT\n")]);
        assert_eq!(none.port, PortGuess::Unknown);
    }

    #[test]
    fn go_and_rust_have_frameworks_and_may_listen_without_one() {
        let gin = "module example.com/api\n\nrequire github.com/gin-gonic/gin v1.10.0\n";
        assert_eq!(usual(&[("go.mod", gin)]), 8080);
        let of_another = gin.replace("v1.10.0", "v1.10.0 // indirect");
        assert_eq!(of(&[("go.mod", &of_another)]).port, PortGuess::Unknown);
        assert_eq!(usual(&[("Cargo.toml", "[dependencies]\naxum = \"0.8\"\n")]), 3000);
        assert_eq!(usual(&[("Cargo.toml", "[dependencies.axum]\nversion = \"0.8\"\n")]), 3000);
        let v5 = "require (\n\tgithub.com/go-chi/chi/v5 v5.2.1\n)\n";
        assert_eq!(usual(&[("go.mod", v5)]), 3000);
        for (file, text) in [
            ("go.mod", "module x\n"),
            ("go.mod", "module github.com/go-chi/chi\n"),
            ("Cargo.toml", "[dependencies]\nrocketmq-client = \"1\"\n# not axum\n"),
        ] {
            assert_eq!(of(&[(file, text)]).port, PortGuess::Unknown, "{text}");
        }
    }

    #[test]
    fn a_procfile_names_the_processes_and_whether_there_is_a_port() {
        let procfile = "# all\nweb: bin/rails server\nworker_a: bundle exec sidekiq\nrelease: rake db:migrate\nweb: x\nB d: x\n";
        let files = [("Procfile", procfile), ("Gemfile", "gem 'rails'\n")];
        let worker = ("worker-a".to_owned(), "bundle exec sidekiq".to_owned());
        assert_eq!(
            of(&files).processes,
            [("web".to_owned(), "bin/rails server".to_owned()), worker]
        );
        assert_eq!(usual(&files), 3000);
        let found = of(&[("Procfile", "worker: x\n"), ("Dockerfile", "EXPOSE 80\n")]);
        assert_eq!(found.port, PortGuess::NoWeb, "nothing serves it");
    }

    #[test]
    fn names_become_slugs() {
        for (name, slug) in [
            ("Shop", Some("shop")),
            ("My_Shop.API", Some("my-shop-api")),
            ("--x--", Some("x")),
            ("é", None),
            ("", None),
        ] {
            assert_eq!(to_slug(name).as_deref(), slug, "{name}");
        }
        assert_eq!(to_slug(&"a".repeat(80)).unwrap().len(), 40);
    }
}
