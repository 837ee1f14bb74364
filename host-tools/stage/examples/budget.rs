//! Measures the firmware against its budgets:
//! `cargo run -p compasso-stage --example budget [-- --json | --propose]`
use compasso_stage::{
    budget,
    setup::{self, Needs},
};
use std::process::ExitCode;

fn main() -> ExitCode {
    let form = std::env::args().nth(1);
    let measured = setup::ensure(&Needs::ALL).and_then(|toolchain| {
        let stacks = compasso_rp2040::stack::measure(&toolchain)?;
        budget::measure_all(&toolchain, stacks)
    });
    match measured {
        Ok(report) => {
            match form.as_deref() {
                Some("--json") => println!("{:#}", report.to_json()),
                Some("--propose") => print!("{}", report.proposal()),
                Some(_) | None => print!("{}", report.render(false)),
            }
            ExitCode::from(report.exit_code())
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(3)
        }
    }
}
