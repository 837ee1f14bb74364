//! The stacks of the exact images, as deep as the concert makes them: a change that overflows it fails here, and not
//! on somebody's desk.

use compasso_rp2040::stack;
use compasso_stage::{
    budget::{BUDGET_FILE, parse_budgets},
    setup::{self, Needs},
};

/// What `memory.x` reserves, without the guard at its end.
const USABLE: u64 = 64 * 1024 - 4096;

#[test]
fn the_deepest_stacks_stay_within_their_budgets_and_off_the_guard() {
    let toolchain = setup::ensure(&Needs { compiler: true, emulator: false }).unwrap_or_else(|error| panic!("{error}"));
    let budgets = parse_budgets(&std::fs::read_to_string(toolchain.root.join(BUDGET_FILE)).unwrap()).unwrap();
    for measured in stack::measure(&toolchain).unwrap_or_else(|error| panic!("{error}")) {
        let budget = budgets.iter().find(|budget| budget.name == measured.name).expect("it has a limit");
        println!("{}: {} bytes of {} ({USABLE} usable)", measured.name, measured.value, budget.limit);
        assert!(budget.limit <= USABLE, "the limit itself lies in the guard");
        assert!(measured.value <= budget.limit, "{} bytes, allowed are {}", measured.value, budget.limit);
        // Making a node takes most of it: had nothing been measured, it would show.
        assert!(measured.value > 16 * 1024, "{} bytes", measured.value);
    }
}
