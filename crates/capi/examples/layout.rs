//! Prints what Rust makes of the C types, for `cargo xtask abi` to hold against the headers: `name value`, a
//! line each.

use ascendcl::{
    aclCANNPackageVersion, aclrtErrorInfo, aclrtErrorInfoDetail, aclrtIpcEventHandle, aclrtMallocAttrValue,
    aclrtMallocAttribute, aclrtMallocConfig, aclrtMemAccessDesc, aclrtMemLocation, aclrtMemUceInfo,
    aclrtMemUceInfoArray, aclrtMemUsageInfo, aclrtMemcpyBatchAttr, aclrtPhysicalMemProp, aclrtPtrAttributes,
    aclrtStreamAttrValue, aclrtUtilizationInfo, aclrtUuid,
};
use std::mem::{align_of, offset_of, size_of};

/// Size of the field that `_get` borrows.
fn field_size<T, F>(_get: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

macro_rules! layout {
    ($name:ident { $($field:ident),* }) => {
        let name = stringify!($name);
        println!("{name}.size {}", size_of::<$name>());
        println!("{name}.align {}", align_of::<$name>());
        $(
            // `type` is a keyword here, so the field carries an underscore.
            let field = stringify!($field).trim_end_matches('_');
            println!("{name}.{field}.offset {}", offset_of!($name, $field));
            println!("{name}.{field}.size {}", field_size(|s: &$name| &s.$field));
        )*
    };
}

/// Members of a union, all of which start where it starts; their types are checked by making a value of each.
macro_rules! members {
    ($name:ident { $($field:ident: $type:ty),* }) => {
        let name = stringify!($name);
        $(
            let _ = $name { $field: <$type>::default() };
            println!("{name}.{}.offset {}", stringify!($field), offset_of!($name, $field));
            println!("{name}.{}.size {}", stringify!($field), size_of::<$type>());
        )*
    };
}

fn main() {
    layout!(aclCANNPackageVersion {
        version,
        majorVersion,
        minorVersion,
        releaseVersion,
        patchVersion,
        reserved
    });
    layout!(aclrtMemLocation { id, type_ });
    layout!(aclrtErrorInfo { tryRepair, hasDetail, reserved, errorType, detail });
    layout!(aclrtErrorInfoDetail {});
    members!(aclrtErrorInfoDetail { uceInfo: aclrtMemUceInfoArray, aicoreErrType: i32 });
    layout!(aclrtMemUceInfo { addr, len, reserved });
    layout!(aclrtMemUceInfoArray { arraySize, memUceInfoArray });
    layout!(aclrtMemUsageInfo { name, curMemSize, memPeakSize, reserved });
    layout!(aclrtUuid { bytes });
    layout!(aclrtIpcEventHandle { reserved });
    layout!(aclrtStreamAttrValue {});
    members!(aclrtStreamAttrValue {
        failureMode: u64,
        overflowSwitch: u32,
        userCustomTag: u32,
        cacheOpInfoSwitch: u32,
        streamPriority: u32,
        reserve: [u32; 4]
    });
    layout!(aclrtMemAccessDesc { flags, location, rsv });
    layout!(aclrtMemcpyBatchAttr { dstLoc, srcLoc, rsv });
    layout!(aclrtPtrAttributes { location, pageSize, rsv });
    layout!(aclrtMallocAttrValue {});
    members!(aclrtMallocAttrValue { moduleId: u16, deviceId: u32, vaFlag: u32, rsv: [u8; 8] });
    layout!(aclrtMallocAttribute { attr, value });
    layout!(aclrtMallocConfig { attrs, numAttrs });
    layout!(aclrtPhysicalMemProp { handleType, allocationType, memAttr, location, reserve });
    layout!(aclrtUtilizationInfo {
        cubeUtilization,
        vectorUtilization,
        aicpuUtilization,
        memoryUtilization,
        utilizationExtend
    });
    for (name, value) in ascendcl::constants::ALL {
        println!("{name} {value}");
    }
}
