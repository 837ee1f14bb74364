//! Boots emulated boards. Skipped only with `COMPASSO_SKIP_QEMU=1`, and loudly.

use compasso_checker::{Event, Fault, TraceEvent};
use compasso_scenario::Scenario;
use compasso_stage::{
    Options, RunOutput, perform,
    setup::{self, BoardKind, Needs},
};
use std::{fs, path::Path, sync::Arc};

/// Performs a scenario on real images; nothing if boards are not wanted here.
fn stage(text: &str, out: &Path) -> Option<RunOutput> {
    if std::env::var_os("COMPASSO_SKIP_QEMU").is_some_and(|value| value == "1") {
        eprintln!("SKIPPED: COMPASSO_SKIP_QEMU=1, no board was booted");
        return None;
    }
    let toolchain = setup::ensure(&Needs::ALL).unwrap_or_else(|error| panic!("{error}"));
    let image = toolchain.build_image(BoardKind::Qemu).unwrap_or_else(|error| panic!("{error}"));
    let _turn = setup::take_stage().unwrap();
    let scenario = Scenario::parse(text, "test.toml").unwrap();
    let options = Options { qemu: toolchain.qemu.unwrap(), image, out: out.to_owned(), interrupted: Arc::default() };
    Some(perform(&scenario, &options, &mut |_| ()).unwrap_or_else(|error| panic!("{error}")))
}

fn count(output: &RunOutput, wanted: impl Fn(&TraceEvent) -> bool) -> usize {
    output.events.iter().filter(|event| wanted(event)).count()
}

#[test]
fn two_boards_boot_take_turns_die_and_return() {
    let folder = tempfile::tempdir().unwrap();
    let Some(output) = stage(
        r#"
            name = "two-boards"
            nodes = 2
            seed = 3
            duration = "9s"
            [clock]
            sync = "cristian"
            skew_ppm = [50, -50]
            [election]
            algorithm = "bully"
            [mutex]
            algorithm = "token-ring"
            workload = { every = "100ms", hold = "5ms" }
            [network]
            delay = "200us..1ms"
            [[step]]
            at = "4s"
            crash = 0
            [[step]]
            at = "5s"
            restart = 0
        "#,
        folder.path(),
    ) else {
        return;
    };
    assert_eq!(output.failures, []);
    assert_eq!(output.overdue, None);
    assert_eq!(count(&output, |e| matches!(e.event, Event::Boot { .. })), 3, "two boards, three lives");
    assert!(count(&output, |e| matches!(e.event, Event::CsEnter { .. })) > 5, "the run was not vacuous");
    assert_eq!(count(&output, |e| matches!(e.event, Event::Gap { .. })), 0);
    assert_eq!(count(&output, |e| e.true_us.is_none()), 0, "true time is known of every event");
    assert!(matches!(output.events.last().map(|e| &e.event), Some(Event::End)));

    // The records of each life are complete: numbered from 1 without a hole.
    for (node, inc) in [(0, 1), (0, 2), (1, 1)] {
        let mine = output.events.iter().filter(|e| e.node_id() == Some(node) && e.inc == inc);
        let seqs: Vec<u64> = mine.map(|e| e.seq).collect();
        assert!(seqs.iter().copied().eq(1..=seqs.len() as u64), "node {node}, incarnation {inc}");
    }
    // True time agrees with what the stage did: the second life began after the restart.
    let at = |wanted: &dyn Fn(&TraceEvent) -> bool| output.events.iter().find(|e| wanted(e)).unwrap().at_us();
    let restarted = at(&|e| e.event == Event::Fault(Fault::Restart(0)));
    let reborn = at(&|e| e.event == Event::Boot { incarnation: 2 });
    assert!(restarted <= reborn && reborn < restarted + 2_000_000, "{restarted} {reborn}");

    let log = fs::read_to_string(folder.path().join("nodes/0.log")).unwrap();
    assert!(log.contains("incarnation 1") && log.contains("incarnation 2") && log.contains("INFO"), "{log}");
    assert!(fs::metadata(folder.path().join("network.pcapng")).unwrap().len() > 10_000);
}
