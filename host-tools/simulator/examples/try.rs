//! try
use compasso_checker::*;
fn main(){
 let a:Vec<String>=std::env::args().collect();
 let s=compasso_scenario::Scenario::load(&a[1]).unwrap();
 let s=match a.get(2){Some(x)=>s.with_seed(x.parse().unwrap()),None=>s};
 let t=std::time::Instant::now();
 let run=compasso_simulator::perform(&s);
 eprintln!("{} events in {:?}",run.trace.len(),t.elapsed());
 let mut f=std::fs::File::create("/tmp/trace.jsonl").unwrap();
 trace::write_trace(&run.trace,&mut f).unwrap();
 let r=check(&run.trace);
 eprintln!("checked in {:?}",t.elapsed());
 for v in &r.violations { println!("{v:?}"); }
}
