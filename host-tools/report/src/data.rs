//! What the diagrams draw, thinned out to what an eye can tell apart.

use compasso_checker::{Entries, Event, Fault, Trace, TraceEvent, summary::clock_errors};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// No more messages are drawn.
pub const MESSAGES_MAX: usize = 3000;
/// No more visits to critical sections are drawn.
pub const VISITS_MAX: usize = 4000;
/// No more marks on the lanes are drawn.
pub const MARKS_MAX: usize = 4000;
/// A clock's curve has no more points.
const POINTS_MAX: usize = 300;
/// Around a violation everything is drawn, as long as there is room.
const CLOSE_US: i64 = 500_000;

/// The diagrams' data, as the page's script reads it.
pub(crate) fn collect(events: &[TraceEvent], summary: &Value) -> Value {
    let trace = Trace::new(events, None);
    let lanes: Vec<u16> = trace.setting.ids.clone();
    let lane = |id: u16| lanes.iter().position(|other| *other == id);
    let places: HashMap<String, usize> = match summary["violations"].as_array() {
        Some(violations) if !violations.is_empty() => {
            events.iter().enumerate().map(|(index, event)| (event.name(), index)).collect()
        }
        _ => HashMap::new(),
    };
    let violations = violations(events, summary, &places, &lane);
    let close = Close(violations.iter().filter_map(|violation| violation[1].as_i64()).collect());
    let (messages, messages_of) = messages(&trace, summary, &close, &lane);
    let (visits, visits_of) = visits(&trace, &close, &lane);
    let (marks, marks_of) = marks(events, &close, &lane);
    json!({
        "end": trace.end_us.or_else(|| events.iter().map(TraceEvent::at_us).max()).unwrap_or(1).max(1),
        "lanes": lanes,
        "visits": visits, "visits_of": visits_of,
        "marks": marks, "marks_of": marks_of,
        "messages": messages, "messages_of": messages_of,
        "down": down(&trace, &lane),
        "faults": trace.faults.iter().map(|(at, fault)| json!([at, tell(fault)])).collect::<Vec<_>>(),
        "leads": leads(summary, &lane),
        "clock": clocks(events),
        "violations": violations,
    })
}

/// Moments around which nothing is left out.
struct Close(Vec<i64>);

impl Close {
    fn to(&self, at: i64) -> bool {
        self.0.iter().any(|moment| (at - moment).abs() < CLOSE_US)
    }
}

/// At most `most`: those close to a violation, then the others evenly.
fn thin<T>(items: Vec<T>, most: usize, close: impl Fn(&T) -> bool) -> Vec<T> {
    if items.len() <= most {
        return items;
    }
    let near: Vec<bool> = items.iter().map(close).collect();
    let nearby = near.iter().filter(|near| **near).count();
    let room = most.saturating_sub(nearby);
    let every = (items.len() - nearby).div_ceil(room.max(1)).max(1);
    let mut others = 0;
    let kept = items.into_iter().zip(near).filter(|(_, near)| {
        others += usize::from(!near);
        *near || (room > 0 && (others - 1) % every == 0)
    });
    kept.map(|(item, _)| item).take(most).collect()
}

fn violations(
    events: &[TraceEvent],
    summary: &Value,
    places: &HashMap<String, usize>,
    lane: &impl Fn(u16) -> Option<usize>,
) -> Vec<Value> {
    let told = summary["violations"].as_array().map_or(&[][..], Vec::as_slice);
    let place = |name: &Value| {
        let event = events.get(*places.get(name.as_str()?)?)?;
        Some(json!([lane(event.node_id()?)?, event.at_us(), name]))
    };
    told.iter()
        .map(|violation| {
            let events: Vec<Value> = violation["events"].as_array().into_iter().flatten().filter_map(place).collect();
            json!([violation["property"], violation["at_us"], violation["detail"], events])
        })
        .collect()
}

/// The textbook's messages, from their departure to their first arrival.
fn messages(
    trace: &Trace<'_>,
    summary: &Value,
    close: &Close,
    lane: &impl Fn(u16) -> Option<usize>,
) -> (Vec<Value>, usize) {
    let kinds: BTreeSet<&str> = ["mutex", "election"]
        .iter()
        .flat_map(|section| summary[*section]["messages"].as_object())
        .flat_map(|messages| messages.keys().map(String::as_str))
        .collect();
    let mut drawn: BTreeSet<usize> = BTreeSet::new();
    let mut arrows = Vec::new();
    for (index, event) in trace.events.iter().enumerate() {
        let (Event::Recv { from, kind, .. }, Some(to)) = (&event.event, event.node_id()) else { continue };
        if !kinds.contains(kind.as_ref()) {
            continue;
        }
        let Some(send) = trace.send_of(index).filter(|send| drawn.insert(*send)) else { continue };
        if let (Some(from), Some(to)) = (lane(*from), lane(to)) {
            arrows.push((trace.event(send).at_us(), json!([from, trace.event(send).at_us(), to, event.at_us(), kind])));
        }
    }
    let all = arrows.len();
    let kept = thin(arrows, MESSAGES_MAX, |(at, _)| close.to(*at));
    (kept.into_iter().map(|(_, arrow)| arrow).collect(), all)
}

fn visits(trace: &Trace<'_>, close: &Close, lane: &impl Fn(u16) -> Option<usize>) -> (Vec<Value>, usize) {
    let entries = Entries::of(trace);
    let end = trace.end_us.unwrap_or(0);
    let mut bars: Vec<(i64, Value)> = Vec::new();
    for (resource, list) in &entries.by_resource {
        for entry in list {
            let from = trace.event(entry.enter).at_us();
            let exit = entry.exit.map(|exit| trace.event(exit).at_us());
            let until = entry.end_us(trace).or(exit).unwrap_or(end).max(from);
            if let Some(lane) = lane(entry.node) {
                bars.push((from, json!([lane, from, until, resource, trace.event(entry.enter).name()])));
            }
        }
    }
    let all = bars.len();
    let kept = thin(bars, VISITS_MAX, |(at, _)| close.to(*at));
    (kept.into_iter().map(|(_, bar)| bar).collect(), all)
}

/// Points on the lanes: what happened there besides messages and visits.
fn marks(events: &[TraceEvent], close: &Close, lane: &impl Fn(u16) -> Option<usize>) -> (Vec<Value>, usize) {
    let mut points: Vec<(i64, Value)> = Vec::new();
    for event in events {
        let (kind, text) = match &event.event {
            Event::Boot { incarnation } => ("boot", format!("life {incarnation} begins")),
            Event::ElectionStart { term } => ("election", format!("calls an election, term {term}")),
            Event::Leader { id, term } => ("leader", format!("names {id}, term {term}")),
            Event::View { number, members, .. } => ("view", format!("view {number} of {members:?}")),
            Event::Suspect { id } => ("suspect", format!("suspects {id}")),
            Event::Trust { id } => ("trust", format!("trusts {id} again")),
            Event::Token { epoch, serial, .. } => ("token", format!("token {epoch}.{serial}")),
            Event::TokenRegenerated { epoch, .. } => ("made", format!("makes the token of epoch {epoch}")),
            Event::TokenDropped { epoch, .. } => ("lost", format!("loses the token of epoch {epoch}")),
            Event::Fenced { fence, .. } => ("fenced", format!("refused: fence {fence}")),
            Event::Request { resource } => ("request", format!("asks for {resource}")),
            _ => continue,
        };
        if let Some(lane) = event.node_id().and_then(lane) {
            points.push((event.at_us(), json!([lane, event.at_us(), kind, text, event.name()])));
        }
    }
    let all = points.len();
    let is_rare = |point: &Value| !matches!(point[2].as_str(), Some("token" | "request"));
    let kept = thin(points, MARKS_MAX, |(at, point)| close.to(*at) || is_rare(point));
    (kept.into_iter().map(|(_, point)| point).collect(), all)
}

/// When nodes were not there.
fn down(trace: &Trace<'_>, lane: &impl Fn(u16) -> Option<usize>) -> Vec<Value> {
    let mut since: BTreeMap<u16, (i64, &str)> = BTreeMap::new();
    let mut spans = Vec::new();
    let end = trace.end_us.unwrap_or(0);
    let span = |id: u16, from: i64, until: i64, why: &str| lane(id).map(|lane| json!([lane, from, until, why]));
    for (at, fault) in &trace.faults {
        match fault {
            Fault::Crash(id) | Fault::Pause(id) => {
                let why = if matches!(fault, Fault::Crash(_)) { "crashed" } else { "paused" };
                if let Some((from, before)) = since.insert(*id, (*at, why)) {
                    spans.extend(span(*id, from, *at, before));
                }
            }
            Fault::Restart(id) | Fault::Resume(id) => {
                if let Some((from, why)) = since.remove(id) {
                    spans.extend(span(*id, from, *at, why));
                }
            }
            Fault::Partition(_)
            | Fault::Heal
            | Fault::DropToken
            | Fault::SetSkew { .. }
            | Fault::Leap(_)
            | Fault::TimeServer { .. }
            | Fault::Lie { .. }
            | Fault::Other(_) => {}
        }
    }
    spans.extend(since.into_iter().filter_map(|(id, (from, why))| span(id, from, end, why)));
    spans
}

fn tell(fault: &Fault) -> String {
    match fault {
        Fault::Crash(id) => format!("{id} crashes"),
        Fault::Restart(id) => format!("{id} boots again"),
        Fault::Pause(id) => format!("{id} is stopped"),
        Fault::Resume(id) => format!("{id} goes on"),
        Fault::Partition(sides) => format!("the network is split: {sides:?}"),
        Fault::Heal => "the network is whole".to_owned(),
        Fault::DropToken => "the token is thrown away".to_owned(),
        Fault::SetSkew { node, ppm } => format!("the crystal of {node} is bent to {ppm} ppm"),
        Fault::Leap(by) => format!("a leap second is announced: {by:+}"),
        Fault::TimeServer { host, serves } => {
            let how = if *serves { "again" } else { "no more" };
            format!("{} serves time {how}", host.map_or("the host".to_owned(), |host| format!("host {host}")))
        }
        Fault::Lie { host, lie } => format!("host {host} {lie}"),
        Fault::Other(map) => Value::Object(map.clone()).to_string(),
    }
}

fn leads(summary: &Value, lane: &impl Fn(u16) -> Option<usize>) -> Vec<Value> {
    let spans = summary["election"]["leaders"].as_array().map_or(&[][..], Vec::as_slice);
    let bar = |led: &Value| {
        let lane = lane(u16::try_from(led["leader"].as_u64()?).ok()?)?;
        Some(json!([lane, led["from_us"], led["until_us"], led["term"]]))
    };
    spans.iter().filter_map(bar).collect()
}

/// Each clock's distance from the coordinator's, as a curve of at most so many points: of each stretch the worst.
fn clocks(events: &[TraceEvent]) -> Vec<Value> {
    if !events.iter().any(|event| event.cluster_us.is_some()) {
        return Vec::new();
    }
    let mut curves: BTreeMap<u16, Vec<(i64, i64)>> = BTreeMap::new();
    for (at, errors) in clock_errors(events) {
        for (node, error) in errors {
            curves.entry(node).or_default().push((at, error));
        }
    }
    let worst =
        |stretch: &[(i64, i64)]| stretch.iter().max_by_key(|(_, error)| error.abs()).map(|(at, e)| json!([at, e]));
    let curve = |(node, points): (u16, Vec<(i64, i64)>)| {
        let stretch = points.len().div_ceil(POINTS_MAX).max(1);
        json!([node, points.chunks(stretch).filter_map(worst).collect::<Vec<_>>()])
    };
    curves.into_iter().map(curve).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_what_is_close_and_never_more_than_allowed() {
        let kept = thin((0..1000).collect(), 100, |item| (500..520).contains(item));
        assert!(kept.len() <= 100 && kept.len() > 60, "{}", kept.len());
        assert!((500..519).all(|item| kept.contains(&item)), "{kept:?}");
        assert_eq!(thin(vec![1, 2, 3], 3, |_| false), [1, 2, 3]);
        assert_eq!(thin((0..1000).collect::<Vec<_>>(), 10, |_| true).len(), 10);
    }
}
