//! Kubernetes quantities: `200m`, `0.5`, `256Mi`, `1e3`.
//!
//! The grammar of `k8s.io/apimachinery/pkg/api/resource`: a decimal number and a suffix, binary (`Ki` … `Ei`), decimal
//! (`n u m k M G T P E`) or an exponent. A value is kept in billionths, so that comparing is exact.

/// An amount in billionths of its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

impl Quantity {
    /// Reads a quantity; `None` where it is not one, is negative, or is beyond `i128`.
    pub fn parse(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at_checked(end)?;
        let (integer_digits, part) = number.split_once('.').unwrap_or((number, ""));
        if (integer_digits.is_empty() && part.is_empty()) || part.contains('.') || number.len() > 18
        {
            return None;
        }
        let digits: i128 = format!("{integer_digits}{part}").parse().ok()?;
        let nano = digits.checked_mul(factor(suffix)?)?;
        Some(Self(nano / 10_i128.checked_pow(u32::try_from(part.len()).ok()?)?))
    }

    /// Counts it in its unit, rounded up; `None` beyond `u64`.
    pub fn whole(self) -> Option<u64> {
        const NANO: i128 = 1_000_000_000;
        u64::try_from(self.0.checked_add(NANO - 1)? / NANO).ok()
    }

    /// Counts how many percent of the other it is, a part of one counted as one; `None` of nothing.
    pub fn percent_of(self, other: Self) -> Option<u128> {
        let (share, total) = (u128::try_from(self.0).ok()?, u128::try_from(other.0).ok()?);
        if total == 0 { None } else { Some(share.checked_mul(100)?.div_ceil(total)) }
    }

    /// Checks that it is nothing.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// Counts how many billionths one of the suffix is.
fn factor(suffix: &str) -> Option<i128> {
    const NANO: i128 = 1_000_000_000;
    let binary = |power: u32| Some(NANO << (10 * power));
    let decimal = |power: i32| {
        let ten = 10_i128.pow(power.unsigned_abs());
        Some(if power < 0 { NANO / ten } else { NANO * ten })
    };
    match suffix {
        "" => Some(NANO),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let power = suffix.strip_prefix(['e', 'E'])?;
            decimal(power.parse().ok().filter(|power| (-9..=18).contains(power))?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_compare_by_what_they_mean() {
        let q = |text| Quantity::parse(text).unwrap();
        assert_eq!(q("0.5"), q("500m"));
        assert_eq!(q("1"), q("1000m"));
        assert_eq!(q("1Ki"), q("1024"));
        assert_eq!(q("1e3"), q("1k"));
        assert!(q("1Gi") > q("1G"));
        assert!(q("200m") < q("0.4"));
        assert!(q("1.5Gi") > q("1536M"));
        assert!(q("0").is_zero());
        assert_eq!(q("400m").percent_of(q("200m")), Some(200));
        assert_eq!(q("1").percent_of(q("3")), Some(34));
        assert_eq!(q("1").percent_of(q("0")), None);
    }

    #[test]
    fn a_part_of_a_unit_counts_as_a_whole_one() {
        let whole_of = |text| Quantity::parse(text).unwrap().whole();
        assert_eq!(whole_of("1.5Ki"), Some(1536));
        assert_eq!(whole_of("1m"), Some(1));
        assert_eq!(whole_of("0"), Some(0));
        assert_eq!(whole_of("16Ei"), None);
    }

    #[test]
    fn what_kubernetes_refuses_is_no_quantity() {
        for text in
            ["", ".", "m", "-1", "1.2.3", "1 Gi", "1gi", "1mi", "1KB", "abc", "1e99", "1_000", "１"]
        {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
    }
}
