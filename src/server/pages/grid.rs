//! The grid of apps × targets: what is live where, what is under way, and what stands in the way. Pure.
//!
//! Of 500 apps on three targets the page has 1,500 cells, so that each byte of a cell counts.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Deref;
use std::sync::Arc;

use askama::Template;
use jiff::Timestamp;

use crate::deployments::checks::Notice;
use crate::deployments::overview::{LiveTag, Overview, OverviewEntry, OverviewSubject};
use crate::model::app_instance::UnreadableRepositories;
use crate::model::deployment::State;
use crate::model::id::{AppKey, Namespace, TargetName};
use crate::server::auth::{Caller, Resource};
use crate::server::pages::document::{Frame, LivePage, PageError, PageSection};
use crate::server::pages::words::{self, RelativeTime};
use crate::server::query::quote_value;
use crate::store::DeploymentPlace;
use crate::support::percent::encode_query_value;
use crate::support::text::truncate_chars;

/// The most apps on a page.
const ROWS: usize = 500;
/// The most targets on a page.
const COLUMNS: usize = 60;
/// The longest sentence of a deployment that is under way, in characters.
const LONGEST_SENTENCE: usize = 100;
/// The longest text of a search, in characters.
const LONGEST_SEARCH: usize = 200;

/// The states by which the grid can be filtered: the word, and its title.
const STATES: [(&str, &str); 6] = [
    ("failed", "failed"),
    ("deploying", "deploying"),
    ("edited", "edited by hand"),
    ("locked", "locked"),
    ("held", "held"),
    ("live", "live"),
];
/// The orders of the grid: the word, and its title.
const SORTS: [(&str, &str); 4] =
    [("name", "name"), ("state", "problems first"), ("age", "newest first"), ("team", "team")];

/// What the grid shows, as its address has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct GridQuery {
    /// Only apps with this text in their name, team or tag.
    pub(crate) text: String,
    /// Only apps of this team.
    pub(crate) team: String,
    /// Only apps in this namespace.
    pub(crate) namespace: String,
    /// Only this target.
    pub(crate) target: String,
    /// Only apps in this state, on any target.
    pub(crate) state: String,
    /// The order.
    pub(crate) sort: String,
    /// The number of the page, from 1.
    pub(crate) page: usize,
}

impl GridQuery {
    /// Reads the parameters; the message says which one is wrong.
    ///
    /// # Errors
    /// The first parameter that is wrong.
    pub(crate) fn read(pairs: &[(String, String)]) -> Result<Self, String> {
        let mut query = Self { page: 1, ..Self::default() };
        for (name, value) in pairs {
            let text = value.trim();
            match name.as_str() {
                "q" => query.text = truncate_chars(text, LONGEST_SEARCH).into_owned(),
                "team" => text.clone_into(&mut query.team),
                "namespace" => text.clone_into(&mut query.namespace),
                "target" => text.clone_into(&mut query.target),
                "state" => query.state = word("state", text, &STATES)?,
                "sort" => query.sort = word("sort", text, &SORTS)?,
                "page" => query.page = number(text)?,
                name => {
                    return Err(format!(
                        "{} is not known: use q, team, namespace, target, state, sort, page",
                        quote_value(name)
                    ));
                }
            }
        }
        Ok(query)
    }

    fn is_filtered(&self) -> bool {
        let texts = [&self.text, &self.team, &self.namespace, &self.target, &self.state];
        texts.iter().any(|text| !text.is_empty())
    }

    /// Writes the parameters for that page.
    pub(crate) fn with_page(&self, page: usize) -> String {
        let page = if page > 1 { page.to_string() } else { String::new() };
        let pairs = [
            ("q", &self.text),
            ("team", &self.team),
            ("namespace", &self.namespace),
            ("target", &self.target),
            ("state", &self.state),
            ("sort", &self.sort),
            ("page", &page),
        ];
        let pairs = pairs.into_iter().filter(|(_, value)| !value.is_empty());
        let pairs = pairs.map(|(name, value)| format!("{name}={}", encode_query_value(value)));
        pairs.collect::<Vec<_>>().join("&")
    }

    fn takes_row(&self, row: &[&Arc<GridEntry>]) -> bool {
        let is =
            |choice: &str, value: &str| choice.is_empty() || value.eq_ignore_ascii_case(choice);
        let text = self.text.to_lowercase();
        let has_text = |entry: &&Arc<GridEntry>| {
            if text.is_empty() {
                return true;
            }
            let tag = entry.live.as_ref().and_then(|live| live.tag.as_ref());
            entry.place.subject.to_string().to_lowercase().contains(&text)
                || entry.owner.as_ref().is_some_and(|owner| owner.to_lowercase().contains(&text))
                || tag.is_some_and(|tag| tag.as_str().to_lowercase().contains(&text))
        };
        let owner = |entry: &&Arc<GridEntry>| is(&self.team, entry.owner.as_deref().unwrap_or(""));
        let namespace = |entry: &&Arc<GridEntry>| {
            is(&self.namespace, entry.namespace().map_or("", Namespace::as_str))
        };
        row.iter().any(namespace)
            && row.iter().any(owner)
            && row.iter().any(|entry| is_in_state(entry, &self.state))
            && row.iter().any(has_text)
    }
}

fn word(name: &str, value: &str, words: &[(&str, &str)]) -> Result<String, String> {
    if value.is_empty() || words.iter().any(|(word, _)| *word == value) {
        return Ok(value.to_owned());
    }
    let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
    Err(format!("{name}: {} is not one of {}", quote_value(value), words.join(", ")))
}

fn number(value: &str) -> Result<usize, String> {
    let number = value.parse().ok().filter(|number| (1..=1_000).contains(number));
    number.ok_or_else(|| format!("page: {} is not a number from 1 to 1000", quote_value(value)))
}

fn is_in_state(entry: &OverviewEntry, state: &str) -> bool {
    match state {
        "failed" => entry.has_failed(),
        "deploying" => entry.is_under_way(),
        "edited" => entry.is_edited,
        "locked" => entry.is_locked,
        "held" => entry.is_held,
        "live" => entry.live.is_some(),
        _ => true,
    }
}

#[derive(Template)]
#[template(path = "grid.html")]
struct GridPage {
    frame: Frame,
    query: GridQuery,
    is_filtered: bool,
    selects: Vec<Select>,
    counts: String,
    remarks: Vec<String>,
    columns: Vec<String>,
    rows: Vec<GridRow>,
    /// The query of the next page.
    next: Option<String>,
}

/// A choice of the filter.
struct Select {
    label: &'static str,
    name: &'static str,
    options: Vec<SelectOption>,
}

struct SelectOption {
    value: String,
    text: String,
    is_chosen: bool,
}

/// An app on all targets.
struct GridRow {
    namespace: String,
    slug: String,
    /// The owner of the app.
    note: String,
    /// The cells, as HTML.
    cells: Vec<String>,
}

#[derive(Template)]
#[template(path = "cell.html")]
struct Cell<'a> {
    look: &'static str,
    path: String,
    tag: &'a str,
    at: Option<RelativeTime>,
    word: Option<StateWord<'a>>,
    flags: Vec<&'static str>,
    progress: Option<&'a str>,
}

/// What follows the cells of a patch: the sentence about all, and the icon.
#[derive(Template)]
#[template(path = "patch.html")]
struct PatchEnd {
    counts: String,
    look: &'static str,
}

/// A word with a link to the deployment that it is about.
struct StateWord<'a> {
    id: &'a str,
    text: &'static str,
}

/// An app on a target, with the fingerprint of all that its cell shows but its age: equal cells have the same.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct GridEntry {
    entry: OverviewEntry,
    fingerprint: u64,
}

impl From<OverviewEntry> for GridEntry {
    fn from(entry: OverviewEntry) -> Self {
        // The same in every replica: its keys are constants.
        let mut hasher = DefaultHasher::new();
        format!("{entry:?}").hash(&mut hasher);
        Self { fingerprint: hasher.finish(), entry }
    }
}

impl Deref for GridEntry {
    type Target = OverviewEntry;

    fn deref(&self) -> &OverviewEntry {
        &self.entry
    }
}

/// What the grid shows of the overview; entries that have not changed are shared with the one before.
#[derive(Debug, Default)]
pub(crate) struct GridSnapshot {
    /// The apps on targets, in their order.
    pub(crate) entries: Vec<Arc<GridEntry>>,
    missing: UnreadableRepositories,
    is_cut: bool,
}

impl GridSnapshot {
    /// Makes it of the overview.
    pub(crate) fn new(overview: Overview) -> Self {
        let Overview { entries, missing, is_cut } = overview;
        let entries = entries.into_iter().map(|entry| Arc::new(GridEntry::from(entry))).collect();
        Self { entries, missing, is_cut }
    }

    /// Checks that both say the same about what cannot be shown.
    pub(crate) fn has_remarks_of(&self, other: &Self) -> bool {
        self.missing == other.missing && self.is_cut == other.is_cut
    }
}

/// The apps that pass a filter, in order: of each its cells.
pub(crate) struct GridSelection {
    columns: Vec<TargetName>,
    rows: Vec<(OverviewSubject, Vec<Arc<GridEntry>>)>,
    /// The number of apps that pass the filter.
    count: usize,
    is_cut: bool,
}

impl GridSelection {
    /// Selects what a page shows of these entries.
    pub(crate) fn new(entries: &[Arc<GridEntry>], query: &GridQuery) -> Self {
        let mut apps: BTreeMap<&OverviewSubject, Vec<&Arc<GridEntry>>> = BTreeMap::new();
        let is_target = |entry: &&Arc<GridEntry>| {
            query.target.is_empty() || entry.place.target.as_str() == query.target
        };
        for entry in entries.iter().filter(is_target) {
            apps.entry(&entry.place.subject).or_default().push(entry);
        }
        let mut rows: Vec<_> = apps.into_iter().filter(|(_, row)| query.takes_row(row)).collect();
        match query.sort.as_str() {
            "state" => rows.sort_by_key(|(_, row)| row.iter().map(|entry| rank(entry)).min()),
            "age" => rows.sort_by_key(|(_, row)| {
                let times = row.iter().filter_map(|entry| entry.live.as_ref()?.at);
                std::cmp::Reverse(times.max())
            }),
            "team" => rows.sort_by_key(|(_, row)| {
                let owner = row.iter().find_map(|entry| entry.owner.clone());
                (owner.is_none(), owner)
            }),
            _ => {}
        }
        let count = rows.len();
        let rows = rows.into_iter().skip((query.page - 1) * ROWS).take(ROWS);
        let row = |(subject, row): (&OverviewSubject, Vec<&Arc<GridEntry>>)| {
            (subject.clone(), row.into_iter().cloned().collect::<Vec<_>>())
        };
        let mut rows: Vec<_> = rows.map(row).collect();
        let columns: BTreeSet<&TargetName> =
            rows.iter().flat_map(|(_, row)| row.iter().map(|entry| &entry.place.target)).collect();
        let is_cut = columns.len() > COLUMNS;
        let columns: BTreeSet<TargetName> = columns.into_iter().take(COLUMNS).cloned().collect();
        if is_cut {
            for (_, row) in &mut rows {
                row.retain(|entry| columns.contains(&entry.place.target));
            }
        }
        Self { columns: columns.into_iter().collect(), rows, count, is_cut }
    }

    /// Returns the shown apps on targets, in the order of the page.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Arc<GridEntry>> {
        self.rows.iter().flat_map(|(_, row)| row)
    }

    /// Returns the version of what is shown, but for ages.
    pub(crate) fn version(&self) -> String {
        let mut hasher = DefaultHasher::new();
        for entry in self.entries() {
            entry.fingerprint.hash(&mut hasher);
        }
        format!("{:016x}", hasher.finish())
    }

    /// Returns the name of the icon of the worst state of the shown apps.
    fn pick_icon(&self) -> &'static str {
        match self.entries().map(|entry| rank(entry)).min() {
            None => "plain",
            Some(0) => "bad",
            Some(1) => "going",
            Some(_) => "good",
        }
    }

    /// Returns the sentence about all shown apps.
    fn counts(&self) -> String {
        let number =
            |test: fn(&OverviewEntry) -> bool| self.entries().filter(|entry| test(entry)).count();
        let parts = [
            (number(OverviewEntry::is_under_way), "under way"),
            (number(OverviewEntry::has_failed), "failed"),
            (number(|entry| entry.is_locked), "locked"),
            (number(|entry| entry.is_held), "held"),
        ];
        let parts = parts.into_iter().filter(|(count, _)| *count > 0);
        let parts = parts.map(|(count, word)| format!("{count} {word}"));
        let apps = words::count(self.count, "app");
        std::iter::once(apps).chain(parts).collect::<Vec<_>>().join(" · ")
    }

    /// Renders what has changed since another selection: the cells, and the sentence about all; `None` where other
    /// cells are shown than before.
    ///
    /// # Errors
    /// [`PageError`]
    pub(crate) fn changes_since(
        &self,
        before: &Self,
        now: Timestamp,
    ) -> Result<Option<String>, PageError> {
        // A cell is known by its link.
        let is_same = |(old, new): (&Arc<GridEntry>, &Arc<GridEntry>)| {
            old.place == new.place && old.path() == new.path()
        };
        let count = self.entries().count();
        if count != before.entries().count() || !before.entries().zip(self.entries()).all(is_same) {
            return Ok(None);
        }
        let mut html = String::new();
        for (old, new) in before.entries().zip(self.entries()) {
            if !Arc::ptr_eq(old, new) && old.fingerprint != new.fingerprint {
                html.push_str(&cell(new, now)?);
            }
        }
        if !html.is_empty() {
            html.push_str(&PatchEnd { counts: self.counts(), look: self.pick_icon() }.render()?);
        }
        Ok(Some(html))
    }
}

impl OverviewEntry {
    /// Returns the resource that decides whether a caller may see the app: the repository where nothing else is known.
    pub(crate) fn resource(&self, caller: &Caller) -> Resource {
        let target = self.place.target.clone();
        let (repository, app) = match (&self.place.subject, &self.unpushed) {
            (OverviewSubject::App(app), None) => return Resource::App(target, app.clone()),
            (OverviewSubject::App(app), Some(repository)) => (repository, Some(app.clone())),
            (OverviewSubject::Repository(repository), _) => (repository, None),
        };
        let repository = repository.clone();
        caller.resource_of_place(&DeploymentPlace { target, repository, app })
    }

    /// Returns the page that the cell leads to. An app that was never pushed has nothing but deployments.
    fn path(&self) -> String {
        match (&self.place.subject, &self.unpushed, &self.newest) {
            (_, Some(_), Some(newest)) => format!("/deployments/{}", newest.id),
            (OverviewSubject::App(app), _, _) => format!("/apps/{}/{app}", self.place.target),
            (OverviewSubject::Repository(repository), _, _) => {
                format!("/deployments?repository={}", encode_query_value(repository.as_str()))
            }
        }
    }

    /// Returns the namespace of the app, if the app is known.
    fn namespace(&self) -> Option<&Namespace> {
        match &self.place.subject {
            OverviewSubject::App(app) => Some(&app.namespace),
            OverviewSubject::Repository(_) => None,
        }
    }

    /// Returns true if the newest deployment has failed: what is live is older.
    fn has_failed(&self) -> bool {
        self.newest.as_ref().is_some_and(|newest| newest.state == State::Failed)
    }
}

/// Returns the place of an app in the order of problems.
fn rank(entry: &OverviewEntry) -> u8 {
    match entry {
        entry if entry.has_failed() => 0,
        entry if entry.is_under_way() => 1,
        entry if entry.is_edited => 2,
        entry if entry.is_locked || entry.is_held => 3,
        _ => 4,
    }
}

/// Renders the page.
///
/// # Errors
/// [`PageError`]
pub(crate) fn page(
    snapshot: &GridSnapshot,
    query: GridQuery,
    notices: Vec<Notice>,
    now: Timestamp,
) -> Result<String, PageError> {
    let selection = GridSelection::new(&snapshot.entries, &query);
    let mut rows = Vec::with_capacity(selection.rows.len());
    for (subject, row) in &selection.rows {
        let mut cells = Vec::with_capacity(selection.columns.len());
        for column in &selection.columns {
            let entry = row.iter().find(|entry| entry.place.target == *column);
            cells.push(entry.map_or_else(|| Ok("<td></td>".to_owned()), |entry| cell(entry, now))?);
        }
        let owner = row.iter().find_map(|entry| entry.owner.clone());
        let (namespace, slug, note) = match subject {
            OverviewSubject::App(AppKey { namespace, slug }) => {
                (namespace.as_str(), slug.as_str(), owner.unwrap_or_default())
            }
            OverviewSubject::Repository(repository) => {
                (repository.owner(), repository.name(), "repository".to_owned())
            }
        };
        let (namespace, slug) = (namespace.to_owned(), slug.to_owned());
        rows.push(GridRow { namespace, slug, note, cells });
    }
    let stream = match query.with_page(query.page).as_str() {
        "" => "/live/".to_owned(),
        parameters => format!("/live/?{parameters}"),
    };
    let frame = Frame {
        title: "apps".to_owned(),
        section: PageSection::Apps,
        look: selection.pick_icon(),
        refresh: Some(30),
        live: Some(LivePage { stream, version: selection.version() }),
        notices,
        is_wide: true,
    };
    let has_more = selection.count > query.page * ROWS;
    let page = GridPage {
        frame,
        is_filtered: query.is_filtered(),
        selects: selects(snapshot, &query),
        counts: selection.counts(),
        remarks: remarks(snapshot, selection.is_cut),
        columns: selection.columns.iter().map(ToString::to_string).collect(),
        rows,
        next: has_more.then(|| query.with_page(query.page + 1)),
        query,
    };
    Ok(page.render()?)
}

/// Renders one cell.
///
/// # Errors
/// [`PageError`]
pub(crate) fn cell(entry: &OverviewEntry, now: Timestamp) -> Result<String, PageError> {
    let OverviewEntry { live, newest, progress, .. } = entry;
    let is_going = entry.is_under_way();
    let (look, word) = match newest {
        Some(newest) if is_going || entry.has_failed() => {
            let text = if is_going { newest.state.as_str() } else { "failed" };
            let word = StateWord { id: newest.id.as_str(), text };
            (if is_going { "going" } else { "bad" }, Some(word))
        }
        _ if entry.is_edited => ("warn", None),
        _ if live.is_some() => ("good", None),
        _ => ("gone", None),
    };
    let mut flags = Vec::new();
    flags.extend(entry.is_edited.then_some("edited"));
    flags.extend(entry.is_locked.then_some("locked"));
    flags.extend(entry.is_held.then_some("held"));
    flags.extend(entry.is_waml_unreadable.then_some("WAML unreadable"));
    let live_tag = |live: &LiveTag| live.tag.as_ref().map(|tag| tag.as_str().to_owned());
    let tag = live.as_ref().map(|live| live_tag(live).unwrap_or_else(|| live.id.to_string()));
    let progress = progress.as_deref().filter(|_| is_going);
    let progress = progress.map(|sentence| truncate_chars(sentence, LONGEST_SENTENCE));
    let at = live.as_ref().and_then(|live| live.at);
    let cell = Cell {
        look,
        path: entry.path(),
        tag: tag.as_deref().unwrap_or(match &entry.unpushed {
            Some(_) => "never live",
            None if entry.is_fleet => "fleet",
            None => "not live",
        }),
        at: at.map(|at| words::age(at, now)),
        word,
        flags,
        progress: progress.as_deref(),
    };
    Ok(cell.render()?)
}

fn remarks(snapshot: &GridSnapshot, is_cut: bool) -> Vec<String> {
    let missing = snapshot.missing.iter();
    let mut remarks: Vec<String> = missing
        .map(|(name, why)| format!("The repository {name} cannot be read: {why}."))
        .collect();
    if snapshot.is_cut {
        remarks.push("There are more apps than are read: choose a target.".to_owned());
    }
    if is_cut {
        remarks.push(format!("Only the first {COLUMNS} targets are shown: choose a target."));
    }
    remarks
}

fn selects(snapshot: &GridSnapshot, query: &GridQuery) -> Vec<Select> {
    let entries = &snapshot.entries;
    let distinct = |values: BTreeSet<String>| {
        values.into_iter().take(1_000).map(|value| (value.clone(), value)).collect::<Vec<_>>()
    };
    let teams = entries.iter().filter_map(|entry| entry.owner.clone()).collect();
    let namespaces = entries.iter().filter_map(|entry| entry.namespace().map(ToString::to_string));
    let namespaces = namespaces.collect();
    let targets = entries.iter().map(|entry| entry.place.target.to_string()).collect();
    let words = |words: &[(&str, &str)]| {
        words.iter().map(|(word, title)| ((*word).to_owned(), (*title).to_owned())).collect()
    };
    vec![
        select("Team", "team", distinct(teams), Some("all"), &query.team),
        select("Namespace", "namespace", distinct(namespaces), Some("all"), &query.namespace),
        select("Target", "target", distinct(targets), Some("all"), &query.target),
        select("State", "state", words(&STATES), Some("any"), &query.state),
        select("Sort by", "sort", words(&SORTS), None, &query.sort),
    ]
}

fn select(
    label: &'static str,
    name: &'static str,
    values: Vec<(String, String)>,
    any: Option<&str>,
    chosen: &str,
) -> Select {
    let any = any.map(|text| (String::new(), text.to_owned()));
    // A value that no app has any more is still what the page is filtered by.
    let is_missing = !chosen.is_empty() && values.iter().all(|(value, _)| value != chosen);
    let missing = is_missing.then(|| (chosen.to_owned(), chosen.to_owned()));
    let options = any.into_iter().chain(values).chain(missing).map(|(value, text)| SelectOption {
        is_chosen: value == chosen,
        value,
        text,
    });
    Select { label, name, options: options.collect() }
}
