//! The same scenario on several stages: their figures in one table.

use compasso_checker::span;
use serde_json::Value;
use std::fmt::Write as _;

const LABEL: usize = 22;
const COLUMN: usize = 17;

/// The figures of several runs, a column each. Runs that have none say so.
pub fn render(documents: &[Value]) -> String {
    let mut out = format!("\x1b[1m{:<LABEL$}\x1b[0m", "Side by side");
    for document in documents {
        let _ = write!(out, " \x1b[1m{:>COLUMN$}\x1b[0m", document["stage"].as_str().unwrap_or("no result"));
    }
    out.push('\n');
    type Figure = fn(&Value) -> Option<String>;
    let rows: [(&str, Figure); 9] = [
        ("leaders in order", |run| Some(leaders(run)?.iter().map(u64::to_string).collect::<Vec<_>>().join(" "))),
        ("entries", |run| count(&run["mutex"]["entries"])),
        ("waiting, median", |run| time(&run["mutex"]["client_delay_us"]["median"])),
        ("waiting, p99", |run| time(&run["mutex"]["client_delay_us"]["p99"])),
        ("messages an entry", |run| Some(format!("{:.2}", run["mutex"]["messages_per_entry"].as_f64()?))),
        ("clock error, p99", |run| time(&run["clock"]["error_us"]["p99"])),
        ("clock bound, p99", |run| time(&run["clock"]["bound_us"]["p99"])),
        ("events", |run| count(&run["events"])),
        ("violations", |run| Some(run["violations"].as_array()?.len().to_string())),
    ];
    for (label, figure) in rows {
        let figures: Vec<Option<String>> = documents.iter().map(figure).collect();
        if figures.iter().all(Option::is_none) {
            continue; // The scenario has nothing of the kind.
        }
        let _ = write!(out, "{label:<LABEL$}");
        for figure in figures {
            let _ = write!(out, " {:>COLUMN$}", figure.as_deref().unwrap_or("–"));
        }
        out.push('\n');
    }
    let orders: Vec<_> = documents.iter().filter_map(leaders).collect();
    if orders.len() == documents.len() {
        let same = orders.windows(2).all(|pair| pair[0] == pair[1]);
        out.push_str(if same { "The same leaders in the same order.\n" } else { "The leaders differ.\n" });
    }
    out
}

/// Who led, in order. Whoever is elected again at once leads on. Boards in real time are not switched on in one moment:
/// who led only before the first thing that the scenario did to them says when they woke up, and nothing else.
fn leaders(run: &Value) -> Option<Vec<u64>> {
    let spans = run["election"]["leaders"].as_array()?;
    let first = run["faults"][0]["at_us"].as_i64();
    let counts = |span: &&Value| first.zip(span["until_us"].as_i64()).is_none_or(|(first, until)| until >= first);
    let mut order: Vec<u64> = spans.iter().filter(counts).filter_map(|span| span["leader"].as_u64()).collect();
    order.dedup();
    Some(order)
}

fn count(value: &Value) -> Option<String> {
    value.as_u64().map(|count| count.to_string())
}

fn time(value: &Value) -> Option<String> {
    value.as_i64().map(span)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(stage: &str, leaders: &[u64]) -> Value {
        let spans: Vec<Value> = leaders.iter().map(|leader| json!({ "leader": leader })).collect();
        json!({ "stage": stage, "events": 7, "violations": [], "election": { "leaders": spans }, "mutex": null })
    }

    #[test]
    fn leaders_are_compared_by_their_order_and_not_by_their_terms() {
        let table = render(&[run("sim", &[4, 3, 4]), run("rp2040", &[4, 4, 3, 4])]);
        assert!(table.contains("4 3 4") && table.contains("The same leaders in the same order."), "{table}");
        let table = render(&[run("sim", &[4, 3, 4]), run("rp2040", &[3, 4])]);
        assert!(table.contains("The leaders differ."), "{table}");
    }

    #[test]
    fn who_led_only_while_boards_woke_up_is_left_out() {
        let led = |leader: u64, until_us: i64| json!({ "leader": leader, "until_us": until_us });
        let leaders = [led(3, 90), led(4, 500), led(3, 900)];
        let mut early = json!({ "stage": "qemu", "election": { "leaders": leaders }, "faults": [{ "at_us": 500 }] });
        assert_eq!(super::leaders(&early), Some(vec![4, 3]));
        early["faults"] = json!([]);
        assert_eq!(super::leaders(&early), Some(vec![3, 4, 3]), "without faults all count");
    }

    #[test]
    fn what_no_run_has_is_left_out_and_a_run_without_a_result_says_so() {
        let table = render(&[run("sim", &[4]), json!({ "error": "no QEMU", "exit": 3 })]);
        assert!(
            table.contains("no result") && !table.contains("entries") && !table.contains("leaders differ"),
            "{table}"
        );
    }
}
