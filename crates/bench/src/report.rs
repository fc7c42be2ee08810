//! The result of a case, and the results of all cases as JSON and as CSV.

use std::time::Duration;

use ferry_abi::Error;
use ferry_terminal::{Colour, figures};
use serde_json::{Value, json};

use crate::sampling::{Figures, Loss};
use crate::work::Sweep;

/// The result of a case.
pub struct Row {
    /// The case.
    pub name: String,
    /// Its series.
    pub series: String,
    /// What one sample does.
    pub about: String,
    /// Bytes of one copy; 0 where a latency is measured.
    pub bytes: usize,
    /// Floating-point operations of one product, where products are measured.
    pub operations: u64,
    /// Whether the peer is Ferry with one of what there are many of.
    pub growth: bool,
    /// Its place on the axis of its series, where that has one.
    pub sweep: Option<Sweep>,
    /// The figures of all contenders, Ferry's first.
    pub outcome: Result<Vec<Figures>, Error>,
    /// What a reader should know of this result.
    pub note: Option<String>,
}

impl Row {
    /// Whether the case failed, other than for lack of something on this machine.
    pub fn failed(&self) -> bool {
        self.outcome.as_ref().is_err_and(|error| !matches!(error, Error::NotHere(_)))
    }

    /// The row of a part of this case.
    pub fn part(&self, part: &str, figures: Vec<Figures>) -> Row {
        let name = format!("{}/{part}", self.name);
        let series = name.rsplit_once('/').map_or("", |(series, _)| series).to_owned();
        let (about, note) = (self.about.clone(), self.note.clone());
        Row { name, series, about, note, sweep: None, outcome: Ok(figures), ..*self }
    }

    /// 10^9 bytes per second, where throughput is measured.
    pub fn rate(&self, time: Duration) -> Option<f64> {
        (self.bytes > 0).then(|| self.bytes as f64 / seconds(time) / 1e9)
    }

    /// 10^12 operations per second, where products are measured.
    pub fn product_rate(&self, time: Duration) -> Option<f64> {
        (self.operations > 0).then(|| self.operations as f64 / seconds(time) / 1e12)
    }

    /// What is shown of a time: the rate where throughput is measured, else microseconds.
    pub fn value(&self, time: Duration) -> f64 {
        self.product_rate(time).or_else(|| self.rate(time)).unwrap_or_else(|| micros(time))
    }

    /// The unit of that; microseconds as the caller writes them.
    pub fn unit(&self, micros: &'static str) -> &'static str {
        match (self.operations, self.bytes) {
            (0, 0) => micros,
            (0, _) => "GB/s",
            _ => "TFLOP/s",
        }
    }

    /// The range of what is shown, from its lower to its upper end: the 10th and the 90th percentile.
    pub fn range(&self, one: &Figures) -> (f64, f64) {
        let ends = (self.value(one.low), self.value(one.high));
        if ends.0 > ends.1 { (ends.1, ends.0) } else { ends }
    }

    /// How many times as fast as the peer Ferry is, or with many of something, how many times the cost of
    /// one; and how good that is.
    pub fn ratio_to(&self, peer: &Figures, ours: &Figures) -> (f64, Colour) {
        let ratio = ratio(ours, peer);
        (if self.growth { 1.0 / ratio } else { ratio }, judge(ratio, self.growth))
    }

    /// A contender's figures in words.
    pub fn said_of(&self, one: &Figures) -> String {
        let (low, high) = self.range(one);
        let [median, low, high] = [self.value(one.median), low, high].map(figures);
        let unit = self.unit("µs");
        format!("{}, {}: {median} {unit} (10 % to 90 %: {low} to {high})", self.name, one.name)
    }

    fn json(&self) -> Value {
        let mut row =
            json!({ "name": self.name, "about": self.about, "note": self.note, "growth": self.growth });
        match &self.outcome {
            Ok(figures) => {
                row["bytes"] = self.bytes.into();
                row["ferry"] = self.figures(&figures[0]);
                row["peers"] = figures[1..].iter().map(|peer| self.peer(peer, &figures[0])).collect();
            }
            Err(Error::NotHere(why)) => row["not_here"] = why.clone().into(),
            Err(error) => row["failed"] = error.to_string().into(),
        }
        row
    }

    fn figures(&self, figures: &Figures) -> Value {
        let mut value = json!({
            "median_us": micros(figures.median),
            "p10_us": micros(figures.low),
            "p90_us": micros(figures.high),
            "gb_per_s": self.rate(figures.median),
            "verified_bytes": figures.verified,
        });
        if let Some(rate) = self.product_rate(figures.median) {
            value["tflop_per_s"] = rate.into();
        }
        if let Some(Loss { median, low, high }) = figures.loss {
            value["product_loss_percent"] = json!({ "median": median, "p10": low, "p90": high });
        }
        value
    }

    fn peer(&self, peer: &Figures, ours: &Figures) -> Value {
        let mut value = self.figures(peer);
        value["name"] = peer.name.into();
        value["ratio"] = ratio(ours, peer).into();
        value
    }

    fn csv(&self) -> Vec<String> {
        let Ok(figures) = &self.outcome else { return Vec::new() };
        let line = |one: &Figures| {
            let rate = self.rate(one.median).map(|rate| format!("{rate:.4}")).unwrap_or_default();
            let [median, low, high] = [one.median, one.low, one.high].map(micros);
            let (name, who, bytes, verified) = (&self.name, one.name, self.bytes, one.verified);
            let ratio = ratio(&figures[0], one);
            format!("{name},{who},{bytes},{median:.4},{low:.4},{high:.4},{rate},{ratio:.4},{verified}")
        };
        figures.iter().map(line).collect()
    }
}

/// How many times as fast as the peer Ferry is.
pub fn ratio(ours: &Figures, peer: &Figures) -> f64 {
    peer.median.as_secs_f64() / ours.median.as_secs_f64().max(1e-12)
}

/// Green where Ferry is ahead, yellow where it is about equal, red where it is behind. With many of
/// something, twice the cost of one is well.
fn judge(ratio: f64, growth: bool) -> Colour {
    let ratio = if growth { ratio * 2.0 } else { ratio };
    if ratio >= 1.0 {
        Colour::Good
    } else if ratio >= 0.9 {
        Colour::Unsure
    } else {
        Colour::Bad
    }
}

/// The last part of the name of a case, which tells it from the others of its series.
pub fn last_part(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, last)| last)
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64().max(1e-12)
}

/// Microseconds.
pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// The setting and all rows.
pub fn json(setting: Value, rows: &[Row]) -> String {
    let mut report = setting;
    report["rows"] = rows.iter().map(Row::json).collect();
    format!("{report:#}\n")
}

/// A line for each case and contender.
pub fn csv(rows: &[Row]) -> String {
    let head = "case,contender,bytes,median_us,p10_us,p90_us,gb_per_s,ratio,verified_bytes".to_owned();
    let lines = std::iter::once(head).chain(rows.iter().flat_map(Row::csv));
    lines.map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::judge;

    #[test]
    fn behind_is_red_and_so_is_more_than_twice_the_cost_of_one() {
        for (ratio, growth, want) in
            [(1.0, false, 32), (0.95, false, 33), (0.89, false, 31), (0.5, true, 32), (0.4, true, 31)]
        {
            assert_eq!(judge(ratio, growth) as u8, want, "{ratio} {growth}");
        }
    }
}
