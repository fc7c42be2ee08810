//! Assertions: conditions on statistics, and why one does not hold.

use super::dimension::Dimension;
use super::expression::{Expression, Node, parse};
use super::lexer::ExpressionError;
use super::report::{Report, SiteReport};
use super::statistic::Statistic;

/// A condition on statistics, such as `pageable_bytes == 0 && syncs <= 2`.
///
/// ```
/// use ferry_watch::stat::{Assertion, Report};
///
/// let assertion = Assertion::parse("pageable_bytes == 0 && syncs <= 2")?;
/// assert!(assertion.check(&Report::default()).is_empty());
///
/// let error = Assertion::parse("pagable_bytes == 0").unwrap_err();
/// assert!(error.message.contains("`pageable_bytes`"));
/// # Ok::<(), ferry_watch::stat::ExpressionError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Assertion {
    text: String,
    root: Node,
}

/// A comparison because of which an assertion does not hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The comparison as it was written.
    pub text: String,
    /// Each statistic in it: its name, its value and what it measures.
    pub values: Vec<(String, f64, Dimension)>,
    /// Why it has no answer, if it has none: a division by 0.
    pub trouble: Option<String>,
    /// The calls that have a part in the statistics, most bytes first.
    pub calls: Vec<Contribution>,
}

/// The part that one call site has in the statistics of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Contribution {
    /// The call site and everything that it did.
    pub site: SiteReport,
    /// Its part in each statistic that it has one in: the name, the part and what it measures.
    pub parts: Vec<(String, f64, Dimension)>,
    /// The bytes that these statistics are about.
    pub bytes: u64,
}

impl Assertion {
    /// Reads an assertion. Everything that can be wrong with it is found here.
    pub fn parse(text: &str) -> Result<Assertion, ExpressionError> {
        Ok(Assertion { text: text.to_owned(), root: parse(text)? })
    }

    /// The assertion as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The comparisons because of which it does not hold; none if it holds.
    pub fn check(&self, report: &Report) -> Vec<Failure> {
        let mut failures = Vec::new();
        self.explain(&self.root, true, report, &mut failures);
        failures
    }

    /// Adds the comparisons because of which `node` is not `wanted`; none if it is.
    fn explain(&self, node: &Node, wanted: bool, report: &Report, failures: &mut Vec<Failure>) {
        if holds(node, report) == Ok(wanted) {
            return;
        }
        match &node.what {
            Expression::Not(inner) => self.explain(inner, !wanted, report, failures),
            Expression::And(left, right) | Expression::Or(left, right) => {
                self.explain(left, wanted, report, failures);
                self.explain(right, wanted, report, failures);
            }
            _ => failures.push(self.failure(node, report)),
        }
    }

    fn failure(&self, node: &Node, report: &Report) -> Failure {
        let mut names = Vec::new();
        statistics(node, &mut names);
        let value = |(name, of): &(String, Statistic)| {
            (name.clone(), of.value(&report.run, &report.total), of.dimension())
        };
        let mut calls: Vec<_> = report.sites.iter().filter_map(|site| contribution(site, &names)).collect();
        calls.sort_by(|a, b| {
            let part = |call: &Contribution| call.parts.first().map_or(0.0, |(_, part, _)| *part);
            b.bytes.cmp(&a.bytes).then(part(b).total_cmp(&part(a)))
        });
        Failure {
            text: self.text[node.from..node.to].to_owned(),
            values: names.iter().map(value).collect(),
            trouble: holds(node, report).err(),
            calls,
        }
    }
}

/// The part of a call site in these statistics; `None` if it has none.
fn contribution(site: &SiteReport, names: &[(String, Statistic)]) -> Option<Contribution> {
    let part = |(name, of): &(String, Statistic)| {
        let part = of.part(&site.counts).filter(|part| *part != 0.0)?;
        Some((name.clone(), part, of.dimension()))
    };
    let parts: Vec<_> = names.iter().filter_map(part).collect();
    let of_one = |(name, of): &(String, Statistic)| {
        let has_part = parts.iter().any(|(other, ..)| other == name);
        if has_part { of.bytes(&site.counts) } else { 0 }
    };
    let bytes = names.iter().map(of_one).max().unwrap_or(0);
    (!parts.is_empty()).then(|| Contribution { site: site.clone(), parts, bytes })
}

/// The statistics in an expression, each once.
fn statistics(node: &Node, names: &mut Vec<(String, Statistic)>) {
    match &node.what {
        Expression::Number(_) => {}
        Expression::Name(name, statistic) => {
            if !names.iter().any(|(other, _)| other == name) {
                names.push((name.clone(), *statistic));
            }
        }
        Expression::Negative(inner) | Expression::Not(inner) => statistics(inner, names),
        Expression::Arithmetic(_, left, right)
        | Expression::Comparison(_, left, right)
        | Expression::And(left, right)
        | Expression::Or(left, right) => {
            statistics(left, names);
            statistics(right, names);
        }
    }
}

/// Whether a condition holds; the error is a division by 0.
fn holds(node: &Node, report: &Report) -> Result<bool, String> {
    match &node.what {
        Expression::Not(inner) => Ok(!holds(inner, report)?),
        Expression::And(left, right) => Ok(holds(left, report)? && holds(right, report)?),
        Expression::Or(left, right) => Ok(holds(left, report)? || holds(right, report)?),
        Expression::Comparison(sign, left, right) => {
            let (left, right) = (value(left, report)?, value(right, report)?);
            Ok(match *sign {
                "==" => left == right,
                "!=" => left != right,
                "<" => left < right,
                "<=" => left <= right,
                ">" => left > right,
                _ => left >= right,
            })
        }
        // The parser lets only conditions come here.
        _ => Err("it is no condition".to_owned()),
    }
}

fn value(node: &Node, report: &Report) -> Result<f64, String> {
    match &node.what {
        Expression::Number(value) => Ok(*value),
        Expression::Name(_, statistic) => Ok(statistic.value(&report.run, &report.total)),
        Expression::Negative(inner) => Ok(-value(inner, report)?),
        Expression::Arithmetic(sign, left, right) => {
            let (left, right) = (value(left, report)?, value(right, report)?);
            match *sign {
                "+" => Ok(left + right),
                "-" => Ok(left - right),
                "*" => Ok(left * right),
                _ if right == 0.0 => Err("it divides by 0".to_owned()),
                _ => Ok(left / right),
            }
        }
        // The parser lets only numbers come here.
        _ => Err("it is no number".to_owned()),
    }
}
