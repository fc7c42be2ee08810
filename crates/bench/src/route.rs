//! From where to where copies go, in the words of the tools that people know.

use ferry_abi::kind;
use ferry_abi::memory::Home;

/// From where to where, in the words of the tools people know.
#[derive(Clone, Copy)]
pub struct Route {
    pub name: &'static str,
    pub about: &'static str,
    pub dst: Home,
    pub src: Home,
    /// The device that the target is on; the source is on device 0.
    pub device: usize,
    pub kind: i32,
}

pub const H2D: Route = Route {
    name: "h2d",
    about: "page-locked host memory to a device",
    dst: Home::Device,
    src: Home::Locked,
    device: 0,
    kind: kind::HOST_TO_DEVICE,
};
pub const D2H: Route = Route {
    name: "d2h",
    about: "a device to page-locked host memory",
    dst: Home::Locked,
    src: Home::Device,
    device: 0,
    kind: kind::DEVICE_TO_HOST,
};
pub const D2D: Route = Route {
    name: "d2d",
    about: "within a device",
    dst: Home::Device,
    src: Home::Device,
    device: 0,
    kind: kind::DEVICE_TO_DEVICE,
};
pub const INNER: Route = Route { name: "desc", kind: kind::INNER_DEVICE_TO_DEVICE, ..D2D };
pub const P2P: Route = Route { name: "p2p", about: "device 0 to device 1", device: 1, ..D2D };
pub const H2D_PAGEABLE: Route =
    Route { name: "h2d-pageable", about: "plain host memory to a device", src: Home::Pageable, ..H2D };
pub const D2H_PAGEABLE: Route =
    Route { name: "d2h-pageable", about: "a device to plain host memory", dst: Home::Pageable, ..D2H };

impl Route {
    /// Whether the host's side, if there is one, is plain memory.
    pub fn is_pageable(&self) -> bool {
        [self.dst, self.src].contains(&Home::Pageable)
    }

    /// Whether it leads from host to device or back.
    pub fn crosses(&self) -> bool {
        self.dst != self.src
    }
}
