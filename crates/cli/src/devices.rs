//! `ferry devices`: which library, which backend, which devices and how much memory they have.

use std::process::ExitCode;

use serde_json::json;

use crate::error::{Error, Result};
use crate::library::Library;
use crate::machine::{self, Machine};
use crate::terminal::{bytes, put};

/// Options of `ferry devices`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    machine: Machine,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

struct Device {
    id: i32,
    total: usize,
    free: usize,
}

struct Report {
    library: String,
    version: Option<&'static str>,
    backend: String,
    soc: String,
    run_mode: &'static str,
    devices: Vec<Device>,
}

/// Prints the report.
pub fn main(args: &Args) -> Result<ExitCode> {
    // SAFETY: the command has started no thread yet.
    unsafe { args.machine.export() };
    let library = Library::open()?;
    let report = Report::of(library)?;
    library.finish()?;
    put(&if args.json { format!("{:#}\n", report.json()) } else { report.text() });
    Ok(ExitCode::SUCCESS)
}

impl Report {
    fn of(library: &Library) -> Result<Report> {
        let count = library.device_count()? as i32;
        Ok(Report {
            library: library.path.display().to_string(),
            version: library.version,
            backend: machine::backend_name(),
            soc: library.soc_name()?,
            run_mode: run_mode(library)?,
            devices: (0..count).map(|id| device(library, id)).collect::<Result<_>>()?,
        })
    }

    fn json(&self) -> serde_json::Value {
        let device = |d: &Device| json!({ "id": d.id, "total_bytes": d.total, "free_bytes": d.free });
        json!({
            "library": { "path": self.library, "version": self.version },
            "backend": self.backend,
            "soc": self.soc,
            "run_mode": self.run_mode,
            "devices": self.devices.iter().map(device).collect::<Vec<_>>(),
        })
    }

    fn text(&self) -> String {
        let version = self.version.map(|version| format!(" ({version})")).unwrap_or_default();
        let mut text = format!("library   {}{version}\n", self.library);
        text += &format!("backend   {}\n", self.backend);
        text += &format!("SoC       {}\n", self.soc);
        text += &format!("run mode  {}\n\n", self.run_mode);
        text += "device       total        free\n";
        for device in &self.devices {
            text += &format!("{:>6} {:>11} {:>11}\n", device.id, bytes(device.total), bytes(device.free));
        }
        text
    }
}

fn device(library: &Library, id: i32) -> Result<Device> {
    library.set_device(id)?;
    let (free, total) = library.memory_info()?;
    library.reset_device(id)?;
    Ok(Device { id, total, free })
}

/// ACL_HOST: programs run on the host, apart from the devices. ACL_DEVICE: they run on the board itself.
fn run_mode(library: &Library) -> Result<&'static str> {
    match library.run_mode()? {
        0 => Ok("device"),
        1 => Ok("host"),
        mode => Err(Error::Setup(format!("aclrtGetRunMode wrote {mode}, neither 0 (device) nor 1 (host)"))),
    }
}
