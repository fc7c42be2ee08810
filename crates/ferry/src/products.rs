//! The products that can be emulated, the forms they come in, and the limits that differ. Which C function
//! exists where is not here: only `ferry-acl` knows C's names.

use crate::{Kind, Result};

/// How a product is installed. The numbers are bits, so that several forms fit into one number.
///
/// ```
/// use ferry::{Options, products::Form};
///
/// let board = Options { form: Form::Rc, ..Options::default().soc("Ascend310B1")? };
/// assert!(board.is_unified(), "host and device memory of a board are one");
/// # Ok::<(), ferry::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// A card in a host: host and device memory are apart.
    #[default]
    Ep = 1,
    /// A board on which the application runs.
    Rc = 2,
    /// The application runs on the card's control CPU.
    CtrlCpu = 4,
}

/// A product and what is special about it.
///
/// ```
/// let runtime = ferry::Runtime::open(&ferry::Options::default())?;
/// let product = runtime.options().product;
/// println!("a {} has {} streams", product.soc, product.max_streams);
/// # Ok::<(), ferry::Error>(())
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Product {
    /// The tag of the documents.
    pub tag: &'static str,
    /// The SoC name that stands for it in messages.
    pub soc: &'static str,
    /// All SoC names of it.
    pub names: &'static [&'static str],
    /// Its own bit, [`A2`] for one, so that several products fit into one number.
    pub bit: u8,
    /// Streams of one device, the default streams included.
    pub max_streams: usize,
    /// Events of one device.
    pub max_events: usize,
    /// Notifies of one device.
    pub max_notifies: usize,
    /// Whether 2-D copies inside a device exist.
    pub copies_2d_inside: bool,
    /// Whether aclrtMalloc adds 32 bytes to the rounded size.
    pub pads_allocations: bool,
    /// Whether it has HBM besides or instead of DDR.
    pub has_hbm: bool,
    /// Whether allocations in pages of 1 GiB exist.
    pub has_giant_pages: bool,
    /// Whether memory meant for copies between devices exists.
    pub has_p2p_memory: bool,
    /// Whether page-locked memory can be asked for at the same address on devices.
    pub has_va_flag: bool,
    /// What it computes with.
    pub cores: Cores,
}

/// What a product computes with, as programs ask for it: nominal numbers, since nothing is computed here.
/// SoCs of one product differ a little; these are those of its first.
///
/// ```
/// use ferry::products::{Cores, Product};
///
/// let cores: &Cores = &Product::of_soc("Ascend310P3").expect("an Atlas inference product").cores;
/// assert_eq!((cores.ai, cores.ai_cpu), (10, 4));
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Cores {
    /// AI cores.
    pub ai: i64,
    /// Cube cores.
    pub cube: i64,
    /// Vector cores.
    pub vector: i64,
    /// AI CPUs.
    pub ai_cpu: i64,
    /// Bytes of L2 cache.
    pub l2: i64,
    /// The documented number of the architecture.
    pub arch: i64,
    /// Limits of programs in threads, where they exist.
    pub threads: Option<Threads>,
}

/// Limits of programs in threads.
///
/// ```
/// use ferry::products::{Product, Threads};
///
/// let threads = |soc| Product::of_soc(soc).and_then(|product| product.cores.threads.as_ref());
/// assert_eq!(threads("Ascend950PR_9599").map(|threads: &Threads| threads.warp), Some(32));
/// assert_eq!(threads("Ascend910B1"), None);
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Threads {
    /// Threads of a warp.
    pub warp: i64,
    /// Threads of a vector core.
    pub per_core: i64,
    /// Bytes of local memory of a vector core.
    pub local: i64,
    /// Threads of a block.
    pub per_block: i64,
    /// Blocks along one side of a grid.
    pub grid: i64,
}

/// The bit of Ascend 950.
///
/// ```
/// use ferry::products::{B950, Product};
///
/// assert_eq!(Product::of_soc("Ascend950PR_9599").map(|product| product.bit), Some(B950));
/// ```
pub const B950: u8 = 1;
/// The bit of Atlas A3 (Ascend 910C).
///
/// ```
/// use ferry::products::{A3, Product};
///
/// assert_eq!(Product::of_soc("Ascend910_9391").map(|product| product.bit), Some(A3));
/// ```
pub const A3: u8 = 2;
/// The bit of Atlas A2 (Ascend 910B).
///
/// ```
/// use ferry::products::{A2, Product};
///
/// assert_eq!(Product::of_soc("Ascend910B1").map(|product| product.bit), Some(A2));
/// ```
pub const A2: u8 = 4;
/// The bit of Atlas 200I/500 A2.
///
/// ```
/// use ferry::products::{B200I, Product};
///
/// assert_eq!(Product::of_soc("Ascend310B1").map(|product| product.bit), Some(B200I));
/// ```
pub const B200I: u8 = 8;
/// The bit of Atlas inference.
///
/// ```
/// use ferry::products::{INF, Product};
///
/// assert_eq!(Product::of_soc("Ascend310P3").map(|product| product.bit), Some(INF));
/// ```
pub const INF: u8 = 16;
/// The bit of Atlas training.
///
/// ```
/// use ferry::products::{TRN, Product};
///
/// assert_eq!(Product::of_soc("Ascend910A").map(|product| product.bit), Some(TRN));
/// ```
pub const TRN: u8 = 32;

/// What the newest products have in common; the others are described by what differs.
const A2_LIKE: Product = Product {
    tag: "A2",
    soc: "Ascend910B1",
    names: &["Ascend910B1", "Ascend910B2", "Ascend910B2C", "Ascend910B3", "Ascend910B4", "Ascend910B4-1"],
    bit: A2,
    max_streams: 1984,
    max_events: 65536,
    max_notifies: 8192,
    copies_2d_inside: true,
    pads_allocations: true,
    has_hbm: true,
    has_giant_pages: true,
    has_p2p_memory: true,
    has_va_flag: true,
    cores: Cores { ai: 24, cube: 24, vector: 48, ai_cpu: 4, l2: 192 << 20, arch: 2201, threads: None },
};

/// What the older products lack.
const OLDER: Product = Product {
    copies_2d_inside: false,
    has_giant_pages: false,
    has_hbm: false,
    has_va_flag: false,
    ..A2_LIKE
};

/// The products. The first is the one that is emulated unless another is asked for.
///
/// ```
/// for product in &ferry::products::PRODUCTS {
///     println!("{}: {}", product.tag, product.names.join(", "));
/// }
/// ```
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
        max_notifies: 65535,
        pads_allocations: false,
        has_va_flag: false,
        cores: Cores {
            ai: 32,
            cube: 32,
            vector: 64,
            ai_cpu: 4,
            l2: 128 << 20,
            arch: 3510,
            threads: Some(Threads {
                warp: 32,
                per_core: 2048,
                local: 248 << 10,
                per_block: 2048,
                grid: 65535,
            }),
        },
        ..A2_LIKE
    },
    Product {
        tag: "200I",
        soc: "Ascend310B1",
        names: &["Ascend310B1", "Ascend310B2", "Ascend310B3", "Ascend310B4"],
        bit: B200I,
        max_streams: 512,
        max_notifies: 2048,
        has_p2p_memory: false,
        cores: Cores { ai: 1, cube: 1, vector: 1, ai_cpu: 1, l2: 4 << 20, arch: 3002, threads: None },
        ..OLDER
    },
    Product {
        tag: "INF",
        soc: "Ascend310P3",
        names: &["Ascend310P1", "Ascend310P3", "Ascend310P5", "Ascend310P7"],
        bit: INF,
        max_streams: 1024,
        max_events: 1023,
        max_notifies: 1024,
        cores: Cores { ai: 10, cube: 10, vector: 8, ai_cpu: 4, l2: 16 << 20, arch: 2002, threads: None },
        ..OLDER
    },
    Product {
        tag: "TRN",
        soc: "Ascend910A",
        names: &["Ascend910A", "Ascend910ProA", "Ascend910ProB", "Ascend910PremiumA"],
        bit: TRN,
        max_streams: 2048,
        max_events: 65535,
        max_notifies: 1024,
        has_hbm: true,
        cores: Cores { ai: 32, cube: 32, vector: 0, ai_cpu: 4, l2: 32 << 20, arch: 1001, threads: None },
        ..OLDER
    },
];

impl Product {
    /// Whether it is one of the newest three.
    ///
    /// ```
    /// use ferry::products::Product;
    ///
    /// let is_newest = |soc| Product::of_soc(soc).expect("a product").is_newest();
    /// assert!(is_newest("Ascend910B1") && !is_newest("Ascend910A"));
    /// ```
    pub fn is_newest(&self) -> bool {
        self.bit & (B950 | A3 | A2) != 0
    }

    /// The product of a SoC name.
    ///
    /// ```
    /// use ferry::products::Product;
    ///
    /// let product = Product::of_soc("Ascend310P3").expect("an Atlas inference product");
    /// assert_eq!((product.tag, product.max_streams), ("INF", 1024));
    /// assert!(Product::of_soc("Ascend999").is_none());
    /// ```
    pub fn of_soc(soc: &str) -> Option<&'static Product> {
        PRODUCTS.iter().find(|product| product.names.contains(&soc))
    }
}

impl Form {
    /// The name by which users choose it.
    ///
    /// ```
    /// assert_eq!(ferry::products::Form::CtrlCpu.name(), "ctrlcpu");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Form::Ep => "ep",
            Form::Rc => "rc",
            Form::CtrlCpu => "ctrlcpu",
        }
    }

    /// The form of this name, if the product exists in it; otherwise an error of [`Kind::BadSetting`] that
    /// lists the valid ones.
    ///
    /// ```
    /// use ferry::products::{Form, Product};
    ///
    /// let board = Product::of_soc("Ascend310B1").expect("an Atlas 200I/500 A2");
    /// assert_eq!(Form::for_product("rc", board)?, Form::Rc);
    /// let card = Product::of_soc("Ascend910B1").expect("an Atlas A2");
    /// assert_eq!(Form::for_product("rc", card).unwrap_err().kind, ferry::Kind::BadSetting);
    /// # Ok::<(), ferry::Error>(())
    /// ```
    pub fn for_product(name: &str, product: &Product) -> Result<Form> {
        match (name, product.tag) {
            ("ep", _) => Ok(Form::Ep),
            ("rc", "200I") => Ok(Form::Rc),
            ("ctrlcpu", "INF") => Ok(Form::CtrlCpu),
            _ => Err(Kind::BadSetting.because(format!(
                "FERRY_FORM={name} with {}: valid are ep, rc (with Ascend310B...) and ctrlcpu (with \
                 Ascend310P...)",
                product.soc
            ))),
        }
    }
}
