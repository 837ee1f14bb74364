//! Lamp and pins.

use compasso_runtime::signals::Signals;
use embassy_rp::{
    Peri,
    gpio::{AnyPin, Level, Output},
};
use embassy_sync::{blocking_mutex::raw::CriticalSectionRawMutex, signal::Signal};
use embassy_time::Timer;

/// A lamp that somebody else lights, when told.
pub type Wish = Signal<CriticalSectionRawMutex, bool>;

/// The board's lamp.
pub enum Lamp {
    /// On a pin of the processor.
    Pin(Output<'static>),
    /// Behind a chip that takes its time.
    Remote(&'static Wish),
}

impl Lamp {
    fn set(&mut self, is_on: bool) {
        match self {
            Lamp::Pin(pin) => pin.set_level(is_on.into()),
            Lamp::Remote(wish) => wish.signal(is_on),
        }
    }

    /// Blinks so many times, then pauses.
    pub async fn blink(&mut self, times: u32) {
        for _ in 0..times {
            self.set(true);
            Timer::after_millis(200).await;
            self.set(false);
            Timer::after_millis(300).await;
        }
        Timer::after_millis(1000).await;
    }
}

/// Everything that the board shows.
pub struct Panel {
    lamp: Lamp,
    second: Output<'static>,
    inside: Output<'static>,
}

impl Panel {
    /// All dark.
    pub fn new(lamp: Lamp, second: Peri<'static, AnyPin>, inside: Peri<'static, AnyPin>) -> Panel {
        Panel { lamp, second: Output::new(second, Level::Low), inside: Output::new(inside, Level::Low) }
    }

    /// Shows this from now on: the pins first, which somebody measures.
    pub fn show(&mut self, signals: Signals) {
        self.second.set_level(signals.second.into());
        self.inside.set_level(signals.inside.into());
        self.lamp.set(signals.lamp);
    }

    /// The lamp alone.
    pub fn lamp(&mut self) -> &mut Lamp {
        &mut self.lamp
    }
}
