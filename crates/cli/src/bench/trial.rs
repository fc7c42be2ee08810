//! Ours and its peers in turn, sample by sample, so that whatever disturbs the machine disturbs all of them.

use std::time::Duration;

use crate::error::Result;

/// One way to do the work that a case is about.
pub trait Contender {
    /// `ferry`, or what else moves the bytes.
    fn name(&self) -> &'static str;
    /// Does it, and answers what one copy or call of it took.
    fn sample(&mut self) -> Result<Duration>;
    /// Makes the target wrong.
    fn spoil(&mut self) -> Result<()>;
    /// Fails unless the target is right in every byte. Answers how many were compared.
    fn check(&mut self) -> Result<usize>;
}

/// What was measured of one contender.
pub struct Figures {
    pub name: &'static str,
    pub median: Duration,
    /// The tenth and the ninetieth percentile.
    pub low: Duration,
    pub high: Duration,
    /// Bytes compared.
    pub verified: usize,
}

/// How to measure.
#[derive(Clone, Copy)]
pub struct Plan {
    pub samples: usize,
    pub verify: bool,
}

/// Measures all of them; `progress` is told after every round.
pub fn measure(
    contenders: &mut [Box<dyn Contender + '_>],
    plan: Plan,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<Figures>> {
    let mut verified = vec![0; contenders.len()];
    prove(contenders, plan, &mut verified)?;
    let mut times = vec![Vec::with_capacity(plan.samples); contenders.len()];
    for round in 0..plan.samples {
        for turn in 0..contenders.len() {
            // Each one follows another one in the next round.
            let turn = (round + turn) % contenders.len();
            times[turn].push(contenders[turn].sample()?);
        }
        progress(round + 1);
    }
    prove(contenders, plan, &mut verified)?;
    let names = contenders.iter().map(|contender| contender.name());
    Ok(names
        .zip(times)
        .zip(verified)
        .map(|((name, times), verified)| summary(name, times, verified))
        .collect())
}

/// Does the work once with each, onto a spoilt target, and compares all of it. What this takes is not measured: it is the
/// warm-up before the samples, and after them it shows that nothing broke on the way.
fn prove(contenders: &mut [Box<dyn Contender + '_>], plan: Plan, verified: &mut [usize]) -> Result<()> {
    for (contender, verified) in contenders.iter_mut().zip(verified) {
        if plan.verify {
            contender.spoil()?;
        }
        contender.sample()?;
        if plan.verify {
            *verified += contender.check()?;
        }
    }
    Ok(())
}

fn summary(name: &'static str, mut times: Vec<Duration>, verified: usize) -> Figures {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    let middle = times.len() / 2;
    let median = if times.len() % 2 == 1 { times[middle] } else { (times[middle - 1] + times[middle]) / 2 };
    Figures { name, median, low: at(10), high: times[(times.len() - 1) - (times.len() - 1) / 10], verified }
}
