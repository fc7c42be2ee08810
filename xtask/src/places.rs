//! The README's two commands where and as a newcomer may run them, all at once: in a copy of the checkout in
//! a folder called `ferry` below one with blanks, entered through a link, with a HOME that cannot be written,
//! on one CPU, and, where this runs as root and may make a mount namespace, as a user without rights on a
//! machine that says it has 4 GiB.
//!
//! What 4 GiB means here: `/proc/meminfo` says so, which decides the size of devices, and no process may have
//! more than that of private memory (RLIMIT_DATA). All processes together are not limited, but on one CPU
//! cargo starts one compiler at a time.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::outcome::Outcome;
use crate::shell;

/// A user that every Linux has and that owns nothing.
const NOBODY: &str = "65534";
const MEMORY: u64 = 4 << 30;
/// What a newcomer types.
const COMMANDS: &str = "cargo run --release -- tour && cargo xtask test";

/// Runs them.
pub fn run(root: &Path) -> Result<Outcome, String> {
    let place = Place::make(root)?;
    let mut command = place.command(root)?;
    let ran = shell::run(&mut command);
    // What it built is large. What failed stays to be looked at.
    if ran.is_ok() {
        fs::remove_dir_all(&place.folder).map_err(|e| format!("{}: {e}", place.folder.display()))?;
    }
    ran.map_err(|why| format!("{why}; it ran in {}", place.folder.display()))?;
    Ok(if place.is_foreign {
        Outcome::Passed
    } else {
        Outcome::Skipped(
            "all is good, but neither as another user nor with 4 GiB: that needs root and unshare".into(),
        )
    })
}

struct Place {
    folder: PathBuf,
    /// Whether another user runs the commands, in a mount namespace.
    is_foreign: bool,
}

impl Place {
    /// A copy of the checkout and of the packages that cargo has, and a link to the copy.
    fn make(root: &Path) -> Result<Place, String> {
        let folder = std::env::temp_dir().join(format!("ferry-places-{}", std::process::id()));
        let place = Place {
            is_foreign: is_root() && shell::quiet(Command::new("unshare").args(["-m", "true"])),
            folder,
        };
        let checkout = place.checkout();
        for folder in
            [&checkout, &place.at("home"), &place.at("cargo"), &place.at("rust"), &place.at("python")]
        {
            fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        copy(root, &checkout, &["./target", "./dist", "./.git"])?;
        // Tests know where they were built, and cargo takes those of the first place for new: not if the
        // sources are newer.
        let touch = r#"find "$1" -name '*.rs' -exec touch {} +"#;
        shell::run(Command::new("sh").args(["-euc", touch, "touch"]).arg(&checkout))?;
        let built = shell::target_dir(root);
        for profile in ["debug", "release"] {
            let (from, to) = (built.join(profile), checkout.join("target").join(profile));
            if from.is_dir() {
                fs::create_dir_all(&to).map_err(|e| format!("{}: {e}", to.display()))?;
                copy(&from, &to, &["./incremental"])?;
            }
        }
        if let Some(home) = shell::cargo_home().filter(|home| home.join("registry").is_dir()) {
            copy(&home, &place.at("cargo"), &["./bin"])?;
        }
        symlink(&checkout, place.link()).map_err(|e| format!("{}: {e}", place.link().display()))?;
        let set = fs::set_permissions(place.at("home"), Permissions::from_mode(0o555));
        set.map_err(|e| format!("{}: {e}", place.at("home").display()))?;
        if place.is_foreign {
            let mut chown = Command::new("chown");
            chown.arg("-R").arg(format!("{NOBODY}:{NOBODY}")).arg(place.at("x y")).arg(place.at("cargo"));
            shell::run(&mut chown)?;
        }
        Ok(place)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn checkout(&self) -> PathBuf {
        self.at("x y").join("ferry")
    }

    fn link(&self) -> PathBuf {
        self.at("link")
    }

    /// The shell that types the commands, with nothing of this environment but where programs are.
    fn command(&self, root: &Path) -> Result<Command, String> {
        let sysroot = shell::output(shell::program(root, "rustc").args(["--print", "sysroot"]))?;
        let python = Command::new("python3").args(["-c", "import sys; print(sys.base_prefix)"]).output();
        let python =
            python.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned()).unwrap_or_default();
        let meminfo = self.at("meminfo");
        fs::write(&meminfo, said_memory()?).map_err(|e| format!("{}: {e}", meminfo.display()))?;
        let script = if self.is_foreign { FOREIGN } else { PLAIN };
        let mut command = match self.is_foreign {
            true => Command::new("unshare"),
            false => Command::new("sh"),
        };
        if self.is_foreign {
            command.args(["-m", "sh"]);
        }
        command.args(["-euc", script]).current_dir("/").env_clear();
        command.env("PLACE", &self.folder).env("RUST", sysroot.trim()).env("PYTHON", python);
        command.env("NOBODY", NOBODY).env("BYTES", MEMORY.to_string()).env("COMMANDS", COMMANDS);
        // A toolchain without rustup's stand-ins: those want a HOME that they can write.
        let path = match self.is_foreign {
            true => format!("{}:{}", self.at("rust/bin").display(), self.at("python/bin").display()),
            false => format!("{}/bin", sysroot.trim()),
        };
        command.env("PATH", format!("{path}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"));
        command.env("HOME", self.at("home")).env("CARGO_HOME", self.at("cargo"));
        Ok(command)
    }
}

/// On one CPU, the first that this process may use.
const PLAIN: &str = r#"cd "$PLACE/link"; exec taskset -c "$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')" \
    sh -euc "$COMMANDS""#;

/// The same as another user, who finds the toolchain and Python where he may read them.
const FOREIGN: &str = r#"
mount --make-rprivate /
mount --bind "$PLACE/meminfo" /proc/meminfo
mount --bind "$RUST" "$PLACE/rust"
if [ -n "$PYTHON" ]; then mount --bind "$PYTHON" "$PLACE/python"; fi
become="setpriv --reuid $NOBODY --regid $NOBODY --clear-groups"
# A Python that knows where its library was, which this user may not read, is none: the system's is taken.
if ! $become python3 -c 'import ssl'; then umount "$PLACE/python"; fi
cd "$PLACE/link"
cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
exec $become taskset -c "$cpu" prlimit --data="$BYTES" sh -euc "$COMMANDS"
"#;

/// `/proc/meminfo` of a machine with less memory.
fn said_memory() -> Result<String, String> {
    let said = fs::read_to_string("/proc/meminfo").map_err(|e| format!("/proc/meminfo: {e}"))?;
    let total = format!("{:>8}", MEMORY >> 10);
    let line = |line: &str| match line.split_once(':') {
        Some((name @ ("MemTotal" | "MemAvailable" | "MemFree"), _)) => format!("{name}: {total} kB\n"),
        _ => format!("{line}\n"),
    };
    Ok(said.lines().map(line).collect())
}

fn is_root() -> bool {
    let user = Command::new("id").arg("-u").output().map(|out| out.stdout).unwrap_or_default();
    user.trim_ascii() == b"0"
}

/// Copies what is in a folder, but for some of it.
fn copy(from: &Path, to: &Path, but: &[&str]) -> Result<(), String> {
    let but: Vec<String> = but.iter().map(|name| format!("--exclude={name}")).collect();
    let script = r#"from=$1 to=$2; shift 2; tar -C "$from" -cf - "$@" . | tar -C "$to" -xf -"#;
    shell::run(Command::new("sh").args(["-euc", script, "copy"]).arg(from).arg(to).args(but))
}
