//! The clocks under test, one file each.

#[cfg(feature = "peers")]
mod clock_bound;
mod cristian;
#[cfg(feature = "peers")]
mod ntp;
pub mod oracle;
mod ours;
mod regression;
#[cfg(feature = "peers")]
mod statime;
#[cfg(feature = "peers")]
mod steered;

use crate::peer::Contender;

/// All that were built in: ours first, the oracle last.
#[must_use]
pub fn all() -> Vec<Contender> {
    let mut all = vec![ours::ours()];
    all.extend(cristian::both());
    all.push(regression::ftsp());
    #[cfg(feature = "peers")]
    {
        all.extend(statime::all());
        all.push(ntp::kalman());
        all.extend(clock_bound::both());
    }
    all.push(oracle::oracle());
    all
}
