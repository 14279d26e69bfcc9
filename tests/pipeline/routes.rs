//! Tests that the routes of each kind of routing are read back from the manifests: the hosts and paths that two apps
//! would clash on.

use std::fs;
use std::path::Path;

use the_deployer::manifests::parse::routes;
use the_deployer::model::id::AppKey;
use the_deployer::model::revision::ManifestFile;

/// What is read of the recorded files of a case, as the index over all apps reads them.
fn read_back(case: &str) -> Vec<String> {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pipeline").join(case).join("expected");
    let names =
        fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let files = names
        .filter(|name| routes::may_contain_routes(name))
        .map(|name| ManifestFile { bytes: fs::read(folder.join(&name)).unwrap(), name });
    let app = AppKey { namespace: "n".parse().unwrap(), slug: "a".parse().unwrap() };
    let read = routes::read_routes(&app, &files.collect::<Vec<_>>());
    assert_eq!(read.unreadable, Vec::<String>::new(), "{case}");
    read.found.into_iter().map(|route| format!("{}{}", route.host, route.path)).collect()
}

#[test]
fn what_we_render_is_read_back_whatever_the_kind() {
    let site = ["/", "/api/session", "/assets", "/fonts"]
        .map(|path| format!("www.prod-eu.internal{path}"));
    for case in ["frontend", "frontend-kubernetes", "frontend-gateway"] {
        assert_eq!(read_back(case), site, "{case}");
    }
    for case in ["ingress-kubernetes", "ingress-gateway"] {
        let shop = ["admin.example.com/", "shop.prod-eu.internal/", "shop.prod-eu.internal/assets"];
        assert_eq!(read_back(case), shop, "{case}");
    }
    assert_eq!(read_back("example"), ["my-app.prod-cluster-1.internal/"]);
}
