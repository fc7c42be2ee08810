//! Versions.

use crate::{
    enter::{Out, enter, text},
    types::{aclCANNPackageVersion, aclError},
};
use ferry_acl::{
    Result,
    arguments::{not_null, writable},
    constants::{ACL_MAJOR_VERSION, ACL_MINOR_VERSION, ACL_PATCH_VERSION},
    functions,
    rules::info,
    version::Version,
};
use std::ffi::c_char;

/// The version of the API.
///
/// # Safety
/// The three are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetVersion(
    majorVersion: *mut i32,
    minorVersion: *mut i32,
    patchVersion: *mut i32,
) -> aclError {
    enter(&functions::aclrtGetVersion, |_| {
        let major = Out::new("majorVersion", majorVersion)?;
        let minor = Out::new("minorVersion", minorVersion)?;
        let patch = Out::new("patchVersion", patchVersion)?;
        major.set(ACL_MAJOR_VERSION);
        minor.set(ACL_MINOR_VERSION);
        patch.set(ACL_PATCH_VERSION);
        Ok(())
    })
}

/// The version of a package as text.
///
/// # Safety
/// `pkgName` is NULL or a C string; `versionStr` is NULL or has room for 128 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclsysGetVersionStr(pkgName: *mut c_char, versionStr: *mut c_char) -> aclError {
    enter(&functions::aclsysGetVersionStr, |_| {
        not_null("versionStr", versionStr as usize)?;
        // SAFETY: the C contract.
        let text = unsafe { package(pkgName) }?.text();
        writable("versionStr", versionStr as usize, text.len() + 1)?;
        for (index, byte) in text.bytes().chain([0]).enumerate() {
            // SAFETY: that many bytes were just found writable, and the caller gave them to us to write.
            unsafe { versionStr.add(index).write(byte as c_char) };
        }
        Ok(())
    })
}

/// The version of a package as a number that grows.
///
/// # Safety
/// `pkgName` is NULL or a C string; `versionNum` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclsysGetVersionNum(pkgName: *mut c_char, versionNum: *mut i32) -> aclError {
    enter(&functions::aclsysGetVersionNum, |_| {
        let out = Out::new("versionNum", versionNum)?;
        // SAFETY: the C contract.
        out.set(unsafe { package(pkgName) }?.number());
        Ok(())
    })
}

/// The version of a package in parts.
///
/// # Safety
/// `version` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclsysGetCANNVersion(name: i32, version: *mut aclCANNPackageVersion) -> aclError {
    enter(&functions::aclsysGetCANNVersion, |_| {
        let out = Out::new("version", version)?;
        let version = info::of_package_number(name)?;
        let [major, minor, release, patch] = version.parts();
        out.set(aclCANNPackageVersion {
            version: chars(version.text()),
            majorVersion: chars(major),
            minorVersion: chars(minor),
            releaseVersion: chars(release),
            patchVersion: chars(patch),
            reserved: chars(""),
        });
        Ok(())
    })
}

/// # Safety
/// `name` is NULL or a C string.
unsafe fn package(name: *mut c_char) -> Result<&'static Version> {
    not_null("pkgName", name as usize)?;
    // SAFETY: the caller's promise.
    info::of_package(&unsafe { text("pkgName", name) }?.unwrap_or_default())
}

/// Text in an array of C, with zeros behind it; what does not fit is cut.
fn chars<const N: usize>(text: &str) -> [c_char; N] {
    let mut bytes = text.bytes().take(N - 1);
    [(); N].map(|()| bytes.next().unwrap_or(0) as c_char)
}
