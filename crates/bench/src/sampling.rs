//! Samples of Ferry and its peers, taken in turn, so that whatever disturbs the machine disturbs all of them.

use std::time::Duration;

use ferry_abi::Result;

/// One that does the copies of a case and is measured.
pub trait Contender {
    /// The name in tables and reports.
    fn name(&self) -> &'static str;
    /// Takes a sample: the time of one copy or call.
    fn sample(&mut self) -> Result<Duration>;
    /// Makes the target blank.
    fn spoil(&mut self) -> Result<()>;
    /// Fails unless every byte of the target is right. Returns how many were compared.
    fn check(&mut self) -> Result<usize>;
}

/// What was measured of one contender.
#[derive(Clone)]
pub struct Figures {
    /// The contender's name.
    pub name: &'static str,
    /// The median of the samples.
    pub median: Duration,
    /// The tenth percentile.
    pub low: Duration,
    /// The ninetieth percentile.
    pub high: Duration,
    /// Bytes compared.
    pub verified: usize,
    /// What a matrix product loses beside it, where one runs.
    pub loss: Option<Loss>,
}

/// Per cent of its speed that something loses: the median and both tenths, as of [`Figures`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    /// The median.
    pub median: f64,
    /// The tenth percentile.
    pub low: f64,
    /// The ninetieth percentile.
    pub high: f64,
}

/// How a case is measured.
#[derive(Clone, Copy)]
pub struct Sampling {
    /// Samples of each contender.
    pub samples: usize,
    /// Whether bytes are compared.
    pub verify: bool,
}

/// Takes the samples of all contenders; `progress` gets the number of rounds done.
pub fn measure(
    contenders: &mut [Box<dyn Contender + '_>],
    sampling: Sampling,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<Figures>> {
    let mut verified = vec![0; contenders.len()];
    prove(contenders, sampling, &mut verified)?;
    let mut times = vec![Vec::with_capacity(sampling.samples); contenders.len()];
    for round in 0..sampling.samples {
        for turn in 0..contenders.len() {
            // The order rotates, so that each contender follows every other one.
            let turn = (round + turn) % contenders.len();
            times[turn].push(contenders[turn].sample()?);
        }
        progress(round + 1);
    }
    prove(contenders, sampling, &mut verified)?;
    let names = contenders.iter().map(|contender| contender.name());
    Ok(names
        .zip(times)
        .zip(verified)
        .map(|((name, times), verified)| Figures::of(name, times, verified))
        .collect())
}

/// Runs each contender once on a blank target and compares all of it. Before the samples this is the warm-up;
/// after them it shows that nothing broke meanwhile.
pub fn prove(
    contenders: &mut [Box<dyn Contender + '_>],
    sampling: Sampling,
    verified: &mut [usize],
) -> Result<()> {
    for (contender, verified) in contenders.iter_mut().zip(verified) {
        if sampling.verify {
            contender.spoil()?;
        }
        contender.sample()?;
        if sampling.verify {
            *verified += contender.check()?;
        }
    }
    Ok(())
}

impl Figures {
    /// The figures of these samples, of which there is one at least.
    pub fn of(name: &'static str, mut times: Vec<Duration>, verified: usize) -> Figures {
        times.sort_unstable();
        let (middle, [low, high]) = places(times.len());
        let median = (times[middle] + times[times.len() - 1 - middle]) / 2;
        Figures { name, median, low: times[low], high: times[high], verified, loss: None }
    }
}

impl Loss {
    /// Of what was lost in each of these windows, one at least.
    pub fn of(mut lost: Vec<f64>) -> Loss {
        lost.sort_by(f64::total_cmp);
        let (middle, [low, high]) = places(lost.len());
        let median = (lost[middle] + lost[lost.len() - 1 - middle]) / 2.0;
        Loss { median, low: lost[low], high: lost[high] }
    }
}

/// Of so many sorted values, the place of the median, counted from both ends, and of both tenths.
fn places(count: usize) -> (usize, [usize; 2]) {
    let last = count - 1;
    (last / 2, [last / 10, last - last / 10])
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::Duration;

    use super::{Contender, Figures, Loss, Sampling, measure};
    use ferry_abi::{Error, Result};

    /// Writes down what is asked of it.
    struct Fake {
        name: &'static str,
        told: Rc<RefCell<String>>,
        is_broken: bool,
    }

    impl Contender for Fake {
        fn name(&self) -> &'static str {
            self.name
        }

        fn sample(&mut self) -> Result<Duration> {
            *self.told.borrow_mut() += self.name;
            Ok(Duration::from_micros(1))
        }

        fn spoil(&mut self) -> Result<()> {
            *self.told.borrow_mut() += "-";
            Ok(())
        }

        fn check(&mut self) -> Result<usize> {
            *self.told.borrow_mut() += "?";
            if self.is_broken { Err(Error::Setup(format!("{} is wrong", self.name))) } else { Ok(10) }
        }
    }

    fn run(sampling: Sampling, broken: Option<&str>) -> (Result<Vec<usize>>, String) {
        let told = Rc::new(RefCell::new(String::new()));
        let fake = |name| {
            let fake = Fake { name, told: told.clone(), is_broken: broken == Some(name) };
            Box::new(fake) as Box<dyn Contender>
        };
        let mut contenders = ["a", "b", "c"].map(fake);
        let figures = measure(&mut contenders, sampling, &mut |_| told.borrow_mut().push(' '));
        let verified = figures.map(|figures| figures.iter().map(|one| one.verified).collect());
        (verified, told.take())
    }

    #[test]
    fn samples_are_taken_in_turn_between_two_proofs() {
        let (verified, told) = run(Sampling { samples: 4, verify: true }, None);
        assert_eq!(told, "-a?-b?-c?abc bca cab abc -a?-b?-c?");
        assert_eq!(verified.unwrap(), [20, 20, 20]);
        let (verified, told) = run(Sampling { samples: 2, verify: false }, None);
        assert_eq!(told, "abcabc bca abc");
        assert_eq!(verified.unwrap(), [0, 0, 0]);
    }

    #[test]
    fn a_peer_that_is_wrong_fails_the_case_as_we_would() {
        let (outcome, told) = run(Sampling { samples: 4, verify: true }, Some("b"));
        assert_eq!(outcome.unwrap_err().to_string(), "b is wrong");
        assert_eq!(told, "-a?-b?", "nothing is measured after that");
    }

    #[test]
    fn the_median_and_the_tenths_at_both_ends() {
        for (count, want) in
            [(1, [0, 0, 0]), (2, [0, 500, 1000]), (11, [1000, 5000, 9000]), (15, [1000, 7000, 13_000])]
        {
            let times = (0..count).rev().map(Duration::from_micros).collect();
            let one = Figures::of("x", times, 0);
            let got = [one.low, one.median, one.high].map(|time| time.as_nanos());
            assert_eq!(got, want, "{count} samples");
            let lost = Loss::of((0..count).rev().map(|lost| lost as f64 * 1000.0).collect());
            assert_eq!([lost.low, lost.median, lost.high], want.map(|want| want as f64), "{count} windows");
        }
    }
}
