//! Values that several answers show and that mean nothing here: the version, the temperature, the power; and
//! the name of a process as it fits into a cell.

use ferry::products;

use super::cards::Cards;

/// The version of npu-smi and of the driver that is answered everywhere.
pub const VERSION: &str = "25.5.0";

/// The temperature in degrees Celsius, which has no meaning without a card and must be a number.
pub const TEMPERATURE: &str = "35";

/// The power of a chip in watts, likewise: the second chip of a card has none of its own, and some products
/// say none.
pub fn power(cards: &Cards, chip: usize) -> &'static str {
    match (cards.product.bit, chip) {
        (products::INF, _) => "NA",
        (products::B200I, _) => "0.0",
        (_, 0) => "90.0",
        _ => "-",
    }
}

/// A process calls itself what it likes; here it is one word in a cell.
pub fn shown(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_graphic() && c != '|' { c } else { '_' };
    name.chars().map(plain).take(24).collect()
}
