//! The modules of one package, found from its root file as the compiler finds them, and what names in them
//! mean.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::read::{self, Import, Outline, UseAs};

/// A package of the workspace.
pub struct Package {
    /// The name of its folder: `core`, `backends`.
    pub name: String,
    /// The root is the first one.
    pub modules: Vec<Module>,
}

/// A module in its place in the tree.
pub struct Module {
    /// What its text says.
    pub read: Outline,
    pub name: String,
    pub parent: Option<usize>,
    /// Children by name.
    pub children: HashMap<String, usize>,
    /// Itself if it is a file, else the module of the file that it lies in: arrows are between files.
    pub file_module: usize,
    /// From the top of the repository.
    pub file: PathBuf,
    /// The sentences that the file begins with.
    pub doc: String,
    /// Lines of the file; none for inline modules.
    pub lines: usize,
    /// Lines of it that only tests have.
    pub test_lines: usize,
    /// Lines of the others that are comments.
    pub comments: usize,
    /// Lines of the others with nothing on them.
    pub blank: usize,
}

/// That one module needs another.
pub struct Arrow {
    pub from: usize,
    pub to: usize,
    /// Where one of the reasons stands.
    pub line: usize,
    /// What is written there.
    pub path: String,
}

/// What a name means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Module(usize),
    /// Something that is defined in this module.
    Item(usize),
}

/// Gives the text of a file, from the top of the repository; nothing where there is no such file.
pub type Sources<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// Re-exports of re-exports of re-exports.
const DEEPEST: usize = 32;

impl Package {
    /// Reads the package in a folder of the repository, from `src/lib.rs`, else from `src/main.rs`.
    pub fn load(files: Sources<'_>, folder: &str) -> Result<Package, String> {
        let name = folder.rsplit('/').next().unwrap_or(folder).to_owned();
        let mut package = Package { name, modules: Vec::new() };
        let roots = ["src/lib.rs", "src/main.rs"].map(|root| Path::new(folder).join(root));
        let root = roots.iter().find(|root| files(root).is_some());
        let root = root.ok_or_else(|| format!("{folder} has neither src/lib.rs nor src/main.rs"))?;
        let below = root.parent().expect("a file is in a folder").to_owned();
        package.add_file(files, root.clone(), &below, "crate".into(), None)?;
        Ok(package)
    }

    /// Reads a file and the modules it declares, whose files lie in `below`.
    fn add_file(
        &mut self,
        files: Sources<'_>,
        file: PathBuf,
        below: &Path,
        name: String,
        parent: Option<usize>,
    ) -> Result<usize, String> {
        let text = files(&file).ok_or_else(|| format!("{} cannot be read", file.display()))?;
        let read = read::read(&text).map_err(|e| format!("{} {e}", file.display()))?;
        let at = self.modules.len();
        self.modules.push(Module {
            name,
            parent,
            children: HashMap::new(),
            file_module: at,
            file,
            doc: opening(&text),
            lines: text.lines().count(),
            test_lines: read.tests.iter().map(|lines| lines.end() + 1 - lines.start()).sum(),
            comments: count(&text, &read, |line| line.starts_with("//")),
            blank: count(&text, &read, str::is_empty),
            read,
        });
        self.add_children(files, below, at)?;
        Ok(at)
    }

    fn add_children(&mut self, files: Sources<'_>, below: &Path, parent: usize) -> Result<(), String> {
        for mut child in std::mem::take(&mut self.modules[parent].read.children) {
            let folder = below.join(&child.name);
            let at = match child.inline.take() {
                Some(read) => self.add_inline(files, &folder, child.name.clone(), read, parent)?,
                None => {
                    let both = [below.join(format!("{}.rs", child.name)), folder.join("mod.rs")];
                    let file = both.into_iter().find(|file| files(file).is_some());
                    let file = file.ok_or_else(|| format!("{}: no file", folder.display()))?;
                    self.add_file(files, file, &folder, child.name.clone(), Some(parent))?
                }
            };
            if child.conditional {
                self.modules[at].read.types.iter_mut().for_each(|found| found.conditional = true);
            }
            self.modules[parent].children.insert(child.name, at);
        }
        Ok(())
    }

    fn add_inline(
        &mut self,
        files: Sources<'_>,
        below: &Path,
        name: String,
        read: Outline,
        parent: usize,
    ) -> Result<usize, String> {
        let at = self.modules.len();
        let file_module = self.modules[parent].file_module;
        self.modules[file_module].test_lines +=
            read.tests.iter().map(|lines| lines.end() + 1 - lines.start()).sum::<usize>();
        self.modules[file_module].read.has_code |= read.has_code;
        self.modules.push(Module {
            read,
            name,
            parent: Some(parent),
            children: HashMap::new(),
            file_module,
            file: self.modules[file_module].file.clone(),
            doc: String::new(),
            lines: 0,
            test_lines: 0,
            comments: 0,
            blank: 0,
        });
        self.add_children(files, below, at)?;
        Ok(at)
    }

    /// The modules that are files.
    pub fn files(&self) -> impl Iterator<Item = usize> {
        (0..self.modules.len()).filter(|&at| self.modules[at].file_module == at)
    }

    /// The file modules right below one.
    pub fn files_below(&self, parent: usize) -> impl Iterator<Item = usize> {
        self.files().filter(move |&at| {
            let above = self.modules[at].parent;
            above.is_some_and(|above| self.modules[above].file_module == parent)
        })
    }

    /// Whether `at` is `above` or lies below it.
    pub fn is_within(&self, mut at: usize, above: usize) -> bool {
        loop {
            if at == above {
                return true;
            }
            match self.modules[at].parent {
                Some(parent) => at = parent,
                None => return false,
            }
        }
    }

    /// Its path from the root, `order/fence`; empty for the root.
    pub fn path(&self, mut at: usize) -> String {
        let mut words = Vec::new();
        while let Some(parent) = self.modules[at].parent {
            words.push(self.modules[at].name.as_str());
            at = parent;
        }
        words.reverse();
        words.join("/")
    }

    /// Every arrow between two files, once, with the first reason for it.
    pub fn arrows(&self) -> Vec<Arrow> {
        let mut arrows = Vec::new();
        for at in 0..self.modules.len() {
            for (to, line, path) in self.needs(at) {
                let (from, to) = (self.modules[at].file_module, self.modules[to].file_module);
                if from != to {
                    arrows.push(Arrow { from, to, line, path });
                }
            }
        }
        arrows.sort_by_key(|arrow| (arrow.from, arrow.to, arrow.line));
        arrows.dedup_by_key(|arrow| (arrow.from, arrow.to));
        arrows
    }

    /// The modules that define what module `at` imports or names.
    fn needs(&self, at: usize) -> Vec<(usize, usize, String)> {
        let read = &self.modules[at].read;
        let mut found = Vec::new();
        for import in read.imports.iter().filter(|import| !import.public) {
            if let Some(Meaning::Item(to)) = self.resolve(at, &import.path, false, 0) {
                found.push((to, import.line, import.path.join("::")));
            }
        }
        for path in &read.paths {
            let meaning = match path.segments.as_slice() {
                [name] => self.bare(at, name, path.use_as),
                segments => self.resolve(at, segments, false, 0),
            };
            if let Some(Meaning::Item(to)) = meaning {
                found.push((to, path.line, path.segments.join("::")));
            }
        }
        found
    }

    /// A single name. Where only a glob could bring it, a small letter that is not called is a variable.
    fn bare(&self, at: usize, name: &str, use_as: UseAs) -> Option<Meaning> {
        if use_as == UseAs::Macro {
            return self.look_up(at, name, false, 0).or_else(|| self.textual_macro(name));
        }
        let is_variable = use_as == UseAs::Other && name.starts_with(|first: char| first.is_lowercase());
        if is_variable { None } else { self.look_up(at, name, false, 0) }
    }

    /// A macro by its bare name: those need no import where they are in scope by their place in the text.
    fn textual_macro(&self, name: &str) -> Option<Meaning> {
        let has = |at: &usize| self.modules[*at].read.macros.iter().any(|known| known == name);
        let mut all = (0..self.modules.len()).filter(has);
        all.next().filter(|_| all.next().is_none()).map(Meaning::Item)
    }

    /// Follows a path from module `at`. `as_module`: a module is wanted where a name means two things.
    fn resolve(&self, at: usize, path: &[String], as_module: bool, depth: usize) -> Option<Meaning> {
        let (first, rest) = path.split_first()?;
        let wants = |rest: &[String]| !rest.is_empty() || as_module;
        let mut meaning = match first.as_str() {
            "crate" => Meaning::Module(0),
            "self" => Meaning::Module(at),
            "super" => Meaning::Module(self.modules[at].parent?),
            name => self.look_up(at, name, wants(rest), depth)?,
        };
        for (index, name) in rest.iter().enumerate() {
            let Meaning::Module(inside) = meaning else { break };
            meaning = match name.as_str() {
                "super" => Meaning::Module(self.modules[inside].parent?),
                name => {
                    let found = self.look_up(inside, name, wants(&rest[index + 1..]), depth);
                    // The compiler has found it: a macro has defined it there.
                    found.unwrap_or(Meaning::Item(inside))
                }
            };
        }
        Some(meaning)
    }

    fn look_up(&self, at: usize, name: &str, as_module: bool, depth: usize) -> Option<Meaning> {
        if depth > DEEPEST {
            return None;
        }
        let module = &self.modules[at];
        let child = || module.children.get(name).map(|&child| Meaning::Module(child));
        let item = || module.read.items.iter().any(|known| known == name).then_some(Meaning::Item(at));
        let own = if as_module { child().or_else(item) } else { item().or_else(child) };
        own.or_else(|| {
            let named = module.read.imports.iter().filter(|import| import.name == name);
            self.first_of(at, named, as_module, depth)
        })
        .or_else(|| {
            let globs = module.read.imports.iter().filter(|import| import.name == "*");
            let mut inside = globs.filter_map(|glob| match self.resolve(at, &glob.path, true, depth + 1) {
                Some(Meaning::Module(inside)) if inside != at => Some(inside),
                _ => None,
            });
            inside.find_map(|inside| self.look_up(inside, name, as_module, depth + 1))
        })
    }

    fn first_of<'a>(
        &self,
        at: usize,
        mut imports: impl Iterator<Item = &'a Import>,
        as_module: bool,
        depth: usize,
    ) -> Option<Meaning> {
        imports.find_map(|import| self.resolve(at, &import.path, as_module, depth + 1))
    }
}

/// The comment that a file begins with.
fn opening(text: &str) -> String {
    let lines = text.lines().skip_while(|line| !line.starts_with("//!"));
    let lines = lines.map_while(|line| line.strip_prefix("//!"));
    lines.map(str::trim).collect::<Vec<_>>().join("\n")
}

/// Lines outside of tests that are as wanted, blanks at their ends left out.
fn count(text: &str, read: &Outline, is_wanted: impl Fn(&str) -> bool) -> usize {
    let is_test = |line: usize| read.tests.iter().any(|lines| lines.contains(&line));
    let lines = text.lines().zip(1..).filter(|&(_, line)| !is_test(line));
    lines.filter(|(text, _)| is_wanted(text.trim())).count()
}
