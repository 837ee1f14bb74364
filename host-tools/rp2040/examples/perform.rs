//! scratch
use compasso_checker::{RunInfo, judge, render};
use compasso_rp2040::{Options, perform};
use compasso_scenario::Scenario;
use std::path::PathBuf;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let scenario = Scenario::load(std::path::Path::new(&args[2])).unwrap();
    let options =
        Options { image: PathBuf::from(&args[1]), out: PathBuf::from(&args[3]), interrupted: Default::default() };
    let t = std::time::Instant::now();
    let output = perform(&scenario, &options, &mut |_| ()).unwrap_or_else(|e| panic!("{e}"));
    let wall = t.elapsed();
    let info = RunInfo::new(scenario.clone(), "rp2040", output.network.into());
    println!("{}", render(&judge(&output.events, &info), false));
    println!("{:?} {:?}", output.failures, output.overdue);
    println!("lasted {:?} wall {wall:?} ratio {}", output.lasted, output.lasted.as_secs_f64() / wall.as_secs_f64());
    let mut f = std::fs::File::create(PathBuf::from(&args[3]).join("trace.jsonl")).unwrap();
    compasso_checker::trace::write_trace(&output.events, &mut f).unwrap();
}
