//! What a runtime is made of, given by the program or by the environment. The one place that reads it for
//! Rust and C programs; what only the C library heeds is read in `ferry-acl`, with the helpers from here.

use crate::{
    Error, FaultPlan, Kind, Observer, Result,
    products::{Form, PRODUCTS, Product},
};
use ferry_backends::{
    cuda::settings::{Constants, Settings},
    host::schedule::RunOrder,
};
use std::{env, fmt, path::PathBuf, str::FromStr, sync::Arc};

const MOST_DEVICES: usize = 64;
const LEAST_MEMORY: usize = 64 << 10;
const MOST_MEMORY: usize = 16 << 40;
const MOST_BLOCKS: usize = 1024;
const MOST_STAGERS: usize = 256;

/// Where processes that share device memory find each other, unless they name a folder: every process of a
/// machine, or of a container, has it.
pub const SHARED_FOLDER: &str = "/dev/shm";

/// Which devices this process sees.
pub const VISIBLE: &str = "ASCEND_RT_VISIBLE_DEVICES";

/// Which backend to open, how, and the product that its devices pass for. The default is two devices of the
/// host backend, as Ascend910B1 cards.
///
/// ```
/// use ferry::{BackendName, Options, products::Form};
///
/// let options = Options { devices: Some(4), device_memory: Some(1 << 20), ..Options::default() };
/// assert_eq!(options.backend, BackendName::Host);
/// assert_eq!(options.soc, "Ascend910B1");
///
/// // A board, on which host and device memory are one.
/// let board = Options { form: Form::Rc, ..Options::default().soc("Ascend310B1")? };
/// assert!(board.is_unified() && !options.is_unified());
/// # Ok::<(), ferry::Error>(())
/// ```
#[derive(Clone)]
pub struct Options {
    /// The way to reach devices.
    pub backend: BackendName,
    /// Number of devices. `None` is two of the host backend, and one for each GPU of the cuda backend; there
    /// more devices share the GPUs.
    pub devices: Option<usize>,
    /// Only the devices with these numbers are opened, and numbered anew in this order; those that do not
    /// exist are passed over. `None` is all of them.
    pub visible: Option<Vec<u32>>,
    /// Bytes of each device; `None` is half of what this machine has, or what the GPU has.
    pub device_memory: Option<usize>,
    /// The folder by which the processes of a user find each other that share one budget of memory for each
    /// device; the first one's size counts. What `FERRY_DEVICE_SHARED=1` means is [`SHARED_FOLDER`]. `None`
    /// is memory of this process's own. The host backend only.
    pub device_shared: Option<PathBuf>,
    /// The product that is emulated. [`Options::soc`] sets it together with its name.
    pub product: &'static Product,
    /// Its SoC name as given: one of the product's.
    pub soc: String,
    /// How it is installed: one of the product's forms.
    pub form: Form,
    /// What the cuda backend is told about copies; no other heeds it.
    pub cuda: Settings,
    /// When the host backend runs work that may run at different times; `None` is as soon as a thread is
    /// free. No other backend heeds it.
    pub schedule: Option<RunOrder>,
    /// What random choices start from.
    pub seed: u64,
    /// What is to fail. In Rust programs only copies, fills and reductions do.
    pub faults: FaultPlan,
    /// Watches everything.
    pub observers: Vec<Arc<dyn Observer>>,
}

/// The backends by the names users choose them by.
///
/// ```
/// use ferry::BackendName;
///
/// assert_eq!("cuda".parse::<BackendName>()?, BackendName::Cuda);
/// assert_eq!("tpu".parse::<BackendName>().unwrap_err().note, "backend 'tpu' is not one of: host, cuda");
/// # Ok::<(), ferry::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendName {
    /// Devices made of memory and threads.
    #[default]
    Host,
    /// A real NVIDIA GPU.
    Cuda,
}

impl fmt::Display for BackendName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            BackendName::Host => "host",
            BackendName::Cuda => "cuda",
        })
    }
}

impl Default for Options {
    fn default() -> Self {
        let product = &PRODUCTS[0];
        Options {
            backend: BackendName::Host,
            devices: None,
            visible: None,
            device_memory: None,
            device_shared: None,
            product,
            soc: product.soc.into(),
            form: Form::Ep,
            cuda: Settings::default(),
            schedule: None,
            seed: 0,
            faults: FaultPlan::default(),
            observers: Vec::new(),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("backend", &self.backend)
            .field("devices", &self.devices)
            .field("visible", &self.visible)
            .field("device_memory", &self.device_memory)
            .field("device_shared", &self.device_shared)
            .field("soc", &self.soc)
            .field("form", &self.form)
            .field("cuda", &self.cuda)
            .field("schedule", &self.schedule)
            .field("seed", &self.seed)
            .field("faults", &self.faults)
            .field("observers", &self.observers.len())
            .finish_non_exhaustive()
    }
}

impl Options {
    /// What the environment says: `FERRY_BACKEND`, `FERRY_DEVICES`, `ASCEND_RT_VISIBLE_DEVICES`,
    /// `FERRY_DEVICE_MEMORY`, `FERRY_DEVICE_SHARED`, `FERRY_SOC`, `FERRY_FORM`, `FERRY_CUDA_PLAN`,
    /// `FERRY_CUDA_BLOCKS`, `FERRY_CUDA_STAGERS`, `FERRY_SCHEDULE`, `FERRY_SEED` and
    /// `FERRY_FAULT`, which `docs/ENVIRONMENT.md` describes; the default for each that is not set. A `FERRY_`
    /// variable that makes no sense is an error of [`Kind::BadSetting`] that lists the valid values.
    ///
    /// ```
    /// // FERRY_DEVICES, if that is set.
    /// let options = ferry::Options::from_env()?;
    /// assert!((1..=64).contains(&options.devices.unwrap_or(2)));
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn from_env() -> Result<Options> {
        Options::from_vars(var)
    }

    fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Options> {
        let mut options = Options::default();
        if let Some(name) = var("FERRY_SOC") {
            options = options.soc(name)?;
        }
        if let Some(name) = var("FERRY_FORM") {
            options.form = Form::for_product(&name, options.product)?;
        }
        Ok(Options {
            backend: setting("FERRY_BACKEND", &var, BackendName::from_str)?.unwrap_or_default(),
            devices: setting("FERRY_DEVICES", &var, |text| count(text, MOST_DEVICES))?,
            visible: var(VISIBLE).map(|text| visible(&text)),
            device_memory: setting("FERRY_DEVICE_MEMORY", &var, device_memory)?,
            device_shared: setting("FERRY_DEVICE_SHARED", &var, device_shared)?.flatten(),
            cuda: cuda(&var)?,
            schedule: setting("FERRY_SCHEDULE", &var, RunOrder::from_str)?,
            seed: setting("FERRY_SEED", &var, seed)?.unwrap_or_default(),
            faults: setting("FERRY_FAULT", &var, FaultPlan::from_str)?.unwrap_or_default(),
            ..options
        })
    }

    /// These options with the product of this SoC name; an error of [`Kind::BadSetting`] that lists the valid
    /// names if there is none. The form stays as it is.
    ///
    /// ```
    /// use ferry::Options;
    ///
    /// let options = Options::default().soc("Ascend310P1")?;
    /// assert_eq!((options.product.tag, options.soc.as_str()), ("INF", "Ascend310P1"));
    /// assert!(Options::default().soc("Ascend999").is_err());
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn soc(self, name: impl Into<String>) -> Result<Options> {
        let soc = name.into();
        let product = Product::of_soc(&soc).ok_or_else(|| {
            let valid: Vec<_> = PRODUCTS.iter().flat_map(|product| product.names).copied().collect();
            Kind::BadSetting
                .because(format!("FERRY_SOC={soc} is not a product; valid ones: {}", valid.join(", ")))
        })?;
        Ok(Options { product, soc, ..self })
    }

    /// Whether host and device memory are one, as on boards and control CPUs, where the application runs on
    /// the device. The host backend only.
    ///
    /// ```
    /// assert!(!ferry::Options::default().is_unified());
    /// ```
    pub fn is_unified(&self) -> bool {
        self.form != Form::Ep
    }

    /// Refuses numbers out of range, and a product, a name and a form that do not go together: the fields can
    /// be set one by one.
    pub(crate) fn check(&self) -> Result<()> {
        let (product, soc) = (self.product, &self.soc);
        if !product.names.contains(&soc.as_str()) {
            let names = product.names.join(", ");
            return Err(Kind::BadSetting
                .because(format!("soc is '{soc}', which is not one of product {}: {names}", product.tag)));
        }
        if let Some(devices) = self.devices.filter(|count| !(1..=MOST_DEVICES).contains(count)) {
            let note = format!("devices is {devices}: give a number from 1 to {MOST_DEVICES}");
            return Err(Kind::BadSetting.because(note));
        }
        if let Some(size) = self.device_memory {
            let named = |why| Kind::BadSetting.because(format!("device_memory is {size} bytes: {why}"));
            in_range(size).map_err(named)?;
        }
        let visible = self.visible.as_deref().unwrap_or_default();
        if let Some(twice) = visible.iter().enumerate().find(|(at, id)| visible[..*at].contains(id)) {
            return Err(Kind::BadSetting.because(format!("device {} is visible twice: {visible:?}", twice.1)));
        }
        Form::for_product(self.form.name(), product).map(drop)
    }
}

impl FromStr for BackendName {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self> {
        match name {
            "host" => Ok(BackendName::Host),
            "cuda" => Ok(BackendName::Cuda),
            other => Err(Kind::BadSetting.because(format!("backend '{other}' is not one of: host, cuda"))),
        }
    }
}

/// A variable of the environment. Bytes that are no text are shown as such in the message that refuses them.
pub fn var(name: &str) -> Option<String> {
    env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// What `read` makes of a variable, if it is set. Its refusal is put behind the name and the value.
pub fn setting<T>(
    name: &str,
    var: impl Fn(&str) -> Option<String>,
    read: impl Fn(&str) -> Result<T>,
) -> Result<Option<T>> {
    let Some(value) = var(name) else { return Ok(None) };
    read(&value).map(Some).map_err(|why| Kind::BadSetting.because(format!("{name}={value}: {why}")))
}

/// Reads a whole number from 1 to `most`.
pub fn count(text: &str, most: usize) -> Result<usize> {
    let bad = || Kind::BadSetting.because(format!("give a whole number from 1 to {most}"));
    text.parse().ok().filter(|number| (1..=most).contains(number)).ok_or_else(bad)
}

/// Reads a switch. One that is set to nothing is off.
pub fn switch(text: &str) -> Result<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => Ok(true),
        "" | "0" | "off" | "no" | "false" => Ok(false),
        _ => Err(Kind::BadSetting.because("give 1, on, yes or true, or 0, off, no or false")),
    }
}

/// Reads a size in bytes: a number, or a number with K, M, G or T behind it (powers of 1024).
///
/// ```
/// assert_eq!(ferry::parse_size("64K")?, 65536);
/// assert!(ferry::parse_size("lots").is_err());
/// # Ok::<(), ferry::Error>(())
/// ```
pub fn parse_size(text: &str) -> Result<usize> {
    let bad = || {
        Kind::BadSetting.because(format!("'{text}' is not a size: give bytes, or a number with K, M, G or T"))
    };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().trim_end_matches("IB").trim_end_matches('B') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(bad()),
    };
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(bad());
    }
    let large = || Kind::BadSetting.because(format!("'{text}' is more bytes than there are addresses"));
    digits.parse::<usize>().ok().and_then(|number| number.checked_mul(1 << shift)).ok_or_else(large)
}

fn device_memory(text: &str) -> Result<usize> {
    in_range(parse_size(text)?)
}

fn in_range(size: usize) -> Result<usize> {
    let bad = || Kind::BadSetting.because("give a size from 64K to 16T");
    Some(size).filter(|size| (LEAST_MEMORY..=MOST_MEMORY).contains(size)).ok_or_else(bad)
}

/// On is the folder of this machine, and a path is a folder.
fn device_shared(text: &str) -> Result<Option<PathBuf>> {
    if text.starts_with('/') {
        return Ok(Some(text.into()));
    }
    let bad = |_| Kind::BadSetting.because("give 0, 1 or the absolute path of a folder");
    switch(text).map(|on| on.then(|| SHARED_FOLDER.into())).map_err(bad)
}

/// Reads the seed of random choices.
fn seed(text: &str) -> Result<u64> {
    text.parse().map_err(|_| Kind::BadSetting.because(format!("give a whole number from 0 to {}", u64::MAX)))
}

/// What is said about the cuda backend: the number of blocks by itself wins over the one in the plan.
fn cuda(var: impl Fn(&str) -> Option<String>) -> Result<Settings> {
    let constants = setting("FERRY_CUDA_PLAN", &var, Constants::from_str)?.unwrap_or_default();
    let blocks = setting("FERRY_CUDA_BLOCKS", &var, |text| count(text, MOST_BLOCKS))?;
    let constants = blocks.map_or(constants.clone(), |blocks| constants.with_blocks(blocks));
    let stagers = setting("FERRY_CUDA_STAGERS", &var, |text| count(text, MOST_STAGERS))?;
    Ok(Settings { constants, stagers })
}

/// Documented: numbers in ascending order with commas between them. What is anything else ends the list, and
/// what came before it counts: "1, 2,3" is device 1.
fn visible(text: &str) -> Vec<u32> {
    let mut ids: Vec<u32> = Vec::new();
    let mut rest = text;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        match rest[..digits].parse() {
            Ok(id) if ids.last().is_none_or(|last| *last < id) => ids.push(id),
            _ => return ids,
        }
        match rest[digits..].strip_prefix(',') {
            Some(more) => rest = more,
            None => return ids,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(vars: &[(&str, &str)]) -> Result<Options> {
        let find = |asked: &str| vars.iter().find(|(name, _)| *name == asked);
        Options::from_vars(|asked| find(asked).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn unknown_values_are_refused_with_the_valid_ones() {
        for (name, value, says) in [
            ("FERRY_SOC", "Ascend999", "Ascend910B1"),
            ("FERRY_FORM", "xx", "ep"),
            ("FERRY_FORM", "rc", "Ascend310B"),
            ("FERRY_BACKEND", "tpu", "host, cuda"),
            ("FERRY_DEVICES", "0", "1 to"),
            ("FERRY_DEVICES", "two", "whole number"),
            ("FERRY_DEVICES", "65", "1 to 64"),
            ("FERRY_DEVICE_MEMORY", "lots", "K, M, G"),
            ("FERRY_DEVICE_MEMORY", "0", "64K to 16T"),
            ("FERRY_DEVICE_MEMORY", "18446744073709551615", "64K to 16T"),
            ("FERRY_DEVICE_SHARED", "jobs", "0, 1 or"),
            ("FERRY_SOC", "Ascend910Bogus", "Ascend910B1"),
            ("FERRY_CUDA_PLAN", "blocks=3", "blocks_in, blocks_out"),
            ("FERRY_CUDA_BLOCKS", "0", "1 to 1024"),
            ("FERRY_CUDA_STAGERS", "many", "1 to 256"),
            ("FERRY_SCHEDULE", "soon", "late, early, shuffle"),
            ("FERRY_SCHEDULE", "", "late, early, shuffle"),
            ("FERRY_SEED", "-1", "0 to 18446744073709551615"),
            ("FERRY_SEED", "dice", "whole number"),
            ("FERRY_FAULT", "copy#1=1; disk#1=5", "column 11: give copy#N=CODE"),
        ] {
            let error = with(&[(name, value)]).err().unwrap_or_else(|| panic!("{name}={value} was taken"));
            assert_eq!(error.kind, Kind::BadSetting);
            assert!(error.note.contains(name) && error.note.contains(says), "{}", error.note);
        }
    }

    #[test]
    fn every_variable_ends_up_in_its_field() {
        let options = with(&[
            ("FERRY_BACKEND", "cuda"),
            ("FERRY_DEVICES", "5"),
            (VISIBLE, "1,3"),
            ("FERRY_DEVICE_MEMORY", "2G"),
            ("FERRY_DEVICE_SHARED", "/run/jobs"),
            ("FERRY_SOC", "Ascend310B4"),
            ("FERRY_FORM", "rc"),
            ("FERRY_CUDA_PLAN", "list_from=9,blocks_in=8"),
            ("FERRY_CUDA_BLOCKS", "24"),
            ("FERRY_CUDA_STAGERS", "3"),
            ("FERRY_SCHEDULE", "shuffle"),
            ("FERRY_SEED", "77"),
            ("FERRY_FAULT", "copy#3=507013"),
        ])
        .expect("all of them make sense");
        assert_eq!((options.backend, options.devices), (BackendName::Cuda, Some(5)));
        assert_eq!((options.visible.as_deref(), options.device_memory), (Some(&[1, 3][..]), Some(2 << 30)));
        assert_eq!(options.device_shared.as_deref(), Some("/run/jobs".as_ref()));
        assert_eq!((options.product.tag, options.soc.as_str()), ("200I", "Ascend310B4"));
        assert!(options.form == Form::Rc && options.is_unified());
        let plan = Constants { list_from: 9, ..Constants::default().with_blocks(24) };
        assert_eq!((options.cuda.constants, options.cuda.stagers), (plan, Some(3)));
        assert_eq!((options.schedule, options.seed), (Some(RunOrder::Shuffle), 77));
        assert_eq!(options.faults.to_string(), "copy#3=507013");
    }

    #[test]
    fn defaults_are_an_a2_card_in_a_host_with_two_devices() {
        let options = with(&[]).expect("defaults");
        assert_eq!((options.backend, options.devices), (BackendName::Host, None));
        assert_eq!((options.product.tag, options.soc.as_str()), ("A2", "Ascend910B1"));
        assert_eq!((options.form, options.visible, options.device_memory), (Form::Ep, None, None));
    }

    #[test]
    fn a_list_of_visible_devices_ends_where_it_stops_making_sense() {
        for (text, want) in [
            ("0", &[0][..]),
            ("1,3", &[1, 3]),
            ("1, 2,3", &[1]),
            (" 1,2", &[]),
            ("1,3,8", &[1, 3, 8]), // that 8 does not exist is found when devices are opened
            ("3,2,1", &[3]),
            ("1,1,2", &[1]),
            ("1,2,-1,3", &[1, 2]),
            ("1,2x,3", &[1, 2]),
            ("1,,2", &[1]),
            ("1,2,", &[1, 2]),
            ("0,99999999999,1", &[0]),
            ("", &[]),
            ("all", &[]),
            ("1;2", &[1]),
        ] {
            assert_eq!(visible(text), want, "{text:?}");
        }
    }

    #[test]
    fn a_product_a_name_and_a_form_must_go_together() {
        let of = |tag, soc: &str, form| {
            let product = PRODUCTS.iter().find(|product| product.tag == tag).expect("a product");
            Options { product, soc: soc.into(), form, ..Options::default() }.check()
        };
        for (tag, soc, form, says) in [
            ("A2", "Ascend910B4", Form::Ep, None),
            ("200I", "Ascend310B1", Form::Rc, None),
            ("INF", "Ascend310P3", Form::CtrlCpu, None),
            ("A3", "Ascend910B1", Form::Ep, Some("not one of product A3: Ascend910_9391")),
            ("A2", "", Form::Ep, Some("soc is ''")),
            ("A2", "Ascend910B1", Form::Rc, Some("FERRY_FORM=rc with Ascend910B1")),
            ("200I", "Ascend310B1", Form::CtrlCpu, Some("FERRY_FORM=ctrlcpu with Ascend310B1")),
        ] {
            match (of(tag, soc, form), says) {
                (Ok(()), None) => {}
                (Err(error), Some(says)) => assert!(error.note.contains(says), "{}", error.note),
                (got, _) => panic!("{tag} {soc} {form:?}: {got:?}"),
            }
        }
    }

    #[test]
    fn numbers_that_variables_refuse_are_refused_in_fields_too() {
        let bad_devices = [0, 65].map(|count| Options { devices: Some(count), ..Options::default() });
        let sizes = [0, 1, LEAST_MEMORY - 1, MOST_MEMORY + 1, usize::MAX];
        let bad_memory = sizes.map(|size| Options { device_memory: Some(size), ..Options::default() });
        for options in bad_devices.iter().chain(&bad_memory) {
            let error = options.check().expect_err("out of range");
            assert_eq!(error.kind, Kind::BadSetting, "{options:?}: {error}");
        }
        let good = Options { devices: Some(1), device_memory: Some(LEAST_MEMORY), ..Options::default() };
        assert_eq!(good.check(), Ok(()));
    }

    #[test]
    fn sizes_are_read_with_and_without_a_unit() {
        for (text, want) in [
            ("4096", Some(4096)),
            ("64K", Some(64 << 10)),
            ("8G", Some(8 << 30)),
            ("8GiB", Some(8 << 30)),
            ("2m", Some(2 << 20)),
            ("", None),
            ("G", None),
            ("-1", None),
            ("+1", None),
            ("1X", None),
        ] {
            assert_eq!(parse_size(text).ok(), want, "{text:?}");
        }
        for text in ["16777216T", "99999999999T", "99999999999999999999999"] {
            let why = parse_size(text).expect_err("too large").note.to_string();
            assert!(why.contains(text) && why.contains("more bytes"), "{why}");
        }
    }
}
