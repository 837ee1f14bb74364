//! scratch
use compasso_rp2040::{board::Board, bus::RAM_BASE, image::Image};
use compasso_scenario::Scenario;
use compasso_wire::{Key, config::Stored, flash};
fn main() {
    let path = std::path::PathBuf::from(std::env::args().nth(1).unwrap());
    let secs: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    let elf = std::fs::read(&path).unwrap();
    let image = Image::read(&path, &elf).unwrap();
    let scenario = Scenario::load(std::path::Path::new("scenarios/concert.toml")).unwrap();
    let config = scenario.node_config(0, 0, Stored::default(), Key([1; 16]));
    let mut f = image.flash();
    let mut sector = [0xff; flash::SECTOR_LEN];
    flash::page::encode(&config, 1, &mut sector);
    f.load(flash::PAGES_AT[0], &sector);
    let mut board = Board::new(f, image.code(), 1);
    let t = std::time::Instant::now();
    board.run(secs * 125_000_000);
    println!(
        "{:?} instr {} in {:?} = {} MIPS",
        board.end(),
        board.instructions(),
        t.elapsed(),
        board.instructions() as f64 / t.elapsed().as_micros() as f64
    );
    if let Some(end) = board.end() {
        println!("{:?} / {:?}", image.place(end.pc), image.place(end.lr));
    }
    println!("frames {}", board.bus().departed.len());
    let _ = RAM_BASE;
}
