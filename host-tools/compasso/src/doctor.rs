//! `compasso doctor` and `compasso budget`: the machine, and the image.

use crate::{
    cli::{BudgetArgs, DoctorArgs},
    outcome::{Outcome, Talk},
};
use compasso_stage::{
    budget,
    setup::{self, BoardKind, Needs},
};
use serde_json::{Value, json};

/// Says what is missing, or installs it.
pub fn doctor(args: &DoctorArgs) -> Outcome {
    let talk = Talk { json: args.json, quiet: false };
    if args.install {
        let ready = setup::ensure(&Needs::ALL).and_then(|toolchain| {
            toolchain.build_image(BoardKind::Qemu)?;
            toolchain.build_image(BoardKind::W5500EvbPico)
        });
        if let Err(error) = ready {
            return talk.fail(Outcome::Environment, &error.to_string());
        }
    }
    let mut checks = setup::doctor();
    checks.push(probe());
    let rows: Vec<Value> = checks
        .iter()
        .map(|check| json!({ "name": check.name, "ok": check.ok, "found": check.found, "mend": check.mend }))
        .collect();
    talk.document(&json!({ "checks": rows }));
    for check in &checks {
        let mark = if check.ok { "ok     " } else { "missing" };
        let mend = if check.mend.is_empty() { String::new() } else { format!("\n         to get it: {}", check.mend) };
        talk.show(&format!("{mark}  {:<10} {}{mend}", check.name, check.found));
    }
    if checks.iter().all(|check| check.ok) { Outcome::Held } else { Outcome::Environment }
}

/// Needed for real boards only.
fn probe() -> setup::Check {
    let found = match setup::find_program("probe-rs") {
        Some(path) => path.display().to_string(),
        None => format!("no probe-rs, which flashes real boards ({})", compasso_fleet::probe::INSTALL),
    };
    setup::Check { name: "probe for real boards", ok: true, found, mend: String::new() }
}

/// Measures the image against its budgets.
pub fn budget(args: &BudgetArgs) -> Outcome {
    let talk = Talk { json: args.json, quiet: false };
    let measured = setup::ensure(&Needs::ALL).and_then(|toolchain| {
        let stacks = compasso_rp2040::stack::measure(&toolchain)?;
        budget::measure_all(&toolchain, stacks)
    });
    let report = match measured {
        Ok(report) => report,
        Err(error) => return talk.fail(Outcome::Environment, &error.to_string()),
    };
    talk.document(&report.to_json());
    talk.show(&report.render(true));
    if report.ok() { Outcome::Held } else { Outcome::Violated }
}
