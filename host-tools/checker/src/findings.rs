//! What a check found: violations, and what it could not decide.

use crate::properties::PROPERTIES;
use serde::Serialize;
use std::collections::BTreeMap;

/// Of one property, no more violations than this are told in full; the rest are counted.
const TOLD_MAX: usize = 50;

/// A property that was not kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Violation {
    /// Which.
    pub property: String,
    /// When, on the best clock the trace has.
    pub at_us: i64,
    /// Who took part.
    pub nodes: Vec<u16>,
    /// What went wrong, for a person.
    pub detail: String,
    /// The events that prove it.
    pub events: Vec<String>,
}

/// A property, or some cases of it, that nothing was concluded about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NotChecked {
    /// Which.
    pub property: String,
    /// Why.
    pub reason: String,
    /// In how many cases.
    pub count: u64,
    /// Other cases of the property were decided: it is checked, but not all of it.
    pub partly: bool,
}

/// Collects what the checks find.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// In the order found.
    pub violations: Vec<Violation>,
    /// By property and reason.
    pub not_checked: Vec<NotChecked>,
    /// Cases of each property that were decided.
    pub decided: BTreeMap<&'static str, u64>,
    untold: BTreeMap<&'static str, u64>,
}

impl Findings {
    /// One violation.
    pub fn violation(
        &mut self,
        property: &'static str,
        at_us: i64,
        nodes: Vec<u16>,
        detail: String,
        events: Vec<String>,
    ) {
        self.decided(property, 1);
        if self.violations.iter().filter(|known| known.property == property).count() < TOLD_MAX {
            self.violations.push(Violation { property: property.to_owned(), at_us, nodes, detail, events });
        } else {
            *self.untold.entry(property).or_default() += 1;
        }
    }

    /// So many cases of a property were decided.
    pub fn decided(&mut self, property: &'static str, cases: u64) {
        if cases > 0 {
            *self.decided.entry(property).or_default() += cases;
        }
    }

    /// So many cases were not decided, for this reason.
    pub fn not_checked(&mut self, property: &'static str, reason: &str, count: u64) {
        match self.not_checked.iter_mut().find(|known| known.property == property && known.reason == reason) {
            Some(known) => known.count += count,
            None => self.not_checked.push(NotChecked {
                property: property.to_owned(),
                reason: reason.to_owned(),
                count,
                partly: false,
            }),
        }
    }

    /// The properties of which at least one case was decided, in their usual order.
    #[must_use]
    pub fn checked(&self) -> Vec<String> {
        PROPERTIES.iter().filter(|name| self.decided.contains_key(*name)).map(|name| (*name).to_owned()).collect()
    }

    /// Violations beyond those told, by property.
    #[must_use]
    pub fn untold(&self) -> BTreeMap<String, u64> {
        self.untold.iter().map(|(property, count)| ((*property).to_owned(), *count)).collect()
    }

    /// Ends the collection: says of what is not checked whether other cases of it are.
    pub fn finish(&mut self) {
        for item in &mut self.not_checked {
            item.partly = self.decided.contains_key(item.property.as_str());
        }
    }
}
