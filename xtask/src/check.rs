//! The corpus of `ferry check` in full: every twin in C, C++ and Python, the examples, and the tour
//! (`crates/cli/tests/corpus`). Then the checker against the order of the model test (`tests/tests/model`).

use std::path::Path;

use crate::outcome::Outcome;
use crate::venv::Venv;
use crate::{python, shell};

/// Runs all of it. Without a Python that has the module, the twins in Python are left out, and the step says
/// so.
pub fn run(root: &Path) -> Result<Outcome, String> {
    let venv = with_numpy(root)?;
    let words = "test --release -p ferry-cli --test corpus -- --include-ignored --nocapture";
    let mut test = shell::cargo_for_release(root, words);
    match &venv {
        Ok(venv) => test.env("FERRY_CHECK_PYTHON", venv.program("python3")),
        Err(_) => test.env_remove("FERRY_CHECK_PYTHON"),
    };
    shell::run(&mut test)?;
    remove_orders(root)?;
    Ok(venv.map_or_else(|why| Outcome::Skipped(format!("twins in Python: {why}")), |_| Outcome::Passed))
}

/// Takes every ordering step out of 10,000 programs of the model test, one at a time: each race that this
/// makes is reported, and nothing else.
fn remove_orders(root: &Path) -> Result<(), String> {
    let test = "test --profile suite -p ferry-tests --test model -- --nocapture --exact";
    let mut test = shell::cargo(root, test);
    test.arg("facts::mutations::a_removed_order_is_reported_if_it_makes_a_race");
    shell::run(test.env("FERRY_MUTATION_CASES", "10000"))
}

/// An environment that has the module and NumPy; an inner error says what is missing.
fn with_numpy(root: &Path) -> Result<Result<Venv, String>, String> {
    let venv = python::with_module(root)?;
    Ok(venv.and_then(|venv| venv.need(&["numpy"]).map(|()| venv)))
}
