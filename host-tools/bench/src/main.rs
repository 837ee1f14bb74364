//! Measures the disciplined clock beside its peers.
use compasso_bench::{families::*, measure::measure, peers};
fn main() {
    for f in &FAMILIES[..] {
        println!("{}", f.name);
        for c in peers::all() {
            let t = std::time::Instant::now();
            let m: Vec<_> = (1..=2).map(|s| measure(&Trace::new(f, s), &c.make)).collect();
            for m in m {
                println!(
                    "  {:20} {:8.2} {:8.2} {:8.2} {:?} {} {:?} {:?} {:.1?} {:?}",
                    c.name,
                    m.median_us,
                    m.p99_us,
                    m.max_us,
                    m.converged_s,
                    m.backward_steps,
                    m.bound_violations,
                    m.half_width_ratio,
                    m.holdover_us,
                    t.elapsed()
                );
            }
        }
    }
}
