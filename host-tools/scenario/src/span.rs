//! Durations as people write them: `200us`, `5ms`, `20s`, `1m30s`.

use compasso_wire::Duration;

/// No duration of a scenario is longer: 24 hours.
pub const DURATION_MAX: Duration = Duration(24 * 3600 * 1_000_000);

const UNITS: [(&str, u64); 5] = [("us", 1), ("ms", 1_000), ("s", 1_000_000), ("m", 60_000_000), ("h", 3_600_000_000)];

/// Reads `200us`, `5ms`, `1.5s`, `1m30s`, up to [`DURATION_MAX`].
///
/// # Errors
/// One clause that says what was expected.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let expected = || format!("expected a duration like \"200us\", \"5ms\", \"20s\" or \"1m30s\", found \"{text}\"");
    let mut rest = text.trim();
    let mut total: f64 = 0.0;
    if rest.is_empty() {
        return Err(expected());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(expected)?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let amount: f64 = number.parse().map_err(|_| expected())?;
        let factor = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(expected)?.1;
        total += amount * factor as f64;
        rest = tail;
    }
    if total > DURATION_MAX.0 as f64 {
        return Err(format!("expected at most 24h, found \"{text}\""));
    }
    Ok(Duration(total.round() as u64))
}

/// Writes a duration with the largest unit that divides it.
#[must_use]
pub fn format_duration(span: Duration) -> String {
    let (unit, factor) =
        UNITS[..3].iter().rev().find(|(_, factor)| span.0.is_multiple_of(*factor)).unwrap_or(&UNITS[0]);
    format!("{}{unit}", span.0 / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, us) in
            [("200us", 200), ("5ms", 5_000), ("20s", 20_000_000), ("1m30s", 90_000_000), ("1.5s", 1_500_000), ("0s", 0)]
        {
            assert_eq!(parse_duration(text), Ok(Duration(us)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "5", "5 ms", "-5ms", "5x", "ms", "1..2s", "25h", "1e9s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_written_duration_reads_back() {
        for us in [0, 7, 1_500, 20_000, 3_000_000] {
            assert_eq!(parse_duration(&format_duration(Duration(us))), Ok(Duration(us)));
        }
    }
}
