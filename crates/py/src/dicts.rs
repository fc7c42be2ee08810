//! C structs as pyACL has them: dicts with the members' names as keys. A dict that is not built like the
//! struct raises TypeError and says where; a number that does not fit its member is an API error, found when
//! the argument is taken.

use crate::call::{Int, Number, Why, type_name};
use ferry_abi::{
    BatchAttribute, Location, MallocAttribute, MallocConfig, PhysicalProperties, StreamAttribute, Utilization,
};
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyDict, PyList, PyTuple},
};
use std::ptr;

/// What a dict became, or why it cannot be given to C.
pub struct Read<T> {
    value: T,
    wrong: Option<String>,
}

impl<T> Read<T> {
    /// The struct, or why C cannot have it. The name is in the words already.
    pub fn get(self, _name: &str) -> Result<T, Why> {
        self.wrong.map_or(Ok(self.value), |note| Err(Why::unfit(note)))
    }
}

/// Reads the members of one dict, or of the dicts in it.
struct Reader<'a, 'py> {
    dict: &'a Bound<'py, PyDict>,
    /// What the dict is, as in `attrs[0]['dstLoc']`.
    path: String,
    /// The first number that does not fit.
    wrong: Option<String>,
}

impl<'a, 'py> Reader<'a, 'py> {
    /// A reader of a dict that has no keys but these.
    fn new(dict: &'a Bound<'py, PyDict>, path: String, keys: &[&str]) -> PyResult<Self> {
        for key in dict.keys() {
            if !keys.iter().any(|known| key.eq(known).unwrap_or(false)) {
                let known = keys.join(", ");
                return Err(PyTypeError::new_err(format!(
                    "argument '{path}': there is a key {}; the keys are {known}",
                    key.repr()?
                )));
            }
        }
        Ok(Reader { dict, path, wrong: None })
    }

    fn at(&self, key: &str) -> String {
        format!("{}['{key}']", self.path)
    }

    fn find(&self, key: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.dict.get_item(key)
    }

    fn need(&self, key: &str) -> PyResult<Bound<'py, PyAny>> {
        self.find(key)?.ok_or_else(|| {
            PyTypeError::new_err(format!("argument '{}': the key '{key}' is missing", self.path))
        })
    }

    /// A number that must be there.
    fn number<T: Number<C = T> + Default>(&mut self, key: &str) -> PyResult<T> {
        let value = self.need(key)?;
        self.convert(&value, &self.at(key))
    }

    /// A number that is 0 if it is not there.
    fn number_or_0<T: Number<C = T> + Default>(&mut self, key: &str) -> PyResult<T> {
        self.find(key)?.map_or_else(|| Ok(T::default()), |value| self.convert(&value, &self.at(key)))
    }

    fn convert<T: Number<C = T> + Default>(&mut self, value: &Bound<'py, PyAny>, what: &str) -> PyResult<T> {
        match value.extract::<Int<T>>()?.get(what) {
            Ok(number) => Ok(number),
            Err(Why::Type(error)) => Err(error),
            Err(Why::Value(_, note)) => {
                self.wrong.get_or_insert(note);
                Ok(T::default())
            }
        }
    }

    /// The items of the list at a key; none if it is not there.
    fn items(&self, key: &str) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.find(key)?.map_or_else(|| Ok(Vec::new()), |items| items_of(&items, &self.at(key)))
    }

    /// The dict at a key as a location.
    fn location(&mut self, key: &str) -> PyResult<Location> {
        let path = self.at(key);
        let dict = self.need(key)?;
        let dict = dict_of(&dict, &path)?;
        let mut inner = Reader::new(dict, path, &["id", "type"])?;
        let location = Location { id: inner.number("id")?, kind: inner.number("type")? };
        self.wrong = self.wrong.take().or(inner.wrong);
        Ok(location)
    }

    fn done<T>(self, value: T) -> Read<T> {
        Read { value, wrong: self.wrong }
    }
}

fn dict_of<'a, 'py>(object: &'a Bound<'py, PyAny>, what: &str) -> PyResult<&'a Bound<'py, PyDict>> {
    crate::call::cast(object, what, "dict")
}

/// The items of a list or a tuple.
fn items_of<'py>(object: &Bound<'py, PyAny>, what: &str) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if let Ok(list) = object.cast::<PyList>() {
        return Ok(list.iter().collect());
    }
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return Ok(tuple.iter().collect());
    }
    Err(PyTypeError::new_err(format!("argument '{what}': '{}' object is not a list", type_name(object))))
}

/// `aclrtMallocConfig`, owned; without attributes it is NULL.
pub struct Config(Option<Vec<(i32, [u32; 2])>>);

impl Config {
    /// From {} or {'attrs': [...], 'numAttrs': n}.
    pub fn read(cfg: &Bound<'_, PyAny>) -> PyResult<Read<Config>> {
        let dict = dict_of(cfg, "cfg")?;
        let mut cfg = Reader::new(dict, "cfg".into(), &["attrs", "numAttrs"])?;
        if dict.is_empty() {
            return Ok(cfg.done(Config(None)));
        }
        let count: usize = cfg.number("numAttrs")?;
        let mut attributes = Vec::new();
        for (index, item) in items_of(&cfg.need("attrs")?, "cfg['attrs']")?.iter().enumerate() {
            let path = format!("cfg['attrs'][{index}]");
            let mut one = Reader::new(dict_of(item, &path)?, path, &["attr", "value"])?;
            let attribute: i32 = one.number("attr")?;
            let value = attribute_value(&mut one, attribute)?;
            cfg.wrong = cfg.wrong.take().or(one.wrong);
            attributes.push((attribute, value));
        }
        if count > attributes.len() {
            let note = format!("cfg['numAttrs'] is {count}, but cfg['attrs'] has {}", attributes.len());
            cfg.wrong.get_or_insert(note);
        }
        attributes.truncate(count);
        Ok(cfg.done(Config(Some(attributes))))
    }

    /// Shows it to C.
    pub fn with<T>(self, body: impl FnOnce(*mut MallocConfig) -> T) -> T {
        let Some(attributes) = self.0 else { return body(ptr::null_mut()) };
        let mut attributes: Vec<_> =
            attributes.into_iter().map(|(attribute, value)| MallocAttribute { attribute, value }).collect();
        body(&mut MallocConfig { attributes: attributes.as_mut_ptr(), count: attributes.len() })
    }
}

/// `aclrtMallocAttrValue`: the member that the attribute means, or a plain number.
fn attribute_value(reader: &mut Reader<'_, '_>, attribute: i32) -> PyResult<[u32; 2]> {
    const MEMBERS: [&str; 4] = ["rsv", "moduleId", "deviceId", "vaFlag"];
    let (value, path) = (reader.need("value")?, reader.at("value"));
    let Ok(dict) = value.cast::<PyDict>() else {
        return Ok([reader.convert(&value, &path)?, 0]);
    };
    let mut inner = Reader::new(dict, path, &MEMBERS)?;
    let member = usize::try_from(attribute).ok().and_then(|index| MEMBERS.get(index)).copied();
    // A union has room for one. What is given of the others has no effect, but is of the right type.
    for number in &MEMBERS[1..] {
        inner.number_or_0::<u32>(number)?;
    }
    for (index, byte) in inner.items("rsv")?.iter().enumerate() {
        inner.convert::<u32>(byte, &format!("{}[{index}]", inner.at("rsv")))?;
    }
    let number: u32 = match member {
        None | Some("rsv") => 0,
        Some(member) => inner.number(member)?,
    };
    if member == Some("moduleId") && number > u32::from(u16::MAX) {
        let note = format!("{} is {number}: it must be in 0 to {}", inner.at("moduleId"), u16::MAX);
        inner.wrong.get_or_insert(note);
    }
    reader.wrong = reader.wrong.take().or(inner.wrong);
    Ok([number, 0])
}

/// `aclrtPhysicalMemProp`.
pub struct Properties;

impl Properties {
    /// From a dict with its members; `reserve` may be left out.
    pub fn read(prop: &Bound<'_, PyAny>) -> PyResult<Read<PhysicalProperties>> {
        let dict = dict_of(prop, "prop")?;
        let keys = ["handleType", "allocationType", "memAttr", "location", "reserve"];
        let mut prop = Reader::new(dict, "prop".into(), &keys)?;
        let value = PhysicalProperties {
            handle_type: prop.number("handleType")?,
            allocation_type: prop.number("allocationType")?,
            attribute: prop.number("memAttr")?,
            location: prop.location("location")?,
            reserve: prop.number_or_0("reserve")?,
        };
        Ok(prop.done(value))
    }
}

/// A list of `aclrtMemcpyBatchAttr`.
pub fn batch_attributes(attrs: &Bound<'_, PyAny>) -> PyResult<Read<Vec<BatchAttribute>>> {
    let mut all = Read { value: Vec::new(), wrong: None };
    for (index, item) in items_of(attrs, "attrs")?.iter().enumerate() {
        let path = format!("attrs[{index}]");
        let mut one = Reader::new(dict_of(item, &path)?, path, &["dstLoc", "srcLoc", "rsv"])?;
        let (dst, src) = (one.location("dstLoc")?, one.location("srcLoc")?);
        let reserved = reserved(&mut one)?;
        all.wrong = all.wrong.take().or(one.wrong);
        all.value.push(BatchAttribute { dst, src, reserved });
    }
    Ok(all)
}

/// The reserved bytes, if they are given: 16 at most.
fn reserved(reader: &mut Reader<'_, '_>) -> PyResult<[u8; 16]> {
    let mut bytes = [0; 16];
    let (items, path) = (reader.items("rsv")?, reader.at("rsv"));
    if items.len() > bytes.len() {
        let note = format!("{path} has {} numbers: it has room for {}", items.len(), bytes.len());
        reader.wrong.get_or_insert(note);
    }
    for (index, (byte, item)) in bytes.iter_mut().zip(&items).enumerate() {
        *byte = reader.convert(item, &format!("{path}[{index}]"))?;
    }
    Ok(bytes)
}

/// What no device has said yet.
pub fn no_utilization() -> Utilization {
    Utilization { cube: 0, vector: 0, ai_cpu: 0, memory: 0, extend: ptr::null_mut() }
}

/// `aclrtUtilizationInfo` as a dict.
pub fn utilization<'py>(py: Python<'py>, info: &Utilization) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("cubeUtilization", info.cube)?;
    dict.set_item("vectorUtilization", info.vector)?;
    dict.set_item("aicpuUtilization", info.ai_cpu)?;
    dict.set_item("memoryUtilization", info.memory)?;
    dict.set_item("utilizationExtend", info.extend as usize)?;
    Ok(dict)
}

/// The members of aclrtStreamAttrValue, by aclrtStreamAttr.
const STREAM_ATTRIBUTES: [&str; 5] =
    ["failureMode", "overflowSwitch", "userCustomTag", "cacheOpInfoSwitch", "streamPriority"];

/// The key of an attribute of a stream, if there is such an attribute.
pub fn stream_attribute(attribute: i32) -> Option<&'static str> {
    STREAM_ATTRIBUTES.get(usize::try_from(attribute).ok()?.checked_sub(1)?).copied()
}

/// aclrtStreamAttrValue.
pub struct StreamAttributes;

impl StreamAttributes {
    /// From a dict with the member that counts; any will do for an attribute that does not exist, which C
    /// refuses.
    pub fn read(value: &Bound<'_, PyAny>, key: Option<&str>) -> PyResult<Read<StreamAttribute>> {
        let dict = dict_of(value, "value")?;
        let mut reader = Reader::new(dict, "value".into(), &STREAM_ATTRIBUTES)?;
        let number = match key {
            Some("failureMode") => reader.number::<u64>("failureMode")?,
            Some(key) => reader.number::<u32>(key)?.into(),
            None => 0,
        };
        Ok(Read { value: StreamAttribute { value: number, reserved: 0 }, wrong: reader.wrong })
    }
}
