//! The expression language of assertions: numbers with units, names of statistics, arithmetic, comparisons.
//!
//! A tree is checked while it is built: names exist, conditions and numbers are not confused, and bytes are
//! not compared with times. So everything that is wrong with an assertion is told before a program starts.

use super::dimension::Dimension;
use super::lexer::{ExpressionError, Placed, Token, error, words};
use super::statistic::Statistic;

/// Parentheses and signs inside each other past this number are refused.
const NESTED: usize = 100;

/// Words of an assertion past this number are refused: a chain of operators is as deep as it is long.
const WORDS: usize = 2000;

/// A part of an expression, and which bytes of the text it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) what: Expression,
    pub(super) from: usize,
    pub(super) to: usize,
    kind: Sort,
}

/// What a part of an expression is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    Number(f64),
    Name(String, Statistic),
    Negative(Box<Node>),
    Not(Box<Node>),
    Arithmetic(&'static str, Box<Node>, Box<Node>),
    Comparison(&'static str, Box<Node>, Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
}

/// What a part gives when it is evaluated.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sort {
    Condition,
    Number(Dimension),
}

/// Reads a condition.
pub(super) fn parse(text: &str) -> Result<Node, ExpressionError> {
    let words = words(text)?;
    if let Some(word) = words.get(WORDS) {
        return Err(error(text, word.from, format!("an assertion has at most {WORDS} words")));
    }
    let mut parser = Parser { text, words, next: 0, depth: 0 };
    let node = parser.either()?;
    let rest = parser.peek();
    if rest.token != Token::End {
        let message = format!("expected an operator or the end, not {}", rest.token);
        return Err(error(text, rest.from, message));
    }
    parser.condition(&node)?;
    Ok(node)
}

struct Parser<'a> {
    text: &'a str,
    words: Vec<Placed>,
    next: usize,
    depth: usize,
}

const COMPARISONS: [&str; 6] = ["==", "!=", "<=", ">=", "<", ">"];

impl Parser<'_> {
    fn peek(&self) -> &Placed {
        &self.words[self.next]
    }

    /// Takes the next word if it is one of these signs.
    fn sign(&mut self, signs: &[&'static str]) -> Option<&'static str> {
        let Token::Sign(given) = self.peek().token else { return None };
        let found = signs.iter().find(|sign| **sign == given)?;
        self.next += 1;
        Some(found)
    }

    fn either(&mut self) -> Result<Node, ExpressionError> {
        let mut left = self.both()?;
        while self.sign(&["||"]).is_some() {
            let right = self.both()?;
            left = self.joined(left, right, Expression::Or)?;
        }
        Ok(left)
    }

    fn both(&mut self) -> Result<Node, ExpressionError> {
        let mut left = self.comparison()?;
        while self.sign(&["&&"]).is_some() {
            let right = self.comparison()?;
            left = self.joined(left, right, Expression::And)?;
        }
        Ok(left)
    }

    fn joined(
        &self,
        left: Node,
        right: Node,
        make: fn(Box<Node>, Box<Node>) -> Expression,
    ) -> Result<Node, ExpressionError> {
        self.condition(&left)?;
        self.condition(&right)?;
        let (from, to) = (left.from, right.to);
        Ok(Node { what: make(Box::new(left), Box::new(right)), from, to, kind: Sort::Condition })
    }

    fn comparison(&mut self) -> Result<Node, ExpressionError> {
        let left = self.sum()?;
        let Some(sign) = self.sign(&COMPARISONS) else { return Ok(left) };
        let right = self.sum()?;
        self.comparable(&left, &right, sign)?;
        if let Some(next) = self.sign(&COMPARISONS) {
            let at = self.words[self.next - 1].from;
            let message = format!("`{next}` after a comparison: write `a {sign} b && b {next} c`");
            return Err(error(self.text, at, message));
        }
        let (from, to) = (left.from, right.to);
        let what = Expression::Comparison(sign, Box::new(left), Box::new(right));
        Ok(Node { what, from, to, kind: Sort::Condition })
    }

    fn sum(&mut self) -> Result<Node, ExpressionError> {
        let mut left = self.product()?;
        while let Some(sign) = self.sign(&["+", "-"]) {
            let right = self.product()?;
            let dimension = self.comparable(&left, &right, sign)?;
            left = arithmetic(sign, left, right, dimension);
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Node, ExpressionError> {
        let mut left = self.unary()?;
        while let Some(sign) = self.sign(&["*", "/"]) {
            let right = self.unary()?;
            let (a, b) = (self.number(&left, sign)?, self.number(&right, sign)?);
            let dimension = if sign == "*" { a.times(b) } else { a.per(b) };
            left = arithmetic(sign, left, right, dimension);
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Node, ExpressionError> {
        let from = self.peek().from;
        if self.depth >= NESTED {
            return Err(error(
                self.text,
                from,
                format!("more than {NESTED} levels of parentheses and signs"),
            ));
        }
        self.depth += 1;
        let node = match self.sign(&["!", "-"]) {
            Some("!") => {
                let inner = self.unary()?;
                self.condition(&inner)?;
                let to = inner.to;
                Node { what: Expression::Not(Box::new(inner)), from, to, kind: Sort::Condition }
            }
            Some(sign) => {
                let inner = self.unary()?;
                let kind = Sort::Number(self.number(&inner, sign)?);
                Node { to: inner.to, what: Expression::Negative(Box::new(inner)), from, kind }
            }
            None => self.primary()?,
        };
        self.depth -= 1;
        Ok(node)
    }

    fn primary(&mut self) -> Result<Node, ExpressionError> {
        let Placed { token, from, to } = self.peek().clone();
        let (what, dimension) = match token {
            Token::Number { value, dimension } => (Expression::Number(value), dimension),
            Token::Name(name) => {
                let statistic = Statistic::named(&name);
                let statistic = statistic.ok_or_else(|| error(self.text, from, unknown(&name)))?;
                (Expression::Name(name, statistic), statistic.dimension())
            }
            Token::Sign("(") => return self.parenthesis(from),
            other => {
                let message = format!("expected a name, a number or `(`, not {other}");
                return Err(error(self.text, from, message));
            }
        };
        self.next += 1;
        Ok(Node { what, from, to, kind: Sort::Number(dimension) })
    }

    fn parenthesis(&mut self, from: usize) -> Result<Node, ExpressionError> {
        self.next += 1;
        let mut node = self.either()?;
        let Placed { token, from: at, to } = self.peek().clone();
        if self.sign(&[")"]).is_none() {
            let message = format!("expected `)`, not {token}");
            return Err(error(self.text, at, message));
        }
        (node.from, node.to) = (from, to);
        Ok(node)
    }

    fn condition(&self, node: &Node) -> Result<(), ExpressionError> {
        let Sort::Number(dimension) = node.kind else { return Ok(()) };
        let given = &self.text[node.from..node.to];
        let message =
            format!("expected a condition, but `{given}` is {dimension}: compare it with something");
        Err(error(self.text, node.from, message))
    }

    fn number(&self, node: &Node, sign: &str) -> Result<Dimension, ExpressionError> {
        let Sort::Number(dimension) = node.kind else {
            let given = &self.text[node.from..node.to];
            let message = format!("`{sign}` takes numbers, but `{given}` is a condition");
            return Err(error(self.text, node.from, message));
        };
        Ok(dimension)
    }

    /// What both sides measure. A number without unit may stand for bytes, and 0 for anything.
    fn comparable(&self, left: &Node, right: &Node, sign: &str) -> Result<Dimension, ExpressionError> {
        let (a, b) = (self.number(left, sign)?, self.number(right, sign)?);
        let is_bare = |node: &Node, dimension: Dimension, other: Dimension| {
            let is_zero = matches!(node.what, Expression::Number(value) if value == 0.0);
            dimension == Dimension::NUMBER && (is_zero || other == Dimension::BYTES)
        };
        if a == b || is_bare(right, b, a) {
            return Ok(a);
        }
        if is_bare(left, a, b) {
            return Ok(b);
        }
        let (one, other) = (&self.text[left.from..left.to], &self.text[right.from..right.to]);
        let hint = match (a, b) {
            (Dimension::NUMBER, Dimension::TIME) | (Dimension::TIME, Dimension::NUMBER) => {
                "; give a time its unit, such as 1.5ms"
            }
            (Dimension::NUMBER, Dimension::RATE) | (Dimension::RATE, Dimension::NUMBER) => {
                "; give a rate its unit, such as 10GB/s"
            }
            _ => "",
        };
        let message = format!("`{sign}` between `{one}`, {a}, and `{other}`, {b}{hint}");
        Err(error(self.text, right.from, message))
    }
}

fn arithmetic(sign: &'static str, left: Node, right: Node, dimension: Dimension) -> Node {
    let (from, to) = (left.from, right.to);
    let what = Expression::Arithmetic(sign, Box::new(left), Box::new(right));
    Node { what, from, to, kind: Sort::Number(dimension) }
}

/// How many of the nearest names are told for an unknown one.
const TOLD_NAMES: usize = 3;

fn unknown(name: &str) -> String {
    let mut near: Vec<_> =
        Statistic::all().into_iter().map(|(other, _)| (distance(name, &other), other.len(), other)).collect();
    near.sort();
    let near: Vec<_> = near.into_iter().take(TOLD_NAMES).map(|(_, _, other)| format!("`{other}`")).collect();
    format!("there is no statistic `{name}`; the nearest are {}", near.join(", "))
}

/// The number of letters to insert, delete, replace or swap with their neighbour to make one of the other.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut before_last = vec![0; other.len() + 1];
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let replaced = last[j] + usize::from(a != b);
            let mut least = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                least = least.min(before_last[j - 1] + 1);
            }
            row.push(least);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[other.len()]
}
