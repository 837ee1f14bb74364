//! The page: everything that can be read without a script, and the data for what cannot.

use crate::data::{MARKS_MAX, MESSAGES_MAX, VISITS_MAX};
use compasso_checker::{many, span};
use serde_json::Value;
use std::fmt::Write as _;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Writes the page.
pub(crate) fn write(summary: &Value, data: &Value) -> String {
    let mut out = String::new();
    let title = format!("{} on {}, seed {}", text(&summary["scenario"]), text(&summary["stage"]), summary["seed"]);
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{}</h1>\n",
        escape(&title),
        escape(&title)
    );
    let _ = writeln!(
        out,
        "<p class=\"faint\">{}, {}, {}</p>",
        many(summary["nodes"].as_u64().unwrap_or(0), "node"),
        span(summary["duration_us"].as_i64().unwrap_or(0)),
        many(summary["events"].as_u64().unwrap_or(0), "event")
    );
    verdict(&mut out, summary);
    diagram(&mut out, data);
    clocks(&mut out, data);
    tables(&mut out, summary);
    judged(&mut out, summary);
    // A script element ends at the first "</script": no text of a trace may hold one.
    let embedded = data.to_string().replace('<', "\\u003c");
    let _ = write!(
        out,
        "<div id=\"tip\"></div>\n<script type=\"application/json\" id=\"data\">{embedded}</script>\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    );
    out
}

fn verdict(out: &mut String, summary: &Value) {
    let told = list(&summary["violations"]);
    let untold: u64 = summary["untold"].as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum();
    let missed = list(&summary["expectations"]).iter().filter(|expectation| expectation["ok"] == false).count();
    if told.is_empty() && missed == 0 {
        out.push_str("<p class=\"verdict good\">Every promise held.</p>\n");
        return;
    }
    let _ = writeln!(
        out,
        "<p class=\"verdict bad\">{} broken, {} missed.</p>",
        many(told.len() as u64 + untold, "promise"),
        many(missed as u64, "expectation")
    );
    if !told.is_empty() {
        out.push_str("<div class=\"wide\"><table>\n<tr><th>broken</th><th>at</th><th>what happened</th><th>events</th><th></th></tr>\n");
        for (index, violation) in told.iter().enumerate() {
            let events: Vec<&str> = list(&violation["events"]).iter().filter_map(Value::as_str).collect();
            let _ = writeln!(
                out,
                "<tr><td class=\"bad\">{}</td><td>{}</td><td>{}</td><td><code>{}</code></td>\
                 <td><button data-jump=\"{index}\">show</button></td></tr>",
                escape(text(&violation["property"])),
                span(violation["at_us"].as_i64().unwrap_or(0)),
                escape(text(&violation["detail"])),
                escape(&events.join(", "))
            );
        }
        out.push_str("</table></div>\n");
    }
    if untold > 0 {
        let _ = writeln!(out, "<p class=\"faint\">and {untold} more of the same properties</p>");
    }
    let _ = writeln!(out, "<p>To repeat it: <code>{}</code></p>", escape(text(&summary["repeat"])));
}

fn diagram(out: &mut String, data: &Value) {
    out.push_str("<h2>Who did what when</h2>\n<div class=\"tools\">\n");
    for (colour, what) in [
        ("visit", "inside"),
        ("lead", "leads"),
        ("down", "crashed or paused"),
        ("message", "message"),
        ("bad", "fault"),
    ] {
        let _ =
            writeln!(out, "<span><span class=\"swatch\" style=\"background: var(--{colour})\"></span>{what}</span>");
    }
    out.push_str(
        "<span class=\"faint\">○ boot · ? election · ★ leader · ◇ view · ! suspects · ✓ trusts · • token · ✚ token made · \
         ✗ token lost · ⊘ fenced · ‹ request</span>\n\
         <button id=\"in\">closer</button><button id=\"out\">farther</button><button id=\"all\">all of it</button>\n</div>\n\
         <canvas id=\"diagram\" tabindex=\"0\" aria-label=\"space-time diagram, one lane a node\"></canvas>\n\
         <noscript><p>The diagrams need JavaScript; the tables do not.</p></noscript>\n",
    );
    let shown = |what: &str, most: usize| {
        let (drawn, all) = (list(&data[what]).len(), data[format!("{what}_of")].as_u64().unwrap_or(0));
        if drawn as u64 == all { format!("{all} {what}") } else { format!("{drawn} of {all} {what} (at most {most})") }
    };
    let _ = writeln!(
        out,
        "<p class=\"faint\">Drag to move, turn the wheel to zoom, point at something to read it. Drawn: {}, {}, {}. Of \
         messages only the algorithms' own, not heartbeats and acknowledgements; all of them are in <code>trace.jsonl</code>.</p>",
        shown("visits", VISITS_MAX),
        shown("messages", MESSAGES_MAX),
        shown("marks", MARKS_MAX)
    );
}

fn clocks(out: &mut String, data: &Value) {
    if list(&data["clock"]).is_empty() {
        return;
    }
    out.push_str(
        "<h2>How far each clock is from the coordinator's</h2>\n<canvas id=\"clock\" aria-label=\"clock error over time, one \
         curve a node\"></canvas>\n<p class=\"faint\">Ahead is up. The same time as above; of each stretch the worst.</p>\n",
    );
}

/// The summary's sections, as they are.
fn tables(out: &mut String, summary: &Value) {
    out.push_str("<h2>Summary</h2>\n");
    for name in ["election", "mutex", "clock", "deadlock", "network"] {
        let Some(section) = summary[name].as_object() else { continue };
        let _ = writeln!(out, "<h3>{name}</h3>\n<div class=\"wide\"><table>");
        for (key, value) in section.iter().filter(|(key, _)| key.as_str() != "leaders") {
            let _ = writeln!(out, "<tr><th>{}</th><td>{}</td></tr>", escape(&key.replace('_', " ")), cell(key, value));
        }
        out.push_str("</table></div>\n");
    }
}

fn cell(key: &str, value: &Value) -> String {
    let is_span = key.ends_with("_us") || ["after_convergence"].contains(&key);
    match value {
        Value::Null => "–".to_owned(),
        Value::Number(number) => match number.as_i64().filter(|_| is_span) {
            Some(us) => span(us),
            None => number.to_string(),
        },
        Value::Object(map) if map.is_empty() => "none".to_owned(),
        Value::Object(map) => {
            let part = |(name, value): (&String, &Value)| {
                let name_is_span = if is_span { "value_us" } else { name.as_str() };
                format!("{} {}", escape(name), cell(name_is_span, value))
            };
            map.iter().map(part).collect::<Vec<_>>().join(", ")
        }
        Value::Array(items) => items.iter().map(|item| cell(key, item)).collect::<Vec<_>>().join(", "),
        Value::String(word) => escape(word),
        Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
    }
}

fn judged(out: &mut String, summary: &Value) {
    let expectations = list(&summary["expectations"]);
    if !expectations.is_empty() {
        out.push_str(
            "<h2>Expected</h2>\n<div class=\"wide\"><table>\n<tr><th></th><th>wanted</th><th>got</th><th></th></tr>\n",
        );
        for row in expectations {
            let (class, word) = if row["ok"] == true { ("good", "met") } else { ("bad", "missed") };
            let _ = writeln!(
                out,
                "<tr><th>{}</th><td>{}</td><td>{}</td><td class=\"{class}\">{word}</td></tr>",
                escape(text(&row["name"])),
                escape(&row["wanted"].to_string()),
                escape(&row["got"].to_string())
            );
        }
        out.push_str("</table></div>\n");
    }
    let checked: Vec<&str> = list(&summary["checked"]).iter().filter_map(Value::as_str).collect();
    let _ = writeln!(out, "<h2>Checked</h2>\n<p>{}</p>", escape(&checked.join(", ")));
    out.push_str("<div class=\"wide\"><table>\n");
    for item in list(&summary["not_checked"]) {
        let label = if item["partly"] == true { "in part" } else { "not checked" };
        let _ = writeln!(
            out,
            "<tr><td class=\"faint\">{label}</td><th>{}</th><td>{}</td><td>{}</td></tr>",
            escape(text(&item["property"])),
            escape(text(&item["reason"])),
            item["count"]
        );
    }
    out.push_str("</table></div>\n");
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
