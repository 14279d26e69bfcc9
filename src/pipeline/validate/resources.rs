//! Quantities parse, and requests are within limits.

use super::{RuleReport, Subject};
use crate::manifests::quantity::Quantity;
use crate::model::violation::Violation;
use crate::waml::node::Path;
use crate::waml::quote::quote;
use crate::waml::section_workload::Amounts;

pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    for (path, resources) in subject.section.all_resources() {
        let requests = amounts(resources.requests.as_ref());
        let limits = amounts(resources.limits.as_ref());
        for ((kind, request), (_, limit)) in requests.into_iter().zip(limits) {
            Resource { subject, place: &path, name: kind, request, limit }.check(report);
        }
    }
}

/// The request and the limit of one kind of resource.
struct Resource<'a> {
    subject: &'a Subject<'a>,
    /// The place of the container's resources.
    place: &'a Path,
    name: &'static str,
    request: Option<&'a str>,
    limit: Option<&'a str>,
}

impl Resource<'_> {
    fn check(&self, report: &mut RuleReport<'_>) {
        let request = self.request.map(|text| (text, Amount::parse(self.name, text)));
        let limit = self.limit.map(|text| (text, Amount::parse(self.name, text)));
        let limit_below = match (request, limit) {
            (Some((_, Amount::Plausible(least) | Amount::Huge(least))), Some((text, most))) => {
                most.comparable_quantity().filter(|most| least > *most).map(|_| text)
            }
            _ => None,
        };
        if let Some((text, amount)) = request {
            self.report_amount(text, amount, "requests", limit_below, report);
        }
        if let Some((text, amount)) = limit {
            self.report_amount(text, amount, "limits", None, report);
        }
        // An amount that makes no sense by itself was reported, and is the reason for the rest.
        if let (Some((request, Amount::Plausible(_))), Some(limit)) = (request, limit_below) {
            self.report_excess(request, limit, report);
        }
    }

    fn path(&self, side: &str) -> Path {
        self.place.key(side).key(self.name)
    }

    /// Reports an amount that is wrong by itself; `over` is the limit that it is over.
    fn report_amount(
        &self,
        text: &str,
        amount: Amount,
        side: &str,
        limit_below: Option<&str>,
        report: &mut RuleReport<'_>,
    ) {
        let path = self.path(side);
        match amount {
            Amount::Plausible(_) => {}
            Amount::Unreadable => report.add(&path, not_a_quantity("resources", text, self.name)),
            Amount::Tiny => report.add(&path, too_few_bytes("resources", text)),
            Amount::Huge(_) => {
                report.add(&path, describe_huge_amount(self.name, text, limit_below));
            }
        }
    }

    fn report_excess(&self, request: &str, limit: &str, report: &mut RuleReport<'_>) {
        let kind = self.name;
        let defaults = ["requests", "limits"].map(|side| self.subject.default_of(&self.path(side)));
        let [of_request, of_limit] = &defaults;
        let message = format!(
            "the request of {request} {kind}{of_request} is over the limit of {limit}{of_limit}"
        );
        let place = self.place;
        let help = format!("lower `{place}.requests.{kind}`, or raise `{place}.limits.{kind}`");
        // At the one of the two that the WAML has.
        let (side, expected) = match (of_request.is_empty(), of_limit.is_empty()) {
            (false, true) => ("limits", format!("at least {request}")),
            _ => ("requests", format!("at most {limit}")),
        };
        let violation = Violation::error("resources", message).expected(expected);
        report.add(&self.path(side), violation.help(help));
    }
}

fn amounts(amounts: Option<&Amounts>) -> [(&'static str, Option<&str>); 3] {
    let get = |pick: fn(&Amounts) -> &Option<String>| amounts.and_then(|a| pick(a).as_deref());
    [
        ("cpu", get(|a| &a.cpu)),
        ("memory", get(|a| &a.memory)),
        ("ephemeralStorage", get(|a| &a.ephemeral_storage)),
    ]
}

/// A text as an amount of CPU or of bytes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Amount {
    /// The text is no quantity.
    Unreadable,
    /// Fewer bytes than anything can be made of.
    Tiny,
    /// More than a machine has.
    Huge(Quantity),
    /// The quantity that was probably meant.
    Plausible(Quantity),
}

impl Amount {
    pub(super) fn parse(kind: &str, text: &str) -> Self {
        let Some(quantity) = Quantity::parse(text) else { return Self::Unreadable };
        let most = match kind {
            "cpu" => MANY_CPUS,
            "memory" => MUCH_MEMORY,
            _ => MUCH_STORAGE,
        };
        if kind != "cpu" && is_few_bytes(quantity) {
            Self::Tiny
        } else if quantity.whole().is_none_or(|amount| amount > most) {
            Self::Huge(quantity)
        } else {
            Self::Plausible(quantity)
        }
    }

    /// Returns the quantity, where other amounts can be compared with it.
    pub(super) fn comparable_quantity(self) -> Option<Quantity> {
        match self {
            Self::Unreadable | Self::Tiny => None,
            Self::Huge(quantity) | Self::Plausible(quantity) => Some(quantity),
        }
    }
}

/// More CPUs than the machines have that most clusters are made of.
const MANY_CPUS: u64 = 64;

/// More memory than such machines have: 8 GiB for each of those CPUs.
const MUCH_MEMORY: u64 = 512 << 30;

/// More than disks of clouds have, of machines and of pods: 64 TiB.
pub(super) const MUCH_STORAGE: u64 = 64 << 40;

/// Describes `200` where `200m` was meant, or `512Gi` for `512Mi`: no node has room for it, and the
/// pod waits for ever. An error where the limit, which it is over, would have Kubernetes refuse the
/// pod at once.
fn describe_huge_amount(kind: &str, text: &str, exceeded_limit: Option<&str>) -> Violation {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let (complaint, expected, help) = match kind {
        "cpu" => (
            format!("{text} CPUs are more than a node has"),
            "whole CPUs",
            format!("write `{digits}m` for {digits} thousandths of a CPU, if that was meant"),
        ),
        kind => (
            format!(
                "{text} of {} is more than a node has",
                if kind == "memory" { kind } else { "ephemeral storage" }
            ),
            "too much",
            format!(
                "write `{digits}Mi` for mebibytes or `{digits}Gi` for gibibytes, if that was meant"
            ),
        ),
    };
    let violation = match exceeded_limit {
        Some(limit) => {
            Violation::error("resources", format!("{complaint}, and over the limit of {limit}"))
        }
        None => Violation::warning("resources", complaint),
    };
    violation.expected(expected).help(help)
}

/// The bytes below which no container starts and no disk has a file system.
const FEW_BYTES: u64 = 1 << 20;

/// Checks that so many bytes are too few for anything. None at all is another matter.
pub(super) fn is_few_bytes(bytes: Quantity) -> bool {
    !bytes.is_zero() && bytes.whole().is_some_and(|bytes| bytes < FEW_BYTES)
}

/// Describes `128m` where `128Mi` was meant: a small `m` is a thousandth, of a byte here.
pub(super) fn too_few_bytes(rule: &'static str, text: &str) -> Violation {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let message = if text.ends_with('m') {
        format!("{text} are {digits} thousandths of a byte")
    } else {
        format!("{text} is less than a megabyte")
    };
    let help = format!("write `{digits}Mi` for mebibytes");
    Violation::error(rule, message).expected("bytes").help(help)
}

/// Makes the violation for a text that is no quantity of that kind.
pub(super) fn not_a_quantity(rule: &'static str, text: &str, kind: &str) -> Violation {
    let message = format!("{} is not a quantity", quote(text));
    let help = match kind {
        "cpu" => "write CPUs as `0.5` or `500m`",
        _ => "write bytes as `256Mi` or `1Gi`",
    };
    Violation::error(rule, message).expected("not a quantity").help(help)
}
