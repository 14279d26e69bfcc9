//! The pages that a browser shows while an App is registered. Pure.

/// The page that sends the manifest to GitHub.
pub(super) struct FormPage {
    /// The page of GitHub that takes it.
    pub(super) action: String,
    /// The manifest as it is sent.
    pub(super) manifest: String,
    /// The same, as a person reads it.
    pub(super) readable: String,
    /// The GitHub, as a person knows it.
    pub(super) github: String,
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem}\
                     pre{overflow:auto;background:#8881;padding:1rem}button{font:inherit;padding:.4rem 1rem}";

/// Writes the page with the form.
pub(super) fn form(page: &FormPage) -> String {
    let FormPage { action, manifest, readable, github } = page;
    let body = format!(
        "<h1>Register the GitHub App of the-deployer</h1>\n\
         <form method=\"post\" action=\"{}\">\n<input type=\"hidden\" name=\"manifest\" value=\"{}\">\n\
         <button>Go to {}</button>\n</form>\n\
         <p>This is sent; GitHub shows it again before anything is made:</p>\n<pre>{}</pre>",
        escape(action),
        escape(manifest),
        escape(github),
        escape(readable)
    );
    document("Register the GitHub App of the-deployer", &body)
}

/// Writes a page with a message, and a link to the next step.
pub(super) fn message(title: &str, text: &str, link: Option<(&str, &str)>) -> String {
    let link = link.map(|(address, words)| {
        format!("\n<p><a href=\"{}\">{}</a></p>", escape(address), escape(words))
    });
    let body =
        format!("<h1>{}</h1>\n<p>{}</p>{}", escape(title), escape(text), link.unwrap_or_default());
    document(title, &body)
}

/// Writes a page that leads a browser to an address.
pub(super) fn leads_to(address: &str) -> String {
    let address = escape(address);
    let title = "Register the GitHub App of the-deployer";
    let body = format!(
        "<meta http-equiv=\"refresh\" content=\"0; url={address}\">\n<p><a href=\"{address}\">{title}</a></p>"
    );
    document(title, &body)
}

fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>{STYLE}</style>\n{body}\n</html>\n",
        escape(title)
    )
}

/// Escapes a text for HTML, between tags and in attributes with double quotes.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_leads_to_the_address_and_nowhere_else() {
        let page = leads_to("http://127.0.0.1:5/abc");
        assert!(page.contains("content=\"0; url=http://127.0.0.1:5/abc\""), "{page}");
        assert!(!leads_to("\"><script>").contains("<script"), "{page}");
    }

    #[test]
    fn nothing_that_others_wrote_is_markup() {
        let hostile = "\"><script>alert('1')</script>&";
        let page = FormPage {
            action: format!("https://github.com/{hostile}"),
            manifest: hostile.to_owned(),
            readable: hostile.to_owned(),
            github: hostile.to_owned(),
        };
        for page in [form(&page), message(hostile, hostile, Some((hostile, hostile)))] {
            assert!(!page.contains("<script") && !page.contains("'1'"), "{page}");
            assert!(page.contains("&lt;script&gt;alert(&#39;1&#39;)"), "{page}");
        }
    }
}
