//! Kubernetes' `IntOrString`: a number of pods, or a percentage of them.

/// A number or a percentage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberOrPercent {
    /// So many.
    Number(u32),
    /// So many of a hundred.
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

    /// How Kubernetes wants it: a number, or text with `%`.
    pub fn to_json(self) -> serde_json::Value {
        match self {
            Self::Number(number) => number.into(),
            Self::Percent(percent) => format!("{percent}%").into(),
        }
    }

    /// Whether it is none at all.
    pub fn is_zero(self) -> bool {
        matches!(self, Self::Number(0) | Self::Percent(0))
    }
}
