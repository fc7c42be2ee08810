//! The products and forms, and which function exists on which, as the documents have it: a statement of its
//! own beside the library's.

/// A product in a form.
pub struct Row {
    /// The SoC name, for FERRY_SOC.
    pub soc: &'static str,
    /// For FERRY_FORM.
    pub form: &'static str,
    /// The tag of the documents.
    pub tag: &'static str,
    /// Streams of a device, the default stream among them, events, and notifies.
    pub most: [usize; 3],
}

const fn row(soc: &'static str, form: &'static str, tag: &'static str, most: [usize; 3]) -> Row {
    Row { soc, form, tag, most }
}

/// Every product in every form it comes in.
pub const ROWS: [Row; 8] = [
    row("Ascend910B1", "ep", "A2", [1984, 65536, 8192]),
    row("Ascend910_9391", "ep", "A3", [1984, 65536, 8192]),
    row("Ascend950PR_9599", "ep", "950", [1984, 65536, 65535]),
    row("Ascend310B1", "ep", "200I", [512, 65536, 2048]),
    row("Ascend310B1", "rc", "200I", [512, 65536, 2048]),
    row("Ascend310P3", "ep", "INF", [1024, 1023, 1024]),
    row("Ascend310P3", "ctrlcpu", "INF", [1024, 1023, 1024]),
    row("Ascend910A", "ep", "TRN", [2048, 65535, 1024]),
];

/// Functions that some products or forms lack, as the documents have it: the products that have them, the
/// forms that do not. A name that ends with a star stands for all that begin like it. What is not here exists
/// everywhere.
const LIMITED: &[(&str, &[&str], &[&str])] = &[
    ("aclmdlRICapture*", CAPTURING, &[]),
    ("aclmdlRIExecuteAsync", CAPTURING, &[]),
    ("aclmdlRIDebug*", CAPTURING, &[]),
    ("aclmdlRIGetId", CAPTURING, &[]),
    ("aclrtRecordEventWithFlag", NEWEST, &[]),
    ("aclrtStreamWaitEventWithFlag", NEWEST, &[]),
    ("aclrtMemcpyBatch*", NEWEST, &[]),
    ("aclrtMemcpy2d*", ALL, &["rc", "ctrlcpu"]),
    ("aclrtGetMemcpyDescSize", &["950", "A3", "A2", "200I"], &[]),
    ("aclrtSetMemcpyDesc", &["950", "A3", "A2", "200I"], &[]),
    ("aclrtMemcpyAsyncWithDesc", &["950", "A3", "A2", "200I"], &[]),
    ("aclrtMemcpyAsyncWithOffset", &["950", "A3", "A2", "TRN"], &[]),
    ("aclrtMemsetD32*", NEWEST, &[]),
    ("aclrtDeviceCanAccessPeer", NOT_200I, &["ctrlcpu"]),
    ("aclrtDeviceEnablePeerAccess", NOT_200I, &["ctrlcpu"]),
    ("aclrtDeviceDisablePeerAccess", NOT_200I, &["ctrlcpu"]),
    ("aclrtDevicePeerAccessStatus", NOT_200I, &["ctrlcpu"]),
    ("aclrtNotifyBatchReset", NEWEST, &[]),
    ("aclrtNotifyGetExportKey", NOT_200I, &[]),
    ("aclrtNotifyImportByKey", NOT_200I, &[]),
    ("aclrtNotifySetImportPid", &["A3", "A2", "INF", "TRN"], &[]),
    ("aclrtStreamAbort", NEWEST, &[]),
    ("aclrtSetDeviceSatMode", NEWEST, &[]),
    ("aclrtGetDeviceSatMode", NEWEST, &[]),
    ("aclrtHost*", NEWEST, &[]),
    ("aclrtIpcMem*", NOT_200I, &[]),
    ("aclrtIpcGetEventHandle", &["A3", "A2"], &[]),
    ("aclrtIpcOpenEventHandle", &["A3", "A2"], &[]),
    ("rtIpc*", NOT_200I, &[]),
    ("rtSetIpcMemorySuperPodPid", NOT_200I, &[]),
    ("rtEnableP2P", NOT_200I, &["ctrlcpu"]),
    ("rtDisableP2P", NOT_200I, &["ctrlcpu"]),
    ("aclrtDeviceGetUuid", NEWEST, &[]),
    ("aclrtGetMemUsageInfo", &["A3", "A2", "200I", "INF", "TRN"], &[]),
    ("aclrtDeviceTaskAbort", NEWEST, &[]),
    ("aclrtGetErrorVerbose", NEWEST, &[]),
    ("aclrtRepairError", NEWEST, &[]),
    ("aclrtCmoAsync", NEWEST, &[]),
    ("aclrtValueW*", NEWEST, &[]),
    ("aclrtReserveMemAddress", ALL, &["rc"]),
    ("aclrtReleaseMemAddress", ALL, &["rc"]),
    ("aclrtMallocPhysical", ALL, &["rc"]),
    ("aclrtFreePhysical", ALL, &["rc"]),
    ("aclrtMapMem", ALL, &["rc"]),
    ("aclrtUnmapMem", ALL, &["rc"]),
    ("aclrtMemGetAllocationGranularity", ALL, &["rc"]),
    ("aclrtReserveMemAddressNoUCMemory", &["A3"], &[]),
    ("aclrtMemSetAccess", ALL, &["rc"]),
    ("aclrtMemGetAccess", ALL, &["rc"]),
    ("aclrtMemRetainAllocationHandle", ALL, &["rc"]),
    ("aclrtMemGetAllocationPropertiesFromHandle", ALL, &["rc"]),
    ("aclrtMemExportToShareableHandle*", ALL, &["rc"]),
    ("aclrtMemSetPidToShareableHandle*", ALL, &["rc"]),
    ("aclrtMemImportFromShareableHandle*", ALL, &["rc"]),
];

const ALL: &[&str] = &["950", "A3", "A2", "200I", "INF", "TRN"];
/// The three newest products.
pub const NEWEST: &[&str] = &["950", "A3", "A2"];
/// The products whose streams can be captured.
const CAPTURING: &[&str] = &["950", "A3", "A2", "INF"];
const NOT_200I: &[&str] = &["950", "A3", "A2", "INF", "TRN"];

impl Row {
    /// The row that FERRY_SOC and FERRY_FORM name; the first one where they are not set.
    pub fn current() -> &'static Row {
        let var = |name, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
        let (soc, form) = (var("FERRY_SOC", ROWS[0].soc), var("FERRY_FORM", ROWS[0].form));
        ROWS.iter().find(|row| (row.soc, row.form) == (&soc, &form)).expect("a row of the table")
    }

    /// Whether the product has the function in this form.
    pub fn has(&self, function: &str) -> bool {
        let named = |pattern: &str| match pattern.strip_suffix('*') {
            Some(start) => function.starts_with(start),
            None => function == pattern,
        };
        let rule = LIMITED.iter().find(|(pattern, ..)| named(pattern));
        rule.is_none_or(|(_, tags, forms)| tags.contains(&self.tag) && !forms.contains(&self.form))
    }

    /// Whether it is one of the newest three.
    pub fn is_newest(&self) -> bool {
        NEWEST.contains(&self.tag)
    }

    /// Whether host and device memory are one.
    pub fn is_unified(&self) -> bool {
        self.form != "ep"
    }
}
