//! Sizes and counts as names of cases and options spell them.

/// A size that is not 0: `64`, `4K`, `512M`.
pub fn size(text: &str) -> Option<usize> {
    ferry::parse_size(text).ok().filter(|size| *size > 0)
}

/// A count that is not 0.
pub fn number(text: &str) -> Option<usize> {
    text.parse().ok().filter(|count| *count > 0)
}

/// A size as short as [`size`] reads it.
pub fn short(size: usize) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    let unit = units.into_iter().find(|(shift, _)| size > 0 && size.is_multiple_of(1 << shift));
    unit.map_or_else(|| size.to_string(), |(shift, unit)| format!("{}{unit}", size >> shift))
}

#[cfg(test)]
mod tests {
    use super::{short, size};

    #[test]
    fn sizes_are_short_and_read_as_they_are_spelt() {
        for (bytes, want) in
            [(64, "64"), (1024, "1K"), (1536, "1536"), (18 << 10, "18K"), (512 << 20, "512M")]
        {
            assert_eq!((short(bytes).as_str(), size(want)), (want, Some(bytes)));
        }
        assert_eq!((short(0).as_str(), size("0"), size("K")), ("0", None, None));
    }
}
