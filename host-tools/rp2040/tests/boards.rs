//! The exact image on emulated boards.

mod common;

use compasso_checker::{Event, RunInfo, TraceEvent, judge};
use compasso_rp2040::{Options, perform};
use compasso_scenario::Scenario;
use compasso_stage::{RunOutput, setup::BoardKind};
use std::{collections::BTreeMap, fs, path::Path};

const THREE: &str = r#"
    name = "three"
    nodes = 3
    seed = 5
    duration = "8s"
    [clock]
    sync = "cristian"
    skew_ppm = [40, -25, 10]
    [election]
    algorithm = "bully"
    [mutex]
    algorithm = "token-ring"
    workload = { every = "100ms", hold = "5ms" }
    [network]
    delay = "200us..1ms"
    loss = 0.01
    [[step]]
    at = "2s"
    crash = 2
    [[step]]
    at = "3s"
    restart = 2
    [[step]]
    at = "5s"
    pause = 0
    [[step]]
    at = "6s"
    resume = 0
"#;

fn stage(text: &str, image: &Path, out: &Path) -> (Scenario, RunOutput) {
    let scenario = Scenario::parse(text, "test.toml").unwrap();
    let options = Options {
        board: BoardKind::W5500EvbPico,
        image: image.to_owned(),
        out: out.to_owned(),
        interrupted: Default::default(),
    };
    let output = perform(&scenario, &options, &mut |_| ()).unwrap_or_else(|error| panic!("{error}"));
    (scenario, output)
}

#[test]
fn the_same_seed_gives_the_same_run_and_every_promise_holds() {
    let image = common::image();
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [(scenario, first), (_, second)] = folders.each_ref().map(|folder| stage(THREE, &image, folder.path()));
    assert_eq!(first.failures, []);
    assert!(first.events == second.events, "two runs of one seed differ");
    for file in ["network.pcapng", "nodes/0.log", "nodes/2.log"] {
        let [a, b] = folders.each_ref().map(|folder| fs::read(folder.path().join(file)).unwrap());
        assert!(a == b && a.len() > 200, "{file}");
    }
    let summary = judge(&first.events, &RunInfo::new(scenario, "rp2040", first.network.into()));
    assert_eq!(summary.exit_code(), 0, "{:?}", summary.violations);
    let count = |wanted: &dyn Fn(&Event) -> bool| first.events.iter().filter(|e| wanted(&e.event)).count();
    assert_eq!(count(&|event| matches!(event, Event::Boot { .. })), 4, "three boards, four lives");
    assert!(count(&|event| matches!(event, Event::CsEnter { .. })) > 50, "the run was not vacuous");
    assert_eq!(first.events.iter().filter(|event| event.true_us.is_none()).count(), 0);
    let log = fs::read_to_string(folders[0].path().join("nodes/2.log")).unwrap();
    assert!(log.contains("incarnation 1") && log.contains("incarnation 2") && log.contains("INFO"), "{log}");
}

/// Only stamps that the boards took themselves are used: every heartbeat carries one at its sender's, and gets
/// one at its receiver's, on clocks that come apart by the difference of their crystals.
#[test]
fn crystals_are_measured_back_by_the_boards_own_stamps() {
    let image = common::image();
    let folder = tempfile::tempdir().unwrap();
    let (_, output) = stage(
        r#"
            name = "crystals"
            nodes = 3
            seed = 1
            duration = "60s"
            [clock]
            sync = "none"
            skew_ppm = [0, 30, -30]
            [election]
            algorithm = "bully"
            [network]
            delay = "500us"
        "#,
        &image,
        folder.path(),
    );
    // The highest id leads, and everybody hears its heartbeats.
    for (node, expected) in [(0, 30.0), (1, 60.0)] {
        let measured = rate_ppm(&output.events, 2, node);
        eprintln!("node {node} against node 2: {measured:+.2} ppm, set: {expected:+.2}");
        assert!((measured - expected).abs() < 0.5, "node {node} against node 2: {measured} ppm, not {expected}");
    }
}

/// How much faster than the sender's the receiver's clock runs: the slope of a line through the promptest
/// heartbeat of every few seconds, because whatever computes at the same time only makes them late. They are
/// all of one length: a longer datagram takes longer to make and to check.
fn rate_ppm(events: &[TraceEvent], from: u16, to: u16) -> f64 {
    const WINDOW_US: f64 = 4e6;
    let mut sent = BTreeMap::new();
    for event in events.iter().filter(|event| event.node_id() == Some(from)) {
        if let Event::Send { to: target, id, kind, .. } = &event.event
            && (*target, &**kind) == (to, "heartbeat")
        {
            sent.insert(*id, event.hw_us.unwrap() as f64);
        }
    }
    let mut points = Vec::new();
    for event in events.iter().filter(|event| event.node_id() == Some(to)) {
        if let Event::Recv { from: source, id, .. } = &event.event
            && *source == from
            && let Some(left) = sent.get(id)
        {
            points.push((*left, event.hw_us.unwrap() as f64 - left));
        }
    }
    assert!(points.len() > 300, "{} heartbeats", points.len());
    let trend = slope(&points);
    let late = |point: &(f64, f64)| point.1 - trend * point.0;
    let mut promptest: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for point in points {
        let best = promptest.entry((point.0 / WINDOW_US) as u64).or_insert(point);
        if late(&point) < late(best) {
            *best = point;
        }
    }
    slope(&promptest.into_values().collect::<Vec<_>>()) * 1e6
}

/// Of the line with the least squares.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
    let (over, under) = points.iter().fold((0.0, 0.0), |(over, under), point| {
        (over + (point.0 - x) * (point.1 - y), under + (point.0 - x) * (point.0 - x))
    });
    over / under
}

#[test]
fn what_is_not_modelled_ends_the_board_and_names_the_place() {
    let original = fs::read(common::image()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    // The image's SPI controller is moved to where the chip has another peripheral, and the model nothing.
    let (spi, elsewhere) = (0x4003_c000u32, 0x4004_4000u32);
    let mut changed = original.clone();
    let mut moved = 0;
    for at in (0..changed.len() - 4).step_by(2) {
        let word = u32::from_le_bytes(changed[at..at + 4].try_into().unwrap());
        if word & !0xfff == spi {
            changed[at..at + 4].copy_from_slice(&(elsewhere | word & 0xfff).to_le_bytes());
            moved += 1;
        }
    }
    assert!(moved > 0);
    let image = folder.path().join("moved");
    fs::write(&image, changed).unwrap();
    let (_, output) = stage(THREE, &image, folder.path());
    assert_eq!(output.failures.len(), 3, "every board runs into it");
    for failure in &output.failures {
        let reason = &failure.reason;
        assert!(reason.contains("0x40044") && reason.contains("the model does not cover"), "{reason}");
        assert!(reason.contains("w5500::start") && reason.contains("firmware/boards/rp2040/"), "{reason}");
    }
}
