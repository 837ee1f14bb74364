//! The pictures: p99 by peer and family, the error over time, and the two envelopes of the offset.

use crate::{
    families::{Exchange, LENGTH_S, REFERENCE_START_US, SAMPLES_A_SECOND, Trace, by_name},
    run::{Results, Row},
    svg::{COLOURS, Decades, Svg},
};

/// The name of each picture, and the picture.
#[must_use]
pub fn draw(results: &[Results]) -> Vec<(&'static str, String)> {
    vec![
        ("disciplined-clock-peers.svg", peers(results)),
        ("disciplined-clock-errors.svg", errors(results)),
        ("disciplined-clock-hull.svg", hull()),
    ]
}

/// The colour of the row at `at`: rivals have one each, the textbook's clocks shades of grey.
fn colour(rows: &[Row], at: usize) -> &'static str {
    let alike = |row: &&Row| row.rival == rows[at].rival && !["ours", "oracle"].contains(&row.peer);
    let nth = rows[..at].iter().filter(alike).count();
    match rows[at].peer {
        "ours" => COLOURS[0],
        "oracle" => COLOURS[6],
        _ if rows[at].rival => {
            [COLOURS[1], COLOURS[4], COLOURS[2], COLOURS[7], COLOURS[3], COLOURS[5], "#7a3b00"][nth % 7]
        }
        _ => ["#666666", "#999999", "#c4c4c4"][nth % 3],
    }
}

/// A square for a rival, a dot for the others, a large one for ours.
fn mark(svg: &mut Svg, rows: &[Row], at: usize, (x, y): (f64, f64)) {
    let fill = format!("fill=\"{}\"", colour(rows, at));
    if rows[at].rival {
        svg.rect((x - 4.0, y - 4.0), (8.0, 8.0), &fill);
    } else {
        svg.dot((x, y), if rows[at].peer == "ours" { 6.0 } else { 4.0 }, &fill);
    }
}

/// A mark for each clock, in a column for each family.
fn peers(results: &[Results]) -> String {
    const COLUMN: f64 = 88.0;
    let (left, top, height) = (70.0, 70.0, 420.0);
    let width = left + COLUMN * results.len() as f64;
    let mut svg = Svg::new(width + 190.0, top + height + 60.0, "p99 of the error, by clock and family");
    let scale = Decades::new(0.3, 20_000.0, top + height, top);
    for tick in scale.ticks() {
        svg.line([(left, scale.at(tick)), (width, scale.at(tick))], "stroke=\"#ddd\"");
        svg.text((left - 8.0, scale.at(tick) + 4.0), "text-anchor=\"end\" fill=\"#555\"", &format!("{tick} µs"));
    }
    for (column, of) in results.iter().enumerate() {
        let x = left + COLUMN * (column as f64 + 0.5);
        svg.text((x, top + height + 22.0), "text-anchor=\"middle\"", of.family.name);
        svg.line([(x + COLUMN / 2.0, top), (x + COLUMN / 2.0, top + height)], "stroke=\"#eee\"");
        for (at, row) in of.rows.iter().enumerate() {
            let spread = (at as f64 / (of.rows.len() - 1).max(1) as f64 - 0.5) * COLUMN * 0.75;
            let y = scale.at(row.measured.p99_us);
            let stem = format!("stroke=\"{}\" stroke-opacity=\"0.3\"", colour(&of.rows, at));
            svg.line([(x + spread, top + height), (x + spread, y)], &stem);
            mark(&mut svg, &of.rows, at, (x + spread, y));
        }
    }
    let rows = results.first().map(|of| of.rows.as_slice()).unwrap_or_default();
    for (at, row) in rows.iter().enumerate() {
        let y = top + 10.0 + 20.0 * at as f64;
        mark(&mut svg, rows, at, (width + 20.0, y));
        svg.text((width + 32.0, y + 4.0), "", row.peer);
    }
    svg.finish()
}

/// The error of the first seed over time: ours, the best rival and the oracle, a panel each family.
fn errors(results: &[Results]) -> String {
    let (left, top, width, height, gap) = (80.0, 80.0, 760.0, 110.0, 46.0);
    let total = top + (height + gap) * results.len() as f64;
    let mut svg = Svg::new(left + width + 30.0, total, "Error over time, first seed, the worst of every half minute");
    for (panel, of) in results.iter().enumerate() {
        let from = top + (height + gap) * panel as f64;
        let scale = Decades::new(0.1, 1_000.0, from + height, from);
        svg.text((left, from - 8.0), "font-weight=\"bold\"", of.family.name);
        for tick in scale.ticks() {
            svg.line([(left, scale.at(tick)), (left + width, scale.at(tick))], "stroke=\"#ddd\"");
            svg.text((left - 8.0, scale.at(tick) + 4.0), "text-anchor=\"end\" fill=\"#555\"", &format!("{tick} µs"));
        }
        let shown = [
            of.best_rival().map(|best| (best, 1)),
            of.row("oracle").map(|row| (row, 6)),
            of.row("ours").map(|row| (row, 0)),
        ];
        let mut legend = left + 60.0;
        for (row, colour) in shown.into_iter().flatten() {
            let half_minutes = row.measured.errors_us.chunks(30 * SAMPLES_A_SECOND).enumerate();
            let points = half_minutes.map(|(at, errors)| {
                let worst = errors.iter().fold(0.0_f32, |worst, error| worst.max(error.abs()));
                (left + width * (at as f64 * 30.0 + 15.0) / LENGTH_S as f64, scale.at(f64::from(worst).max(0.1)))
            });
            svg.line(points, &format!("stroke=\"{}\" stroke-width=\"1.4\"", COLOURS[colour]));
            svg.text((legend, from - 8.0), &format!("fill=\"{}\"", COLOURS[colour]), row.peer);
            legend += 30.0 + 8.0 * row.peer.len() as f64;
        }
        for hour in 0..=2 {
            let x = left + width * f64::from(hour) * 3_600.0 / LENGTH_S as f64;
            svg.text((x, from + height + 16.0), "text-anchor=\"middle\" fill=\"#555\"", &format!("{hour} h"));
        }
    }
    svg.finish()
}

/// Two minutes of `asym`: each request says that the reference is at most so far ahead, each answer that it is at
/// least so far; the hulls of both, and the true offset between them. The crystal's known 40 ppm are taken away,
/// or the picture would be one steep line.
fn hull() -> String {
    const FROM_S: usize = 1_000;
    const FOR_S: usize = 120;
    let Some(family) = by_name("asym") else { return String::new() };
    let trace = Trace::new(family, 1);
    let piece: Vec<&Exchange> =
        trace.exchanges.iter().filter(|one| (FROM_S..FROM_S + FOR_S).contains(&one.second)).collect();
    let Some(first) = piece.first() else { return String::new() };
    let ahead = |tick: u64, reference: f64| reference - tick as f64;
    let start = ahead(first.h1, trace.crystal.reference_at(first.h1));
    let last = piece[piece.len() - 1];
    let slope = (ahead(last.h1, trace.crystal.reference_at(last.h1)) - start) / (last.h1 - first.h1) as f64;
    let level = |tick: u64, reference: f64| ahead(tick, reference) - start - slope * (tick as f64 - first.h1 as f64);
    let second = |tick: u64| (tick as f64 - first.h1 as f64) / 1e6;
    let upper: Vec<(f64, f64)> = piece.iter().map(|one| (second(one.h1), level(one.h1, one.t2 as f64))).collect();
    let lower: Vec<(f64, f64)> = piece.iter().map(|one| (second(one.h4), level(one.h4, one.t3 as f64))).collect();

    let (left, top, width, height) = (90.0, 60.0, 800.0, 420.0);
    let mut svg = Svg::new(left + width + 40.0, top + height + 70.0, "The offset lies between two envelopes");
    let (low, high) = (-1_500.0, 800.0);
    let place = |(s, us): (f64, f64)| {
        (left + width * s / FOR_S as f64, top + height * (high - us.clamp(low, high)) / (high - low))
    };
    for us in [-1_500, -1_000, -500, 0, 500] {
        let (x, y) = place((0.0, f64::from(us)));
        svg.line([(x, y), (x + width, y)], "stroke=\"#ddd\"");
        svg.text((x - 8.0, y + 4.0), "text-anchor=\"end\" fill=\"#555\"", &format!("{us} µs"));
    }
    for s in [0, 30, 60, 90, 120] {
        let (x, _) = place((f64::from(s), 0.0));
        svg.text((x, top + height + 20.0), "text-anchor=\"middle\" fill=\"#555\"", &format!("{s} s"));
    }
    let envelopes = [
        (&upper, 1, 1.0, "requests: the reference is at most so far ahead (T2 − H1)", 700.0),
        (&lower, 2, -1.0, "answers: it is at least so far ahead (T3 − H4)", -1_400.0),
    ];
    for (points, colour, side, words, at) in envelopes {
        for point in points {
            svg.dot(place(*point), 2.2, &format!("fill=\"{}\" fill-opacity=\"0.6\"", COLOURS[colour]));
        }
        let edge = convex(points, side);
        svg.line(edge.into_iter().map(place), &format!("stroke=\"{}\" stroke-width=\"2\"", COLOURS[colour]));
        svg.text((left + 10.0, place((0.0, at)).1), &format!("fill=\"{}\"", COLOURS[colour]), words);
    }
    let truth = piece.iter().map(|one| place((second(one.h1), level(one.h1, trace.crystal.reference_at(one.h1)))));
    svg.line(truth, &format!("stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"6 4\"", COLOURS[0]));
    svg.text(
        (left + width - 10.0, place((0.0, 0.0)).1 - 8.0),
        &format!("text-anchor=\"end\" fill=\"{}\"", COLOURS[0]),
        "the true offset",
    );
    let from = trace.crystal.reference_at(first.h1) - REFERENCE_START_US as f64;
    let words =
        format!("asym, seed 1, from {:.0} s on; each point one datagram, a constant rate taken away", from / 1e6);
    svg.text((left, top + height + 46.0), "fill=\"#555\"", &words);
    svg.finish()
}

/// The lower convex hull of points in the order of x; with `side` −1 the upper one.
fn convex(points: &[(f64, f64)], side: f64) -> Vec<(f64, f64)> {
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for point in points {
        while let [.., a, b] = hull.as_slice()
            && side * ((b.0 - a.0) * (point.1 - a.1) - (b.1 - a.1) * (point.0 - a.0)) <= 0.0
        {
            hull.pop();
        }
        hull.push(*point);
    }
    hull
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hull_has_every_point_on_its_side() {
        let points: Vec<(f64, f64)> =
            (0..200).map(|at| (f64::from(at), f64::from(at * 7_919 % 83) + 0.1 * f64::from(at))).collect();
        for side in [1.0, -1.0] {
            let hull = convex(&points, side);
            assert!(hull.len() >= 3);
            for pair in hull.windows(2) {
                for point in &points {
                    let (a, b) = (pair[0], pair[1]);
                    let edge = a.1 + (b.1 - a.1) / (b.0 - a.0) * (point.0 - a.0);
                    assert!(side * (point.1 - edge) > -1e-9 || !(a.0..=b.0).contains(&point.0));
                }
            }
        }
    }
}
