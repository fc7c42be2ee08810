//! A small JavaScript engine with the scripts of the page that touch no document.

use rquickjs::{CatchResultExt as _, Context, Runtime};
use serde_json::Value;

use crate::page_style;
use crate::trace::model::TraceModel;
use crate::trace::{html, tables};

/// The page's logic, ready to be asked.
pub struct Script {
    context: Context,
}

impl Script {
    /// The logic without a trace.
    pub fn new() -> Script {
        let runtime = Runtime::new().expect("an engine");
        let script = Script { context: Context::full(&runtime).expect("a context") };
        script.add(page_style::UNITS);
        html::LOGIC.iter().for_each(|text| script.add(text));
        script
    }

    /// The logic with `trace`, `index`, `rows` and `places` of a model.
    pub fn of(model: &TraceModel) -> Script {
        let script = Script::new();
        let data = tables::json(model, &mut |_, address| Some(format!("step at loop.c:{}", address & 0xfff)));
        script.add(&format!("const trace = decodeTrace({data});"));
        script.add("const index = buildIndex(trace);");
        script.add("const rows = buildRows(trace, index);");
        script.add("const places = findPlaces(rows, trace, index);");
        script
    }

    /// Runs a script.
    pub fn add(&self, text: &str) {
        self.context.with(|context| {
            context.eval::<(), _>(text).catch(&context).unwrap_or_else(|error| panic!("{error}"));
        });
    }

    /// The value of an expression.
    pub fn value(&self, expression: &str) -> Value {
        let text: String = self.context.with(|context| {
            let code = format!("JSON.stringify({expression})");
            context.eval(code).catch(&context).unwrap_or_else(|error| panic!("{expression}: {error}"))
        });
        serde_json::from_str(&text).expect("JSON")
    }
}
