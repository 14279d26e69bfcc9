//! Kubernetes' `IntOrString`: a number of pods, or a percentage of them.

/// A number or a percentage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberOrPercent {
    /// A number.
    Number(u32),
    /// A percentage.
    Percent(u32),
}

impl NumberOrPercent {
    /// Reads `3` or `25%`; Kubernetes keeps both in 32 bits with a sign.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_suffix('%').unwrap_or(text);
        let number = digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))?;
        if i32::try_from(number).is_err() {
            return None;
        }
        Some(if digits.len() < text.len() { Self::Percent(number) } else { Self::Number(number) })
    }

    /// Writes it how Kubernetes wants it: a number, or text with `%`.
    pub fn to_json(self) -> serde_json::Value {
        match self {
            Self::Number(number) => number.into(),
            Self::Percent(percent) => format!("{percent}%").into(),
        }
    }

    /// Counts how many of `total` that is; a part of one counts as one, as Kubernetes' disruption
    /// budgets have it.
    pub fn share_of(self, total: u32) -> u32 {
        match self {
            Self::Number(number) => number,
            Self::Percent(percent) => {
                let share = (u64::from(percent) * u64::from(total)).div_ceil(100);
                u32::try_from(share).unwrap_or(u32::MAX)
            }
        }
    }

    /// Checks that it is none at all.
    pub fn is_zero(self) -> bool {
        matches!(self, Self::Number(0) | Self::Percent(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_pods_is_rounded_up() {
        for (text, number, share) in
            [("50%", 1, 1), ("50%", 3, 2), ("0%", 9, 0), ("1%", 9, 1), ("100%", 9, 9), ("4", 9, 4)]
        {
            assert_eq!(
                NumberOrPercent::parse(text).unwrap().share_of(number),
                share,
                "{text} of {number}"
            );
        }
    }
}
