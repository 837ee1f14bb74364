//! Measured against budgeted, and the table that shows it.

use super::{BUDGET_FILE, Budget, Measurement, Unit};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Cells of a bar; a full one is the budget.
const BAR: u64 = 20;
/// A budget that is more than this share unused no longer guards anything.
const SLACK_PERCENT: u64 = 60;

/// A proposed budget leaves so much room above what was measured, ...
const ROOM_PERCENT: u64 = 12;
/// ... rounded up to a multiple of this.
const STEP: u64 = 50;
/// What a proposed budget file begins with.
const PREAMBLE: &str = "\
# What the firmware may cost at most: `compasso budget` measures and compares, and CI runs it.
# Instructions are counted in an emulator, by scripts of three nodes: the same on every machine, so
# a number beyond its limit is a change in the code or the compiler. Each limit is for the dearest
# message of its kind in its script, and lies about 12 % above what was measured when it was set.
# The stacks are the deepest of all scripts.
# Nothing measured goes without a limit here, and no limit without a measurement.";

/// The families in the order of the report, each with its heading. Those of an algorithm begin so.
const FAMILIES: [(&str, &str); 10] = [
    ("image", "The emulated board's image, in bytes"),
    ("w5500-evb-pico", "The image of the W5500-EVB-Pico, in bytes"),
    ("pico-usb", "The image of the Pico with Ethernet over USB, in bytes"),
    ("pico-w", "The image of the Pico W, in bytes"),
    ("node", "One node, in bytes"),
    ("codec", "Encoding and authentication alone, in instructions"),
    ("handle", "Handling one received message of the protocol, in instructions"),
    ("make", "Making one message of the protocol, in instructions"),
    (ELECTION, "Election"),
    (MUTEX, "Mutual exclusion"),
];

const ELECTION: &str = "election-";
const MUTEX: &str = "mutex-";

/// How one number compares with its budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Within.
    Within,
    /// Beyond.
    Over,
    /// Measured, but nobody said what it may be.
    NoBudget,
    /// Budgeted, but nothing of that name was measured.
    NotMeasured,
}

/// One line of the report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Family and member.
    pub name: String,
    /// What the numbers count; unknown where nothing was measured.
    pub unit: Option<Unit>,
    /// What it is.
    pub measured: Option<u64>,
    /// What it may be.
    pub budget: Option<u64>,
    /// What it was taken from.
    pub note: String,
    /// Why the budget is what it is.
    pub why: String,
    /// How both compare.
    pub verdict: Verdict,
}

impl Row {
    /// Whether it holds its budget.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.verdict == Verdict::Within
    }
}

/// Everything measured and everything budgeted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BudgetReport {
    /// By family, within it by name; what was not measured comes last.
    pub rows: Vec<Row>,
}

/// Holds the measurements against the budgets.
#[must_use]
pub fn compare(measurements: Vec<Measurement>, budgets: Vec<Budget>) -> BudgetReport {
    let mut rows: Vec<Row> = Vec::new();
    for Measurement { name, unit, value, note } in measurements {
        let budget = budgets.iter().find(|budget| budget.name == name);
        let verdict = match budget {
            Some(budget) if value <= budget.limit => Verdict::Within,
            Some(_) => Verdict::Over,
            None => Verdict::NoBudget,
        };
        let why = budget.map_or_else(String::new, |budget| budget.why.clone());
        let budget = budget.map(|budget| budget.limit);
        rows.push(Row { name, unit: Some(unit), measured: Some(value), budget, note, why, verdict });
    }
    for Budget { name, limit, why } in budgets {
        if !rows.iter().any(|row| row.name == name) {
            let (note, verdict) = (String::new(), Verdict::NotMeasured);
            rows.push(Row { name, unit: None, measured: None, budget: Some(limit), note, why, verdict });
        }
    }
    let rank = |row: &Row| FAMILIES.iter().position(|(name, _)| is_of(row, name)).unwrap_or(FAMILIES.len());
    rows.sort_by(|a, b| (a.measured.is_none(), rank(a), &a.name).cmp(&(b.measured.is_none(), rank(b), &b.name)));
    BudgetReport { rows }
}

impl BudgetReport {
    /// Whether something was measured and all of it holds.
    #[must_use]
    pub fn ok(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(Row::ok)
    }

    /// The tool's exit status: 0 if every budget holds, 1 if not.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        u8::from(!self.ok())
    }

    /// The report as data.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "name": row.name,
                    "unit": row.unit.map(Unit::as_str),
                    "measured": row.measured,
                    "budget": row.budget,
                    "ok": row.ok(),
                    "verdict": row.verdict.as_str(),
                    "note": row.note,
                    "why": row.why,
                })
            })
            .collect();
        json!({ "ok": self.ok(), "rows": rows })
    }

    /// A budget file that leaves what was measured now some room, with the reasons that are known.
    /// For a change that is worth its cost: read it before it replaces the old one.
    #[must_use]
    pub fn proposal(&self) -> String {
        let mut text = format!("{PREAMBLE}\n");
        let mut section = "";
        for row in &self.rows {
            let (Some(measured), Some((family, member))) = (row.measured, row.name.split_once('.')) else { continue };
            if family != section {
                let _ = writeln!(text, "\n[{family}]"); // A string takes everything.
                section = family;
            }
            let limit = (measured + measured * ROOM_PERCENT / 100).next_multiple_of(STEP);
            let why = if row.why.is_empty() { "?" } else { &row.why };
            let _ = writeln!(
                text,
                "{member} = {{ limit = {}, why = {} }}",
                thousands(Some(limit), '_'),
                toml::Value::from(why)
            );
        }
        text
    }

    /// The report for people: a table with bars, and one sentence.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let paint = |code: &str, text: &str| match colour {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        };
        let widest = self.rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
        let mut text = String::new();
        let mut heading = String::new();
        for row in &self.rows {
            let title = title(row);
            if title != heading {
                let gap = if heading.is_empty() { "" } else { "\n" };
                let _ = writeln!(text, "{gap}{}", paint("1", &title)); // A string takes everything.
                heading = title;
            }
            let (measured, budget) = (thousands(row.measured, ' '), thousands(row.budget, ' '));
            let line = format!("  {:<widest$}  {measured:>9} of {budget:>9}  {}", row.name, bar(row));
            let remark = remark(row);
            let _ = match row.verdict {
                Verdict::Within => writeln!(text, "{line}{}", paint("2", &remark)),
                Verdict::Over | Verdict::NoBudget | Verdict::NotMeasured => {
                    writeln!(text, "{}", paint("1;31", &format!("{line}{remark}")))
                }
            };
        }
        let _ = writeln!(text, "\n{}", paint(if self.ok() { "1;32" } else { "1;31" }, &self.sentence()));
        text
    }

    fn sentence(&self) -> String {
        let count = |verdict| self.rows.iter().filter(|row| row.verdict == verdict).count();
        if self.rows.is_empty() {
            return "Nothing was measured.".into();
        }
        if self.ok() {
            return format!("All {} numbers are within their budgets.", self.rows.len());
        }
        let parts = [
            (count(Verdict::Over), "beyond budget"),
            (count(Verdict::NoBudget), "without a budget"),
            (count(Verdict::NotMeasured), "budgeted but not measured"),
        ];
        let parts: Vec<String> =
            parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        format!("{} (the limits stand in {BUDGET_FILE}).", parts.join(", "))
    }
}

impl Verdict {
    /// Its name in the report's data.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Within => "within",
            Verdict::Over => "over",
            Verdict::NoBudget => "no-budget",
            Verdict::NotMeasured => "not-measured",
        }
    }
}

fn family(name: &str) -> &str {
    name.split_once('.').map_or(name, |(family, _)| family)
}

/// Whether the row is of the family; of an algorithm's family it knows only how the name begins.
fn is_of(row: &Row, name: &str) -> bool {
    match name {
        ELECTION | MUTEX => family(&row.name).starts_with(name),
        _ => family(&row.name) == name,
    }
}

fn title(row: &Row) -> String {
    if row.measured.is_none() {
        return "Not measured".into();
    }
    let family = family(&row.name);
    match FAMILIES.into_iter().find(|(name, _)| is_of(row, name)) {
        Some((prefix @ (ELECTION | MUTEX), heading)) => {
            let algorithm = family.strip_prefix(prefix).unwrap_or(family);
            format!("{heading} by {algorithm}: handling one message, in instructions")
        }
        Some((_, heading)) => heading.to_owned(),
        None => family.to_owned(),
    }
}

fn percent(row: &Row) -> Option<u64> {
    let (measured, budget) = (row.measured?, row.budget?);
    Some((measured * 100).div_ceil(budget.max(1)))
}

fn bar(row: &Row) -> String {
    let filled = percent(row).map_or(0, |percent| (percent * BAR / 100).min(BAR));
    (0..BAR).map(|cell| if cell < filled { '█' } else { '░' }).collect()
}

fn remark(row: &Row) -> String {
    let share = percent(row).map_or(String::new(), |percent| format!(" {percent:>3} %"));
    match (row.verdict, row.measured, row.budget) {
        (Verdict::Over, Some(measured), Some(budget)) => format!("{share}  over by {}", measured - budget),
        (Verdict::NoBudget, _, _) => format!("        no budget: add it to {BUDGET_FILE}"),
        (Verdict::NotMeasured, _, _) => {
            format!("        nothing of that name was measured: take it out of {BUDGET_FILE}")
        }
        (Verdict::Within, _, _) if percent(row).is_some_and(|percent| percent < 100 - SLACK_PERCENT) => {
            format!("{share}  {}, a tighter budget would do", row.note)
        }
        (Verdict::Within | Verdict::Over, _, _) => format!("{share}  {}", row.note),
    }
}

fn thousands(number: Option<u64>, separator: char) -> String {
    let Some(number) = number else { return "-".into() };
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(separator);
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(name: &str, value: u64) -> Measurement {
        Measurement { name: name.into(), unit: Unit::Instructions, value, note: "3 ×".into() }
    }

    fn budget(name: &str, limit: u64) -> Budget {
        Budget { name: name.into(), limit, why: "because".into() }
    }

    fn verdicts(report: &BudgetReport) -> Vec<Verdict> {
        report.rows.iter().map(|row| row.verdict).collect()
    }

    #[test]
    fn a_number_at_its_limit_holds_and_one_above_fails() {
        let report = compare(vec![measured("handle.token", 100)], vec![budget("handle.token", 100)]);
        assert!(report.ok() && report.exit_code() == 0);
        assert!(report.render(false).contains("All 1 numbers are within their budgets."));
        let report = compare(vec![measured("handle.token", 101)], vec![budget("handle.token", 100)]);
        assert_eq!(verdicts(&report), [Verdict::Over]);
        assert_eq!(report.exit_code(), 1);
        let text = report.render(false);
        assert!(text.contains("over by 1") && text.contains("1 beyond budget"), "{text}");
    }

    #[test]
    fn a_number_without_budget_fails() {
        let report = compare(vec![measured("handle.token", 1)], vec![]);
        assert_eq!(verdicts(&report), [Verdict::NoBudget]);
        assert_eq!(report.exit_code(), 1);
        assert!(report.render(false).contains("no budget: add it"));
    }

    #[test]
    fn a_budget_without_measurement_fails() {
        let report = compare(vec![measured("a.b", 1)], vec![budget("a.b", 1), budget("a.gone", 5)]);
        assert_eq!(verdicts(&report), [Verdict::Within, Verdict::NotMeasured]);
        assert_eq!(report.exit_code(), 1);
        assert_eq!(compare(vec![], vec![]).exit_code(), 1, "an empty report is no success");
    }

    #[test]
    fn rows_stand_in_families_and_by_name() {
        let names =
            ["image.ram", "mutex-voting.grant", "handle.token", "mutex-central.ok", "handle.ack", "image.flash"];
        let report = compare(names.map(|name| measured(name, 1)).to_vec(), names.map(|name| budget(name, 2)).to_vec());
        let order: Vec<&str> = report.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(
            order,
            ["image.flash", "image.ram", "handle.ack", "handle.token", "mutex-central.ok", "mutex-voting.grant"]
        );
        let text = report.render(false);
        assert!(text.contains("Mutual exclusion by central: handling one message"), "{text}");
    }

    #[test]
    fn a_proposal_can_be_read_and_holds_with_room() {
        let measurements = vec![measured("handle.token", 10_000), measured("make.ack", 999)];
        let text = compare(measurements.clone(), vec![budget("handle.token", 1)]).proposal();
        let budgets = crate::budget::parse_budgets(&text).unwrap();
        assert_eq!(budgets[0], Budget { name: "handle.token".into(), limit: 11_200, why: "because".into() });
        assert!(compare(measurements, budgets).ok());
    }

    #[test]
    fn the_data_holds_every_row_and_colour_is_only_on_request() {
        let report = compare(vec![measured("make.ack", 12_345)], vec![budget("make.ack", 13_000)]);
        let data = report.to_json();
        assert_eq!(data["ok"], true);
        assert_eq!(data["rows"][0]["measured"], 12_345);
        assert_eq!(data["rows"][0]["budget"], 13_000);
        assert_eq!(data["rows"][0]["unit"], "instructions");
        assert!(report.render(false).contains("12 345 of    13 000"), "{}", report.render(false));
        assert!(!report.render(false).contains('\x1b') && report.render(true).contains("\x1b["));
    }
}
