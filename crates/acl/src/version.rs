//! The versions we say we are: that of the API, and that of the CANN packages we stand in for, which is a
//! setting (`FERRY_CANN_VERSION`), because programs choose their calls by it.

use ferry::Kind;
use std::str::FromStr;

/// A version in dotted parts, such as 8.5.0 or 8.0.RC3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(String);

/// Bytes of a version's text, its end included, and of each part of it.
const TEXT_SIZE: usize = 128;
const PART_SIZE: usize = 64;

impl Default for Version {
    fn default() -> Self {
        Version("8.5.0".into())
    }
}

impl FromStr for Version {
    type Err = ferry::Error;
    fn from_str(text: &str) -> ferry::Result<Self> {
        let bad = || {
            Kind::BadSetting.because(
                "give a version of at least two parts that start with digits, such as 8.5.0 or 8.0.RC3",
            )
        };
        let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
        let fits = text.len() < TEXT_SIZE && text.split('.').all(|part| part.len() < PART_SIZE);
        let numbered =
            text.split('.').take(2).filter(|part| !part.is_empty() && digits(part) == *part).count() == 2;
        (printable && fits && numbered).then(|| Version(text.into())).ok_or_else(bad)
    }
}

impl Version {
    /// All of it.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Major, minor, release and patch. Documented: what is not there is 0.
    pub fn parts(&self) -> [&str; 4] {
        let mut parts = self.0.split('.');
        [(); 4].map(|()| parts.next().filter(|part| !part.is_empty()).unwrap_or("0"))
    }

    /// A number that is larger for a later version. What comes before a release (8.0.RC3, 9.0.0-beta.1) is
    /// less than the release itself.
    pub fn number(&self) -> i32 {
        let [major, minor, release, patch] = self.parts().map(|part| (leading(part), digits(part) == part));
        let whole = major.0.min(200) * 10_000_000 + minor.0.min(99) * 100_000 + release.0.min(99) * 1000;
        if release.1 && patch.1 {
            return whole + patch.0.min(999);
        }
        let candidate = self.0.rsplit(|c: char| !c.is_ascii_digit()).find(|run| !run.is_empty());
        whole - 1000 + candidate.map_or(0, leading).min(999)
    }
}

/// The number at the start; 0 where there is none, and a large one where it is too large.
fn leading(part: &str) -> i32 {
    let digits = digits(part);
    if digits.is_empty() { 0 } else { digits.parse().unwrap_or(i32::MAX) }
}

/// The digits at the start.
fn digits(part: &str) -> &str {
    &part[..part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::from_str(text).unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[test]
    fn later_versions_have_larger_numbers() {
        let ordered = [
            "7.0.0",
            "8.0.RC1",
            "8.0.RC3",
            "8.0.0",
            "8.0.0.1",
            "8.2.RC1",
            "8.5.0",
            "9.0.0-beta.1",
            "9.0.0-beta.2",
            "9.0.0",
        ];
        for pair in ordered.windows(2) {
            assert!(version(pair[0]).number() < version(pair[1]).number(), "{pair:?}");
        }
        assert_eq!(version("8.5.0").number(), 80_500_000);
        assert!(version("99999999999.99999999999.99999999999").number() > 0, "no overflow");
    }

    #[test]
    fn missing_parts_are_zero() {
        for (text, parts) in [
            ("8.5", ["8", "5", "0", "0"]),
            ("8.5.0", ["8", "5", "0", "0"]),
            ("8.0.RC3", ["8", "0", "RC3", "0"]),
            ("8.0.1.2", ["8", "0", "1", "2"]),
        ] {
            assert_eq!(version(text).parts(), parts, "{text}");
        }
    }

    #[test]
    fn what_is_no_version_is_refused() {
        let long = format!("8.5.{}", "1".repeat(128));
        for text in ["", ".", "8", "8.", "v8.5", "8.x", "8.5 0", "8.5.\u{e9}", long.as_str()] {
            assert!(Version::from_str(text).is_err(), "{text:?}");
        }
    }
}
