//! The comparison over N, as a picture: logarithmic both ways, so that a power of N is a straight line.

use std::fmt::Write as _;

/// Apart also for those who see few colours (Okabe and Ito).
const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a7a00"];
const PANEL: (f64, f64) = (380.0, 340.0);
const LEFT: f64 = 60.0;
const TOP: f64 = 70.0;
const GAP: f64 = 60.0;
const LEGEND: f64 = 230.0;

/// One line of a panel.
pub struct Series {
    /// Its name in the legend; the same name has the same colour in every panel.
    pub name: String,
    /// N, measured, and what the book says where it says one number.
    pub points: Vec<(u16, f64, Option<f64>)>,
}

/// One plot.
pub struct Panel {
    /// What stands above it.
    pub title: String,
    /// Its lines.
    pub series: Vec<Series>,
}

/// Draws panels side by side, with one legend.
pub fn draw(title: &str, y_label: &str, panels: &[Panel]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for series in panels.iter().flat_map(|panel| &panel.series) {
        if !names.contains(&series.name.as_str()) {
            names.push(&series.name);
        }
    }
    let width = LEFT + (PANEL.0 + GAP) * panels.len() as f64 + LEGEND;
    let height = TOP + PANEL.1 + 60.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    text(&mut svg, (LEFT, 26.0), "font-size=\"16\" font-weight=\"bold\"", title);
    for (at, panel) in panels.iter().enumerate() {
        plot(&mut svg, LEFT + (PANEL.0 + GAP) * at as f64, y_label, panel, &names);
    }
    let x = LEFT + (PANEL.0 + GAP) * panels.len() as f64 - GAP + 24.0;
    for (at, name) in names.iter().enumerate() {
        let y = TOP + 10.0 + 20.0 * at as f64;
        mark(&mut svg, at, (x, y));
        text(&mut svg, (x + 12.0, y + 4.0), "", name);
    }
    let y = TOP + 24.0 + 20.0 * names.len() as f64;
    let _ = writeln!(svg, "<path d=\"M{} {y}h16\" {DASHED} stroke=\"#555\"/>", x - 6.0);
    text(&mut svg, (x + 16.0, y + 4.0), "", "the book's formula");
    svg.push_str("</svg>\n");
    svg
}

const DASHED: &str = "fill=\"none\" stroke-dasharray=\"4 3\" stroke-width=\"1.2\"";

fn plot(svg: &mut String, left: f64, y_label: &str, panel: &Panel, names: &[&str]) {
    let points = || panel.series.iter().flat_map(|series| &series.points);
    let counts: std::collections::BTreeSet<u16> = points().map(|point| point.0).collect();
    let (Some(first), Some(last)) = (counts.first(), counts.last()) else { return };
    let span = |low: f64, high: f64| (low.ln(), (high.ln() - low.ln()).max(0.1));
    let (x_low, x_span) = span(f64::from(*first), f64::from(*last));
    let most = points().map(|point| point.1).fold(2.0, f64::max);
    let (y_low, y_span) = span(0.8, most * 1.3);
    let x = |count: u16| left + (f64::from(count).ln() - x_low) / x_span * PANEL.0;
    let y = |value: f64| TOP + PANEL.1 - (value.max(0.8).ln() - y_low) / y_span * PANEL.1;
    text(svg, (left, TOP - 14.0), "font-weight=\"bold\"", &panel.title);
    let bottom = TOP + PANEL.1;
    for value in (0..5).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u32.pow(power))) {
        if f64::from(value) <= most * 1.3 {
            let at = y(f64::from(value));
            let _ = writeln!(svg, "<path d=\"M{left:.1} {at:.1}h{}\" stroke=\"#ddd\"/>", PANEL.0);
            text(svg, (left - 6.0, at + 4.0), "text-anchor=\"end\" fill=\"#555\"", &value.to_string());
        }
    }
    for count in &counts {
        let _ = writeln!(svg, "<path d=\"M{:.1} {bottom:.1}v5\" stroke=\"#555\"/>", x(*count));
        text(svg, (x(*count), bottom + 18.0), "text-anchor=\"middle\" fill=\"#555\"", &count.to_string());
    }
    text(svg, (left + PANEL.0 / 2.0, bottom + 38.0), "text-anchor=\"middle\"", "N");
    let (x_mid, y_mid) = (left - 40.0, TOP + PANEL.1 / 2.0);
    let turned = format!("text-anchor=\"middle\" transform=\"rotate(-90 {x_mid} {y_mid})\"");
    text(svg, (x_mid, y_mid), &turned, y_label);
    for series in &panel.series {
        let at = names.iter().position(|name| *name == series.name).unwrap_or(0);
        let colour = COLOURS[at % COLOURS.len()];
        let path = |points: Vec<(u16, f64)>| {
            let steps = points.iter().enumerate();
            steps.fold(String::new(), |mut path, (at, (count, value))| {
                let _ = write!(path, "{}{:.1} {:.1}", if at == 0 { 'M' } else { 'L' }, x(*count), y(*value));
                path
            })
        };
        let book = path(series.points.iter().filter_map(|point| Some((point.0, point.2?))).collect());
        let line = path(series.points.iter().map(|point| (point.0, point.1)).collect());
        let _ = writeln!(
            svg,
            "<path d=\"{line}\" fill=\"none\" stroke=\"{colour}\" stroke-opacity=\"0.35\" stroke-width=\"4\"/>"
        );
        let _ = writeln!(svg, "<path d=\"{book}\" {DASHED} stroke=\"{colour}\"/>");
        for (count, value, _) in &series.points {
            mark(svg, at, (x(*count), y(*value)));
        }
    }
}

/// A different shape where colours come round again; the first ones are larger, and show where the last cover them.
fn mark(svg: &mut String, at: usize, (x, y): (f64, f64)) {
    let colour = COLOURS[at % COLOURS.len()];
    let _ = match at / COLOURS.len() % 2 {
        0 => writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{}\" fill=\"{colour}\"/>", 7.0 - 0.5 * at as f64),
        _ => writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\" fill=\"{colour}\"/>",
            x - 4.0,
            y - 4.0
        ),
    };
}

fn text(svg: &mut String, (x, y): (f64, f64), attributes: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{words}</text>");
}
