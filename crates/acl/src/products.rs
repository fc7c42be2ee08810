//! Products and forms: which function exists where, and the limits that differ. One table, here.

use crate::{Result, constants as c, error::fail, settings::settings};
use std::sync::OnceLock;

/// How a product is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A card in a host: host and device memory are apart.
    Ep = 1,
    /// A board on which the application runs.
    Rc = 2,
    /// The application runs on the card's control CPU.
    CtrlCpu = 4,
}

/// A product and what is special about it.
#[derive(Debug, PartialEq, Eq)]
pub struct Product {
    /// The tag of the documents.
    pub tag: &'static str,
    /// The SoC name that stands for it in messages.
    pub soc: &'static str,
    /// All SoC names of it.
    pub names: &'static [&'static str],
    bit: u8,
    /// Streams of one device, the default streams included.
    pub max_streams: usize,
    /// Events of one device.
    pub max_events: usize,
    /// Whether 2-D copies inside a device exist.
    pub copies_2d_inside: bool,
    /// Whether aclrtMalloc adds 32 bytes to the rounded size.
    pub pads_allocations: bool,
    /// Whether it has HBM besides or instead of DDR.
    pub has_hbm: bool,
    /// Whether allocations in pages of 1 GiB exist.
    pub has_giant_pages: bool,
}

const B950: u8 = 1;
const A3: u8 = 2;
const A2: u8 = 4;
const B200I: u8 = 8;
const INF: u8 = 16;
const TRN: u8 = 32;

/// What the newest products have in common; the others are described by what differs.
const A2_LIKE: Product = Product {
    tag: "A2",
    soc: "Ascend910B1",
    names: &["Ascend910B1", "Ascend910B2", "Ascend910B2C", "Ascend910B3", "Ascend910B4", "Ascend910B4-1"],
    bit: A2,
    max_streams: 1984,
    max_events: 65536,
    copies_2d_inside: true,
    pads_allocations: true,
    has_hbm: true,
    has_giant_pages: true,
};

/// What the older products lack.
const OLDER: Product = Product { copies_2d_inside: false, has_giant_pages: false, has_hbm: false, ..A2_LIKE };

/// The products.
pub static PRODUCTS: [Product; 6] = [
    A2_LIKE,
    Product {
        tag: "A3",
        soc: "Ascend910_9391",
        names: &[
            "Ascend910_9391",
            "Ascend910_9392",
            "Ascend910_9381",
            "Ascend910_9382",
            "Ascend910_9372",
            "Ascend910_9362",
        ],
        bit: A3,
        ..A2_LIKE
    },
    Product {
        tag: "950",
        soc: "Ascend950PR_9599",
        names: &["Ascend950PR_9599"],
        bit: B950,
        pads_allocations: false,
        ..A2_LIKE
    },
    Product {
        tag: "200I",
        soc: "Ascend310B1",
        names: &["Ascend310B1", "Ascend310B2", "Ascend310B3", "Ascend310B4"],
        bit: B200I,
        max_streams: 512,
        ..OLDER
    },
    Product {
        tag: "INF",
        soc: "Ascend310P3",
        names: &["Ascend310P1", "Ascend310P3", "Ascend310P5", "Ascend310P7"],
        bit: INF,
        max_streams: 1024,
        max_events: 1023,
        ..OLDER
    },
    Product {
        tag: "TRN",
        soc: "Ascend910A",
        names: &["Ascend910A", "Ascend910ProA", "Ascend910ProB", "Ascend910PremiumA"],
        bit: TRN,
        max_streams: 2048,
        max_events: 65535,
        has_hbm: true,
        ..OLDER
    },
];

impl Product {
    /// The product of a SoC name.
    pub fn of_soc(soc: &str) -> Option<&'static Product> {
        PRODUCTS.iter().find(|product| product.names.contains(&soc))
    }
}

impl Form {
    /// The name by which users choose it.
    pub fn name(self) -> &'static str {
        match self {
            Form::Ep => "ep",
            Form::Rc => "rc",
            Form::CtrlCpu => "ctrlcpu",
        }
    }

    /// The form of this name, if the product exists in it.
    pub fn for_product(name: &str, product: &Product) -> Result<Form> {
        match (name, product.tag) {
            ("ep", _) => Ok(Form::Ep),
            ("rc", "200I") => Ok(Form::Rc),
            ("ctrlcpu", "INF") => Ok(Form::CtrlCpu),
            _ => Err(fail(
                c::ACL_ERROR_INVALID_PARAM,
                format!(
                    "FERRY_FORM={name} with {}: valid are ep, rc (with Ascend310B...) and ctrlcpu (with Ascend310P...)",
                    product.soc
                ),
            )),
        }
    }
}

/// A C function as the rules see it: its name, and where it exists.
pub struct Function {
    /// The C name.
    pub name: &'static str,
    products: u8,
    forms: u8,
}

const EVERYWHERE: u8 = u8::MAX;
const ALL_FORMS: u8 = u8::MAX;
const NEWEST: u8 = B950 | A3 | A2;

impl Function {
    /// A function that exists on every product and form.
    pub const fn everywhere(name: &'static str) -> Function {
        Function { name, products: EVERYWHERE, forms: ALL_FORMS }
    }

    const fn only(name: &'static str, products: u8) -> Function {
        Function { name, products, forms: ALL_FORMS }
    }

    const fn card_only(name: &'static str) -> Function {
        Function { name, products: EVERYWHERE, forms: Form::Ep as u8 }
    }

    /// Whether the function exists on the product and form of this process; if not, it does nothing and says so.
    #[inline]
    pub fn allowed(&self) -> Result<()> {
        if self.products == EVERYWHERE && self.forms == ALL_FORMS {
            return Ok(());
        }
        let (product, form) = *current();
        if self.products & product.bit != 0 && self.forms & form as u8 != 0 {
            return Ok(());
        }
        Err(fail(
            c::ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            format!("{} does not exist on {} in the {} form", self.name, product.soc, form.name()),
        ))
    }
}

/// The product and form of this process; the default ones where the settings make no sense, which aclInit and
/// aclrtSetDevice complain about.
fn current() -> &'static (&'static Product, Form) {
    static CURRENT: OnceLock<(&'static Product, Form)> = OnceLock::new();
    CURRENT.get_or_init(|| settings().map_or((&PRODUCTS[0], Form::Ep), |s| (s.product, s.form)))
}

/// The functions that do not exist everywhere, by their C names.
#[allow(non_upper_case_globals, missing_docs)]
pub mod limited {
    use super::*;
    pub const aclrtMemcpy2d: Function = Function::card_only("aclrtMemcpy2d");
    pub const aclrtMemcpy2dAsync: Function = Function::card_only("aclrtMemcpy2dAsync");
    pub const aclrtMemcpyBatch: Function = Function::only("aclrtMemcpyBatch", NEWEST);
    pub const aclrtMemcpyBatchV2: Function = Function::only("aclrtMemcpyBatchV2", NEWEST);
    pub const aclrtMemcpyBatchAsync: Function = Function::only("aclrtMemcpyBatchAsync", NEWEST);
    pub const aclrtMemcpyBatchAsyncV2: Function = Function::only("aclrtMemcpyBatchAsyncV2", NEWEST);
    pub const aclrtGetMemcpyDescSize: Function = Function::only("aclrtGetMemcpyDescSize", NEWEST | B200I);
    pub const aclrtSetMemcpyDesc: Function = Function::only("aclrtSetMemcpyDesc", NEWEST | B200I);
    pub const aclrtMemcpyAsyncWithDesc: Function = Function::only("aclrtMemcpyAsyncWithDesc", NEWEST | B200I);
    pub const aclrtMemcpyAsyncWithOffset: Function =
        Function::only("aclrtMemcpyAsyncWithOffset", NEWEST | TRN);
    pub const aclrtMemsetD32: Function = Function::only("aclrtMemsetD32", NEWEST);
    pub const aclrtMemsetD32Async: Function = Function::only("aclrtMemsetD32Async", NEWEST);
    const fn peers(name: &'static str) -> Function {
        Function { name, products: EVERYWHERE & !B200I, forms: ALL_FORMS & !(Form::CtrlCpu as u8) }
    }
    pub const aclrtDeviceCanAccessPeer: Function = peers("aclrtDeviceCanAccessPeer");
    pub const aclrtDeviceEnablePeerAccess: Function = peers("aclrtDeviceEnablePeerAccess");
    pub const aclrtDeviceDisablePeerAccess: Function = peers("aclrtDeviceDisablePeerAccess");
}
