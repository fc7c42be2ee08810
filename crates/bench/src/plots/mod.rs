//! `ferry bench --report FILE`: the results as one HTML page with plots, for people.
//!
//! The page is self-contained: style, drawings and data are inside it, it opens from a file and asks nothing
//! of a network. It has the look of the trace page (`ferry_watch::page_style`). A series whose cases are
//! points on an axis (sizes, widths, counts) is drawn as curves over a logarithmic axis, any other one as
//! bars; both show the range from the 10th to the 90th percentile and all contenders of a case side by side.
//! Plots are inline SVG, written here and not by scripts, so that tests read them back without a browser, and
//! the page shows them also where scripts are off. Below each plot are its numbers as a table; the element
//! `data` has what `--json` prints.
//!
//! This folder measures nothing and formats nothing for terminals. Arrows: `series` groups rows, `scale` maps
//! values to places, `drawing` writes SVG, `bars` and `curves` draw a series with these, and `page` puts all
//! of it together. From the rest of the crate it imports `report` and what a `Row` is made of.

mod bars;
mod curves;
mod drawing;
mod page;
mod scale;
mod series;
#[cfg(test)]
mod tests;

pub use page::page;
