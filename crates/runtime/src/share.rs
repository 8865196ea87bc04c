//! A share of requests that is logged or traced, chosen at random.

use std::str::FromStr;

/// A share from 0 to 1, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share(u32);

const WHOLE: u32 = 1_000_000;

/// Why a text is no [`Share`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a share: write a number from 0 to 1 with at most six decimals, such as `0.01`")]
pub struct ShareError;

impl Share {
    /// All requests.
    pub const ALL: Self = Self(WHOLE);
    /// No request.
    pub const NONE: Self = Self(0);

    /// Whether the share includes the next request. Chosen at random, so that no client can decide
    /// which requests are left out.
    pub(crate) fn selects_next(self) -> bool {
        self == Self::ALL || fastrand::u32(..WHOLE) < self.0
    }

    /// The number, unless it is 1.
    pub(crate) fn below_one(self) -> Option<f64> {
        (self != Self::ALL).then(|| f64::from(self.0) / f64::from(WHOLE))
    }
}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let is_number = decimals.bytes().all(|byte| byte.is_ascii_digit());
        if decimals.len() > 6 || !is_number || !["0", "1"].contains(&whole) || text.ends_with('.') {
            return Err(ShareError);
        }
        let decimals: u32 = format!("{decimals:0<6}").parse().map_err(|_| ShareError)?;
        let share = if whole == "1" { WHOLE + decimals } else { decimals };
        if share <= WHOLE { Ok(Self(share)) } else { Err(ShareError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_read_exactly() {
        assert_eq!("0.01".parse(), Ok(Share(10_000)));
        assert_eq!("0.5".parse(), Ok(Share(500_000)));
        assert_eq!("1".parse(), Ok(Share::ALL));
        assert_eq!("1.000000".parse(), Ok(Share::ALL));
        assert_eq!("0".parse(), Ok(Share::NONE));
        for text in ["", "2", "1.1", "-0.1", "0.", ".5", "0.0000001", "0.x", "50%"] {
            assert_eq!(text.parse::<Share>(), Err(ShareError), "{text}");
        }
    }

    #[test]
    fn a_share_is_about_that_many() {
        let count = (0..100_000).filter(|_| Share(100_000).selects_next()).count();
        assert!((9_000..11_000).contains(&count), "{count}");
        assert!(
            (0..1000).all(|_| Share::ALL.selects_next())
                && !(0..1000).any(|_| Share::NONE.selects_next())
        );
    }
}
