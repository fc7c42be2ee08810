//! `ferry devices`: which library, which backend, which devices and how much memory they have.
//!
//! What it prints is what a program would find: it opens the library as a program does and asks by its
//! functions. Only quirks, limits, schedules and faults are read from the environment (`dials.rs`), since no
//! function tells of them; a bad one has made the library refuse to open by then.

use std::collections::BTreeMap;
use std::process::ExitCode;

use ferry_abi::{Error, Library, Result, library};
use ferry_terminal::{bytes, put};
use serde_json::json;

use crate::machine::Machine;

mod dials;

/// Options of `ferry devices`.
#[derive(clap::Args)]
pub struct DevicesArgs {
    #[command(flatten)]
    machine: Machine,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

struct Device {
    id: i32,
    /// Its number on this machine; another one where only some devices are visible.
    physical: i64,
    total: usize,
    free: usize,
}

struct DeviceReport {
    /// ASCEND_RT_VISIBLE_DEVICES, where it is set.
    visible: Option<String>,
    library: String,
    version: Option<&'static str>,
    backend: String,
    soc: String,
    run_mode: &'static str,
    /// The quirks that are on, each with what it does.
    quirks: Vec<(&'static str, &'static str)>,
    /// Variables that limit something, with their values.
    limits: Vec<(&'static str, String)>,
    /// Variables that decide when work runs and what fails, with their values.
    chances: Vec<(&'static str, String)>,
    devices: Vec<Device>,
}

/// Prints the report.
pub fn main(args: &DevicesArgs) -> Result<ExitCode> {
    // SAFETY: the command has started no thread yet.
    unsafe { args.machine.export() };
    let library = Library::open()?;
    let report = DeviceReport::of(library)?;
    library.finish()?;
    put(&if args.json { format!("{:#}\n", report.json()) } else { report.text() });
    Ok(ExitCode::SUCCESS)
}

impl DeviceReport {
    fn of(library: &Library) -> Result<DeviceReport> {
        let count = library.device_count()? as i32;
        let visible = std::env::var_os("ASCEND_RT_VISIBLE_DEVICES");
        Ok(DeviceReport {
            visible: visible.map(|list| list.to_string_lossy().into_owned()),
            library: library.path.display().to_string(),
            version: library.version,
            backend: library::backend_name(),
            soc: library.soc_name()?,
            run_mode: run_mode(library)?,
            quirks: dials::quirks(),
            limits: dials::limits(),
            chances: dials::chances(),
            devices: (0..count).map(|id| device(library, id)).collect::<Result<_>>()?,
        })
    }

    fn json(&self) -> serde_json::Value {
        let device = |one: &Device| {
            let (id, physical) = (one.id, one.physical);
            json!({ "id": id, "physical_id": physical, "total_bytes": one.total, "free_bytes": one.free })
        };
        json!({
            "library": { "path": self.library, "version": self.version },
            "backend": self.backend,
            "soc": self.soc,
            "run_mode": self.run_mode,
            "visible_devices": self.visible,
            "quirks": self.quirks.iter().map(|(id, _)| id).collect::<Vec<_>>(),
            "limits": self.limits.iter().cloned().collect::<BTreeMap<_, _>>(),
            "chances": self.chances.iter().cloned().collect::<BTreeMap<_, _>>(),
            "devices": self.devices.iter().map(device).collect::<Vec<_>>(),
        })
    }

    fn text(&self) -> String {
        let version = self.version.map(|version| format!(" ({version})")).unwrap_or_default();
        let mut text = format!("library   {}{version}\n", self.library);
        text += &format!("backend   {}\n", self.backend);
        text += &format!("SoC       {}\n", self.soc);
        text += &format!("run mode  {}\n", self.run_mode);
        if let Some(list) = &self.visible {
            text += &format!("visible   {list:?} (ASCEND_RT_VISIBLE_DEVICES)\n");
        }
        for (id, effect) in &self.quirks {
            text += &format!("quirk     {id}: {effect}\n");
        }
        for (name, value) in &self.limits {
            text += &format!("limit     {name}={value}\n");
        }
        for (name, value) in &self.chances {
            text += &format!("chance    {name}={value}\n");
        }
        let column =
            |text: String| if self.visible.is_some() { format!("{text:>10}") } else { String::new() };
        text += &format!("\ndevice{}       total        free\n", column("physical".to_owned()));
        for device in &self.devices {
            let (id, physical) = (device.id, column(device.physical.to_string()));
            text += &format!("{id:>6}{physical} {:>11} {:>11}\n", bytes(device.total), bytes(device.free));
        }
        text
    }
}

fn device(library: &Library, id: i32) -> Result<Device> {
    library.set_device(id)?;
    let (free, total) = library.memory_info()?;
    library.reset_device(id)?;
    Ok(Device { id, physical: library.physical_number(id as u32)?, total, free })
}

/// ACL_HOST: programs run on the host, apart from the devices. ACL_DEVICE: they run on the board itself.
fn run_mode(library: &Library) -> Result<&'static str> {
    match library.run_mode()? {
        0 => Ok("device"),
        1 => Ok("host"),
        mode => Err(Error::Setup(format!("aclrtGetRunMode wrote {mode}, neither 0 (device) nor 1 (host)"))),
    }
}
