//! What the book promises, and whether a measurement agrees with it.

use serde_json::{Map, Value, json};

/// A promised number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Expected {
    /// This one.
    Exactly(f64),
    /// One of these: from, to.
    Between(f64, f64),
    /// The book gives none.
    Open,
}

/// A formula and what it comes to here.
#[derive(Clone, PartialEq, Debug)]
pub struct Book {
    /// As it is written.
    pub formula: String,
    /// Its value.
    pub expected: Expected,
}

impl Book {
    /// A formula with one value.
    pub fn exactly(formula: &str, value: f64) -> Book {
        Book { formula: formula.to_owned(), expected: Expected::Exactly(value) }
    }

    /// A formula with bounds.
    pub fn between(formula: &str, from: f64, to: f64) -> Book {
        Book { formula: formula.to_owned(), expected: Expected::Between(from, to) }
    }

    /// A formula without a value.
    pub fn open(formula: &str) -> Book {
        Book { formula: formula.to_owned(), expected: Expected::Open }
    }
}

impl Expected {
    /// Whether a measurement is within `slack` of the promise; nothing where either is missing.
    pub fn agrees(self, measured: Option<f64>, slack: f64) -> Option<bool> {
        let measured = measured?;
        match self {
            Expected::Exactly(value) => Some((measured - value).abs() <= slack),
            Expected::Between(from, to) => Some(measured >= from - slack && measured <= to + slack),
            Expected::Open => None,
        }
    }

    /// The promised number, where it is one.
    pub fn number(self) -> Option<f64> {
        match self {
            Expected::Exactly(value) => Some(value),
            Expected::Between(..) | Expected::Open => None,
        }
    }

    /// For a table's cell.
    pub fn text(self) -> String {
        match self {
            Expected::Exactly(value) => short(value),
            Expected::Between(from, to) => format!("{}–{}", short(from), short(to)),
            Expected::Open => "–".to_owned(),
        }
    }

    /// Adds `expected` and, where the promise is a range, `expected_from` and `expected_to`.
    pub fn write(self, into: &mut Map<String, Value>, prefix: &str) {
        into.insert(format!("{prefix}expected"), json!(self.number().map(rounded)));
        if let Expected::Between(from, to) = self {
            into.insert(format!("{prefix}expected_from"), json!(rounded(from)));
            into.insert(format!("{prefix}expected_to"), json!(rounded(to)));
        }
    }
}

/// To three decimals: what a run of some hundred entries can tell.
pub fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// A number as short as it can be told.
pub fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_agrees_within_the_slack_and_not_beyond() {
        assert_eq!(Expected::Exactly(3.0).agrees(Some(2.99), 0.02), Some(true));
        assert_eq!(Expected::Exactly(3.0).agrees(Some(2.9), 0.02), Some(false));
        assert_eq!(Expected::Between(1.0, 2.0).agrees(Some(2.1), 0.0), Some(false));
        assert_eq!(Expected::Open.agrees(Some(2.1), 0.0), None);
        assert_eq!(Expected::Exactly(3.0).agrees(None, 1.0), None);
    }

    #[test]
    fn numbers_are_told_shortly() {
        assert_eq!((short(3.0), short(2.4)), ("3".to_owned(), "2.4".to_owned()));
        assert_eq!(Expected::Between(1.0, 2.5).text(), "1–2.5");
    }
}
