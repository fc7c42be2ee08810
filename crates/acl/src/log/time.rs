//! The time of day for log lines. The zone is asked for once: a forked child must not meet the C library's
//! lock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Local time.
pub struct LocalClock {
    east_s: i64,
}

/// A moment.
pub struct Moment {
    day: [i64; 3],
    time: [i64; 3],
    micros: u32,
}

impl LocalClock {
    /// The clock of this place.
    pub fn here() -> LocalClock {
        let now = seconds_and_micros().0;
        // SAFETY: all zeros is a valid value of this plain struct.
        let mut local: libc::tm = unsafe { std::mem::zeroed() };
        // SAFETY: both are valid for the call.
        unsafe { libc::localtime_r(&now, &mut local) };
        LocalClock { east_s: local.tm_gmtoff }
    }

    /// Now.
    pub fn now(&self) -> Moment {
        let (seconds, micros) = seconds_and_micros();
        Moment::of(seconds + self.east_s, micros)
    }
}

fn seconds_and_micros() -> (i64, u32) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs() as i64, since.subsec_micros())
}

impl Moment {
    fn of(seconds: i64, micros: u32) -> Moment {
        let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        Moment { day: day(days), time: [rest / 3600, rest / 60 % 60, rest % 60], micros }
    }

    /// Documented: `yyyy-mm-dd-hh:mm:ss.fff.zzz`.
    pub fn for_lines(&self) -> String {
        let ([y, m, d], [h, min, s]) = (self.day, self.time);
        let (milli, micro) = (self.micros / 1000, self.micros % 1000);
        format!("{y:04}-{m:02}-{d:02}-{h:02}:{min:02}:{s:02}.{milli:03}.{micro:03}")
    }

    /// `yyyymmddhhmmssfff`, for names of files.
    pub fn for_names(&self) -> String {
        let ([y, m, d], [h, min, s]) = (self.day, self.time);
        format!("{y:04}{m:02}{d:02}{h:02}{min:02}{s:02}{:03}", self.micros / 1000)
    }
}

/// Year, month and day of a day counted from 1970. Years begin in March here, so that a leap day is the last
/// of its year.
fn day(since_1970: i64) -> [i64; 3] {
    let days = since_1970 + 719_468; // since 1 March of the year 0
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (march_is_3, early) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    [era * 400 + year + early, march_is_3, of_year - (153 * month + 2) / 5 + 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_documented() {
        for (seconds, micros, want) in [
            (0, 0, "1970-01-01-00:00:00.000.000"),
            (1_634_450_047, 599_074, "2021-10-17-05:54:07.599.074"),
            (951_782_400, 1, "2000-02-29-00:00:00.000.001"),
            (4_107_542_399, 999_999, "2100-02-28-23:59:59.999.999"),
            (4_107_542_400, 0, "2100-03-01-00:00:00.000.000"),
        ] {
            assert_eq!(Moment::of(seconds, micros).for_lines(), want);
        }
        assert_eq!(Moment::of(1_634_450_047, 599_074).for_names(), "20211017055407599");
    }
}
