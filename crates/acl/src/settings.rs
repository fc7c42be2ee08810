//! What the environment says: product, form, backend, devices.

use crate::{Result, constants::ACL_ERROR_INVALID_PARAM, error::fail, version::Version};
use ferry::{
    BackendName, Options,
    products::{Form, PRODUCTS, Product},
};
use std::{env, str::FromStr, sync::OnceLock};

const MOST_DEVICES: usize = 64;
const LEAST_MEMORY: usize = 64 << 10;
const MOST_MEMORY: usize = 16 << 40;

/// Which devices this process sees.
pub(crate) const VISIBLE: &str = "ASCEND_RT_VISIBLE_DEVICES";

/// The settings of this process, read once.
#[derive(Clone)]
pub struct Settings {
    /// The product that is emulated.
    pub product: &'static Product,
    /// Its SoC name as given.
    pub soc: String,
    /// How it is installed.
    pub form: Form,
    /// What to open.
    pub options: Options,
    /// Batches larger than this are refused, if set.
    pub batch_limit: Option<usize>,
    /// The version of CANN that we say we are.
    pub cann_version: Version,
    /// Say on standard error what was opened.
    pub verbose: bool,
    /// Explain a crash on a device pointer.
    pub fault_note: bool,
}

/// The settings, or why they make no sense.
pub fn settings() -> Result<&'static Settings> {
    static SETTINGS: OnceLock<Result<Settings>> = OnceLock::new();
    SETTINGS
        .get_or_init(|| read(|name| env::var_os(name).map(|value| value.to_string_lossy().into_owned())))
        .as_ref()
        .map_err(Clone::clone)
}

fn read(var: impl Fn(&str) -> Option<String>) -> Result<Settings> {
    let soc = var("FERRY_SOC").unwrap_or_else(|| "Ascend910B1".into());
    let product = Product::of_soc(&soc).ok_or_else(|| {
        let valid: Vec<_> = PRODUCTS.iter().flat_map(|product| product.names).copied().collect();
        fail(
            ACL_ERROR_INVALID_PARAM,
            format!("FERRY_SOC={soc} is not a product; valid ones: {}", valid.join(", ")),
        )
    })?;
    let form = match var("FERRY_FORM") {
        None => Form::Ep,
        Some(name) => Form::for_product(&name, product)?,
    };
    let options = Options {
        backend: parse("FERRY_BACKEND", &var, BackendName::from_str)?.unwrap_or_default(),
        devices: parse("FERRY_DEVICES", &var, |text| count(text, MOST_DEVICES))?.unwrap_or(2),
        visible: var(VISIBLE).map(|text| visible(&text)),
        device_memory: parse("FERRY_DEVICE_MEMORY", &var, device_memory)?,
        is_unified: form != Form::Ep,
        observer: None,
    };
    let is_on = |name| var(name).is_some_and(|value| !matches!(value.as_str(), "" | "0"));
    Ok(Settings {
        product,
        soc,
        form,
        options,
        batch_limit: parse("FERRY_BATCH_LIMIT", &var, |text| count(text, usize::MAX))?,
        cann_version: parse("FERRY_CANN_VERSION", &var, Version::from_str)?.unwrap_or_default(),
        verbose: is_on("FERRY_VERBOSE"),
        fault_note: is_on("FERRY_FAULT_NOTE"),
    })
}

/// Documented: numbers in ascending order with commas between them. What is anything else ends the list, and what came before
/// it counts: "1, 2,3" is device 1.
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

fn parse<T>(
    name: &str,
    var: impl Fn(&str) -> Option<String>,
    read: impl Fn(&str) -> ferry::Result<T>,
) -> Result<Option<T>> {
    let Some(value) = var(name) else { return Ok(None) };
    read(&value).map(Some).map_err(|why| fail(ACL_ERROR_INVALID_PARAM, format!("{name}={value}: {why}")))
}

fn count(text: &str, most: usize) -> ferry::Result<usize> {
    let bad = || ferry::Kind::BadSetting.because(format!("give a whole number from 1 to {most}"));
    text.parse().ok().filter(|number| (1..=most).contains(number)).ok_or_else(bad)
}

fn device_memory(text: &str) -> ferry::Result<usize> {
    let size = ferry::parse_size(text)?;
    let bad = || ferry::Kind::BadSetting.because("give a size from 64K to 16T");
    Some(size).filter(|size| (LEAST_MEMORY..=MOST_MEMORY).contains(size)).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &'static str) -> Result<Settings> {
        read(|asked| (asked == name).then(|| value.to_owned()))
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
            ("FERRY_SOC", "Ascend910Bogus", "Ascend910B1"),
            ("FERRY_CANN_VERSION", "", "8.5.0"),
            ("FERRY_CANN_VERSION", "new", "8.5.0"),
            ("FERRY_CANN_VERSION", "8", "8.5.0"),
        ] {
            let error = with(name, value).err().unwrap_or_else(|| panic!("{name}={value} was taken"));
            assert_eq!(error.code, ACL_ERROR_INVALID_PARAM);
            assert!(error.note.contains(name) && error.note.contains(says), "{}", error.note);
        }
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
    fn defaults_are_an_a2_card_in_a_host_with_two_devices() {
        let settings = read(|_| None).expect("defaults");
        assert_eq!(
            (settings.soc.as_str(), settings.form, settings.options.devices),
            ("Ascend910B1", Form::Ep, 2)
        );
        assert_eq!(with("FERRY_DEVICE_MEMORY", "2G").expect("a size").options.device_memory, Some(2 << 30));
    }
}
