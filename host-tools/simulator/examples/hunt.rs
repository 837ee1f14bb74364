//! hunt
use compasso_checker::*;
fn main(){
 let a:Vec<String>=std::env::args().collect();
 let n:u64=a[2].parse().unwrap();
 let mut bad=0;
 for seed in 1..=n {
 let s=compasso_scenario::Scenario::load(&a[1]).unwrap().with_seed(seed);
 let run=compasso_simulator::perform(&s);
 let r=check(&run.trace);
 let entries=run.trace.iter().filter(|e|matches!(e.event,Event::CsEnter{..})).count();
 let over=run.trace.iter().filter(|e|matches!(e.event,Event::Overflow{..})).count();
 let fenced=run.trace.iter().filter(|e|matches!(e.event,Event::Fenced{..})).count();
 if !r.violations.is_empty() { bad+=1; println!("seed {seed}: entries {entries} overflow {over} fenced {fenced}"); for v in r.violations.iter().take(3) { println!("   {v:?}"); } }
 else if seed%50==1 { println!("seed {seed}: ok entries {entries} overflow {over} fenced {fenced}"); }
 }
 println!("{bad} bad of {n}");
}
