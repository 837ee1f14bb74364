//! What the pictures are drawn with.

use std::fmt::Write as _;

/// Apart also for those who see few colours (Okabe and Ito).
pub const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a7a00"];

/// A picture in the making.
pub struct Svg(String);

impl Svg {
    /// An empty one.
    #[must_use]
    pub fn new(width: f64, height: f64, title: &str) -> Svg {
        let mut svg = Svg(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        ));
        svg.text((20.0, 26.0), "font-size=\"16\" font-weight=\"bold\"", title);
        svg
    }

    /// Words.
    pub fn text(&mut self, (x, y): (f64, f64), attributes: &str, words: &str) {
        let words = words.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(self.0, "<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{words}</text>");
    }

    /// A dot.
    pub fn dot(&mut self, (x, y): (f64, f64), radius: f64, attributes: &str) {
        let _ = writeln!(self.0, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" {attributes}/>");
    }

    /// A line through points.
    pub fn line(&mut self, points: impl IntoIterator<Item = (f64, f64)>, attributes: &str) {
        let path = points.into_iter().enumerate().fold(String::new(), |mut path, (at, (x, y))| {
            let _ = write!(path, "{}{x:.1} {y:.1}", if at == 0 { 'M' } else { 'L' });
            path
        });
        let _ = writeln!(self.0, "<path d=\"{path}\" fill=\"none\" {attributes}/>");
    }

    /// A box.
    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), attributes: &str) {
        let _ = writeln!(
            self.0,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" {attributes}/>"
        );
    }

    /// The finished picture.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

/// A scale by powers of ten, from `low` to `high`, onto pixels.
pub struct Decades {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Decades {
    /// Values from `low` to `high` onto pixels `from` to `to`.
    #[must_use]
    pub fn new(low: f64, high: f64, from: f64, to: f64) -> Decades {
        Decades { low, high, from, to }
    }

    /// Where a value is; at an end what lies beyond it.
    #[must_use]
    pub fn at(&self, value: f64) -> f64 {
        let share = (value.clamp(self.low, self.high) / self.low).ln() / (self.high / self.low).ln();
        self.from + share * (self.to - self.from)
    }

    /// The powers of ten among the values.
    #[must_use]
    pub fn ticks(&self) -> Vec<f64> {
        (-3..7).map(|power| 10_f64.powi(power)).filter(|tick| (self.low..=self.high).contains(tick)).collect()
    }
}
