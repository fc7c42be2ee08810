//! The Python packages that programs for Ascend use together: which versions there are, whether they fit each
//! other, and whether pytest sees our plugin. Python says what is installed (`program.rs` asks it); nothing
//! is imported.

use super::finding::{Finding, fine, note, wrong};

/// Distributions that Python is asked for, in this order.
pub const ASKED: [&str; 7] = ["ferry-acl", "torch", "torch_npu", "numpy", "pyyaml", "setuptools", "pytest"];
/// What torch_npu needs and does not say; pip does not install it by itself.
const UNSAID: [&str; 3] = ["numpy", "pyyaml", "setuptools"];
/// The torch_npu that the tests run (`xtask/src/clients.rs`).
const TRIED: &str = "2.14.0";
/// The first pytest whose hooks the plugin can wrap.
const OLDEST_PYTEST: (u32, u32) = (7, 4);
/// What the entry point of our plugin names.
pub const PLUGIN: &str = "ferry_acl.pytest";

/// What an environment has.
#[derive(Default)]
pub struct Packages {
    /// The version of each of [`ASKED`]; empty if it is not there.
    pub versions: Vec<String>,
    /// Whether pytest would find our plugin.
    pub has_plugin: bool,
    /// Whether PYTEST_DISABLE_PLUGIN_AUTOLOAD keeps pytest from looking.
    pub is_autoload_off: bool,
}

impl Packages {
    fn version(&self, name: &str) -> Option<&str> {
        let index = ASKED.iter().position(|asked| *asked == name)?;
        self.versions.get(index).map(String::as_str).filter(|version| !version.is_empty())
    }

    /// A line for each thing that is there.
    pub fn judge(&self) -> Vec<Finding> {
        [self.torch(), self.unsaid(), self.pytest()].into_iter().flatten().collect()
    }

    fn torch(&self) -> Option<Finding> {
        let (torch, npu) = (self.version("torch"), self.version("torch_npu"));
        let (torch, npu) = match (torch, npu) {
            (Some(torch), Some(npu)) => (torch, npu),
            (None, Some(npu)) => {
                let text = format!("torch_npu {npu} is there without torch");
                return Some(wrong("torch", text, format!("pip install torch=={}", plain(npu))));
            }
            (Some(torch), None) => {
                let remedy = format!("pip install torch_npu=={}, if device npu is wanted", plain(torch));
                return Some(note("torch", format!("torch {torch} without torch_npu"), remedy));
            }
            (None, None) => return None,
        };
        let text = format!("torch {torch}, torch_npu {npu}");
        Some(if numbers(torch) != numbers(npu) {
            let remedy = format!("pip install torch=={0} torch_npu=={0}", plain(npu));
            wrong("torch", format!("{text}: an adapter fits the torch of its own version alone"), remedy)
        } else if plain(npu).split(".post").next() != Some(TRIED) {
            note("torch", text, format!("{TRIED} is the version that Ferry's tests run"))
        } else {
            fine("torch", format!("{text}: they fit each other"))
        })
    }

    fn unsaid(&self) -> Option<Finding> {
        self.version("torch_npu")?;
        let missing: Vec<&str> = UNSAID.iter().copied().filter(|name| self.version(name).is_none()).collect();
        let text = format!("torch_npu imports {}, which pip does not install for it", missing.join(", "));
        let remedy = format!("pip install {}", missing.join(" "));
        (!missing.is_empty()).then(|| wrong("torch", text, remedy))
    }

    fn pytest(&self) -> Option<Finding> {
        let pytest = self.version("pytest")?;
        let text = format!("pytest {pytest}");
        Some(if !self.has_plugin {
            let remedy = "pip install the wheel in share/ferry, for pytest --ferry";
            note("pytest", format!("{text} has no plugin of Ferry's"), remedy)
        } else if numbers(pytest) < Some(OLDEST_PYTEST) {
            let (major, minor) = OLDEST_PYTEST;
            let text = format!("{text} is older than {major}.{minor}: no --ferry-check");
            wrong("pytest", text, format!("pip install 'pytest>={major}.{minor}'"))
        } else if self.is_autoload_off {
            let text = format!("{text} does not look for plugins: PYTEST_DISABLE_PLUGIN_AUTOLOAD is set");
            note("pytest", text, format!("pytest -p {PLUGIN} --ferry"))
        } else {
            let ours = self.version("ferry-acl").unwrap_or("?");
            fine("pytest", format!("{text} sees the plugin of ferry-acl {ours}: pytest --ferry"))
        })
    }
}

/// The first two numbers of a version: torch and torch_npu of the same are made for each other.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

/// A version without what follows a `+`: the kind of build, which the index does not have.
fn plain(version: &str) -> &str {
    version.split('+').next().unwrap_or(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;

    fn packages(all: &[(&str, &str)]) -> Packages {
        let version = |name: &&str| all.iter().find(|(known, _)| known == name).map(|(_, version)| *version);
        let versions = ASKED.iter().map(|name| version(name).unwrap_or_default().to_owned()).collect();
        Packages { versions, has_plugin: true, is_autoload_off: false }
    }

    #[test]
    fn what_does_not_fit_is_wrong_and_says_what_would() {
        use Severity::{Fine, Note, Wrong};
        let torch = |torch, npu| {
            packages(&[
                ("torch", torch),
                ("torch_npu", npu),
                ("numpy", "2"),
                ("pyyaml", "6"),
                ("setuptools", "80"),
            ])
        };
        for (packages, severity, words) in [
            (torch("2.14.0+cpu", "2.14.0"), Fine, "fit each other"),
            (torch("2.14.0", "2.14.0.post2"), Fine, "fit each other"),
            (torch("2.11.0", "2.14.0"), Wrong, "torch==2.14.0 torch_npu==2.14.0"),
            (torch("2.11.0", "2.11.0"), Note, "2.14.0 is the version"),
            (packages(&[("torch", "2.14.0+cu130")]), Note, "torch_npu==2.14.0, if"),
            (
                packages(&[("torch_npu", "2.14.0"), ("numpy", "2"), ("pyyaml", "6"), ("setuptools", "80")]),
                Wrong,
                "pip install torch==2.14.0",
            ),
            (packages(&[("pytest", "9.2.0"), ("ferry-acl", "0.1.0")]), Fine, "ferry-acl 0.1.0"),
            (packages(&[("pytest", "7.3.2")]), Wrong, "pytest>=7.4"),
            (
                Packages { is_autoload_off: true, ..packages(&[("pytest", "9.2.0")]) },
                Note,
                "-p ferry_acl.pytest",
            ),
            (Packages { has_plugin: false, ..packages(&[("pytest", "9.2.0")]) }, Note, "no plugin"),
        ] {
            let [finding] = &packages.judge()[..] else { panic!("{words}: one line") };
            let line = finding.line(&ferry_terminal::Terminal::plain());
            assert!(finding.severity == severity && line.contains(words), "{words}: {line}");
        }
    }

    #[test]
    fn what_torch_npu_does_not_say_is_said() {
        let findings = packages(&[("torch", "2.14.0"), ("torch_npu", "2.14.0"), ("numpy", "2")]).judge();
        let line = findings[1].line(&ferry_terminal::Terminal::plain());
        assert!(findings.len() == 2 && line.contains("pip install pyyaml setuptools"), "{line}");
        assert!(packages(&[]).judge().is_empty());
    }
}
