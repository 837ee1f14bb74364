//! Performs a scenario on emulated boards, writes trace, capture and logs, and says what was violated:
//! `cargo run -p compasso-stage --example perform -- scenarios/concert.toml OUT`
use compasso_stage::{
    Options, Progress, interrupt_flag, perform,
    setup::{self, BoardKind, Needs},
};
use std::{fs::File, io::BufWriter, path::PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(scenario), Some(out)) = (arguments.next(), arguments.next().map(PathBuf::from)) else {
        return Err("usage: perform SCENARIO OUT".into());
    };
    let scenario = compasso_scenario::Scenario::load(scenario)?;
    let toolchain = setup::ensure(&Needs::ALL)?;
    let image = toolchain.build_image(BoardKind::Qemu)?;
    let qemu = toolchain.qemu.ok_or("no emulator")?;
    let options = Options { qemu, image, out: out.clone(), interrupted: interrupt_flag()? };
    let output = perform(&scenario, &options, &mut |progress| {
        if let Progress::Performed(step) = progress {
            eprintln!("{step:?}");
        }
    })?;
    compasso_checker::trace::write_trace(&output.events, &mut BufWriter::new(File::create(out.join("trace.jsonl"))?))?;
    eprintln!("{} events in {:?}; {:?}", output.events.len(), output.lasted, output.network);
    eprintln!("refused {:?}, overdue {:?}, interrupted {}", output.refused, output.overdue, output.interrupted);
    for violation in compasso_checker::check(&output.events).violations {
        eprintln!("{violation:?}");
    }
    for failure in &output.failures {
        eprintln!("{failure:#?}");
    }
    Ok(())
}
