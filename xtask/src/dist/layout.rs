//! Where everything lies below the prefix: the tree of a CANN toolkit, so that programs written for one find
//! what they look for.
//!
//! The real folders are those of `<arch>-linux`; `include`, `lib64`, `bin` and the like are second names.
//! Files with versions are in the forms that programs read, and say what the library says
//! (`tests/dist/rules.py` compares them).

use std::env::consts::ARCH;
use std::path::Path;

use super::tree::{Tree, read};

/// What aclsysGetVersionStr says of every package.
const CANN: &str = "8.5.0";
/// What `npu-smi` says, too.
const DRIVER: &str = "25.5.0";
/// Packages with lines in version.cfg, and with a file of their own below share/info.
const PACKAGES: [&str; 5] = ["runtime", "compiler", "hccl", "opp", "toolkit"];

/// The folder that holds the real ones.
pub fn real() -> String {
    format!("{ARCH}-linux")
}

/// Puts a file into the real folders: `lib64/libascendcl.so`.
pub fn place(path: &str) -> String {
    format!("{}/{path}", real())
}

/// The second names of folders, and those that old programs look in.
pub fn links(tree: &mut Tree) {
    for name in ["include", "lib64", "devlib", "bin"] {
        tree.link(name, place(name));
    }
    // Where pkg-config and CMake look first.
    tree.link("lib", place("lib64"));
    for name in ["libascendcl.so", "libacl_rt.so"] {
        tree.link(place(&format!("devlib/{name}")), format!("../lib64/{name}"));
    }
    for package in ["runtime", "compiler"] {
        for name in ["include", "lib64"] {
            tree.link(format!("{package}/{name}"), format!("../{}", place(name)));
        }
    }
    for old in ["acllib", "fwkacllib"] {
        tree.link(old, "runtime");
    }
    if ARCH == "aarch64" {
        tree.link("arm64-linux", real());
    }
}

/// The Python module, unpacked from its wheel, for those who have the tree in PYTHONPATH. Its library is the
/// tree's. What a wheel has Python run when it starts (ferry_acl.pth) is run by sitecustomize.py there.
pub fn module(root: &Path, tree: &mut Tree, unpacked: &Path) -> Result<(), String> {
    let folder = Path::new("python/site-packages");
    tree.folder(folder, unpacked)?;
    // The tree is the toolkit.
    tree.remove_below(&folder.join("ferry_acl/toolkit"));
    tree.file(folder.join("sitecustomize.py"), read(&root.join("packaging/python/sitecustomize.py"))?);
    for name in ["libascendcl.so", "libacl_rt.so"] {
        tree.link(
            folder.join("acl/lib").join(name),
            format!("../../../../{}", place(&format!("lib64/{name}"))),
        );
    }
    Ok(())
}

/// The companions that were built into `folder`.
pub fn companions(tree: &mut Tree, folder: &Path) -> Result<(), String> {
    for entry in std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))? {
        let path = entry.map_err(|e| format!("{}: {e}", folder.display()))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        tree.program(place(&format!("lib64/{name}")), read(&path)?);
    }
    Ok(())
}

/// Files with versions.
pub fn versions(tree: &mut Tree) {
    tree.file(place("ascend_toolkit_install.info"), install_info());
    tree.file("version.cfg", version_cfg());
    let version = format!("Version={CANN}\n");
    for package in ["runtime", "compiler", "opp", "toolkit"] {
        tree.file(format!("{package}/version.info"), version.clone());
    }
    for package in PACKAGES {
        tree.file(format!("share/info/{package}/version.info"), version.clone());
    }
    tree.file("driver/version.info", driver_info());
}

/// What the driver and the toolkit say they work with.
const COMPATIBLE: &str =
    "[V100R001C15],[V100R001C18],[V100R001C19],[V100R001C20],[V100R001C21],[V100R001C23]";

/// No line before `version=` may have that word: one program takes the first that has. The path is left open:
/// the tree may be moved.
fn install_info() -> String {
    format!(
        "package_name=Ascend-cann-toolkit\nversion={CANN}\ninnerversion=V100R001C25SPC001B001\n\
         compatible_version={COMPATIBLE}\n\
         arch={ARCH}\nos=linux\npath=\n"
    )
}

/// One program drops the first line, another takes the first number of three parts in the file.
fn version_cfg() -> String {
    let mut text = "# version: 1.0\n".to_owned();
    for state in ["running", "upgrade", "installed"] {
        for package in PACKAGES {
            text += &format!("{package}_{state}_version=[{CANN}.0.000:{CANN}]\n");
        }
    }
    text
}

fn driver_info() -> String {
    format!(
        "Version={DRIVER}\nascendhal_version=7.35.23\nInnerversion=V100R001C23SPC005B219\n\
         compatible_version={COMPATIBLE}\n\
         package_version={DRIVER}\n"
    )
}

/// What lies outside of a tree at `.../ascend-toolkit/latest`: the copy of set_env.sh one folder up, and the
/// driver two up. With the folder that both are below.
pub fn around<'a>(prefix: &'a Path, set_env: &str) -> Option<(&'a Path, Tree)> {
    let base = prefix.ends_with("ascend-toolkit/latest").then(|| prefix.ancestors().nth(2)).flatten()?;
    let mut tree = Tree::default();
    tree.file("ascend-toolkit/set_env.sh", set_env);
    tree.file("driver/version.info", driver_info());
    Some((base, tree))
}
