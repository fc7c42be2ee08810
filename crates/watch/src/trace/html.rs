//! `index.html`: the trace as one self-contained page, made of the files in `page/` and the model's tables.

use crate::page_style::{self, PageParts, html};

use super::model::TraceModel;
use super::tables;

const STYLE: &str = include_str!("page/page.css");
const BODY: &str = include_str!("page/body.html");
/// The scripts that touch no document: what is tested without a browser.
pub const LOGIC: [&str; 9] = [
    include_str!("page/decode.js"),
    include_str!("page/tracks.js"),
    include_str!("page/series.js"),
    include_str!("page/why.js"),
    include_str!("page/rows.js"),
    include_str!("page/arrows.js"),
    include_str!("page/search.js"),
    include_str!("page/findings.js"),
    include_str!("page/describe.js"),
];
/// The scripts that draw and listen.
const VIEW: [&str; 4] = [
    include_str!("page/draw.js"),
    include_str!("page/finding_view.js"),
    include_str!("page/panel.js"),
    include_str!("page/main.js"),
];

/// The page. `caller` names return addresses of a process.
pub fn page(model: &TraceModel, caller: &mut dyn FnMut(u32, u64) -> Option<String>) -> String {
    let name = if model.findings.is_some() { "Ferry check" } else { "Ferry trace" };
    let command = model.processes.first().map_or("", |process| process.command.as_str());
    let scripts = [LOGIC.as_slice(), VIEW.as_slice()].concat();
    page_style::page(&PageParts {
        title: &format!("{name}: {command}"),
        style: STYLE,
        body: &BODY.replace("{{name}}", name).replace("{{command}}", &html(command)),
        scripts: &scripts,
        data: &tables::json(model, caller),
    })
}
