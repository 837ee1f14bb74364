//! Counts what a node costs, in an emulator. Skipped only with `COMPASSO_SKIP_QEMU=1`, and loudly.

use compasso_stage::{
    budget,
    setup::{self, Needs},
};

#[test]
fn every_budget_holds_and_every_count_is_the_same_each_time() {
    if std::env::var_os("COMPASSO_SKIP_QEMU").is_some_and(|value| value == "1") {
        eprintln!("SKIPPED: COMPASSO_SKIP_QEMU=1, nothing was counted");
        return;
    }
    let toolchain = setup::ensure(&Needs::ALL).unwrap_or_else(|error| panic!("{error}"));
    let _turn = setup::take_stage().unwrap_or_else(|error| panic!("{error}"));
    let stacks = compasso_rp2040::stack::measure(&toolchain).unwrap_or_else(|error| panic!("{error}"));
    let measure = || budget::measure_all(&toolchain, stacks.clone()).unwrap_or_else(|error| panic!("{error}"));
    let report = measure();
    assert!(report.ok(), "{}", report.render(false));
    assert_eq!(report, measure(), "counted instructions do not depend on the run");
}
