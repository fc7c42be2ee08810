//! Scales: from values to places on an axis, and the values that an axis is labelled with.

/// A linear axis that begins at zero.
#[derive(Clone, Copy, Debug)]
pub struct LinearScale {
    /// The value at the far end.
    limit: f64,
    /// The distance of two labelled values.
    step: f64,
    /// Where zero is, and where the limit is.
    ends: (f64, f64),
}

/// By how much the axis may reach beyond the largest median to show ranges. A range that a disturbed sample
/// has made longer is cut, or all bars would be short.
const RANGE_HEADROOM: f64 = 1.6;

impl LinearScale {
    /// An axis for values with a range: `values` gives medians and upper ends. It has at most `most` steps.
    pub fn new(values: impl Iterator<Item = (f64, f64)>, ends: (f64, f64), most: usize) -> LinearScale {
        let (mut median, mut upper) = (f64::MIN_POSITIVE, 0.0f64);
        for (one, high) in values.filter(|(one, high)| one.is_finite() && high.is_finite()) {
            (median, upper) = (median.max(one), upper.max(high));
        }
        let reach = median.max(upper.min(median * RANGE_HEADROOM));
        let step = nice_step(reach / most as f64);
        LinearScale { limit: (reach / step - 1e-9).ceil() * step, step, ends }
    }

    /// The place of a value; what is beyond the limit is at the limit.
    pub fn place(&self, value: f64) -> f64 {
        let part = (value / self.limit).clamp(0.0, 1.0);
        self.ends.0 + part * (self.ends.1 - self.ends.0)
    }

    /// Whether the axis ends before this value.
    pub fn cuts(&self, value: f64) -> bool {
        value > self.limit * (1.0 + 1e-9)
    }

    /// The labelled values, each with its text.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let decimals = (-self.step.log10() - 1e-9).ceil().clamp(0.0, 12.0) as usize;
        let count = (self.limit / self.step).round() as usize;
        (0..=count).map(|tick| tick as f64 * self.step).map(|at| (at, format!("{at:.decimals$}"))).collect()
    }
}

/// A logarithmic axis from the least to the greatest of some values.
#[derive(Clone, Copy, Debug)]
pub struct LogScale {
    /// The logarithms of the least and the greatest value.
    logs: (f64, f64),
    /// Where these two are.
    ends: (f64, f64),
}

impl LogScale {
    /// An axis for positive values, of which two differ.
    pub fn new(values: impl Iterator<Item = f64>, ends: (f64, f64)) -> LogScale {
        let logs =
            values.map(f64::ln).fold((f64::MAX, f64::MIN), |(low, high), log| (low.min(log), high.max(log)));
        LogScale { logs, ends }
    }

    /// The place of a value.
    pub fn place(&self, value: f64) -> f64 {
        let (low, high) = self.logs;
        self.ends.0 + (value.ln() - low) / (high - low).max(f64::MIN_POSITIVE) * (self.ends.1 - self.ends.0)
    }
}

/// The smallest of 1, 2, 5, 10, 20, ... (and of 0.5, 0.2, 0.1, ...) that is at least `least`.
fn nice_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= least * 0.999_999);
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(values: &[(f64, f64)]) -> String {
        let scale = LinearScale::new(values.iter().copied(), (0.0, 100.0), 5);
        scale.ticks().into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn an_axis_has_round_labels_and_covers_its_values() {
        for (values, want) in [
            (&[(9.0, 9.5), (3.0, 4.0)][..], "0 2 4 6 8 10"),
            (&[(0.3, 0.31)], "0.0 0.1 0.2 0.3 0.4"),
            (&[(1234.0, 1240.0)], "0 500 1000 1500"),
            (&[(0.05, 0.05)], "0.00 0.01 0.02 0.03 0.04 0.05"),
        ] {
            assert_eq!(labels(values), want, "{values:?}");
        }
    }

    #[test]
    fn one_long_range_does_not_shorten_all_bars() {
        let scale = LinearScale::new([(10.0, 11.0), (8.0, 900.0)].into_iter(), (0.0, 100.0), 5);
        assert!(scale.cuts(900.0) && !scale.cuts(11.0));
        assert!(scale.place(10.0) > 40.0, "{scale:?}");
        assert_eq!(scale.place(900.0), 100.0);
    }

    #[test]
    fn nothing_and_odd_values_make_an_axis_all_the_same() {
        for values in [&[][..], &[(0.0, 0.0)], &[(f64::NAN, 1.0)], &[(f64::INFINITY, 2.0)]] {
            let scale = LinearScale::new(values.iter().copied(), (0.0, 100.0), 5);
            assert!(scale.place(0.0).is_finite() && scale.ticks().len() < 10, "{values:?} {scale:?}");
        }
    }

    #[test]
    fn equal_factors_are_equal_distances() {
        let scale = LogScale::new([1.0, 10.0, 100.0].into_iter(), (20.0, 40.0));
        let places = [1.0, 10.0, 100.0].map(|value| (scale.place(value) * 1e6).round() / 1e6);
        assert_eq!(places, [20.0, 30.0, 40.0]);
    }
}
