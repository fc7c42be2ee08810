//! Between which sorts of memory a case copies, named as in other tools: h2d, d2h, d2d, p2p.

use ferry_abi::kind;
use ferry_abi::memory::Home;

/// Between which sorts of memory bytes go.
#[derive(Clone, Copy)]
pub struct Route {
    /// The first part of the names of its cases.
    pub name: &'static str,
    /// The route in words.
    pub about: &'static str,
    /// The sort of memory that is written.
    pub dst: Home,
    /// The sort of memory that is read.
    pub src: Home,
    /// The device that the target is on; the source is on device 0.
    pub device: usize,
    /// `aclrtMemcpyKind`.
    pub kind: i32,
}

/// Page-locked host memory to a device.
pub const H2D: Route = Route {
    name: "h2d",
    about: "page-locked host memory to a device",
    dst: Home::Device,
    src: Home::Locked,
    device: 0,
    kind: kind::HOST_TO_DEVICE,
};
/// A device to page-locked host memory.
pub const D2H: Route = Route {
    name: "d2h",
    about: "a device to page-locked host memory",
    dst: Home::Locked,
    src: Home::Device,
    device: 0,
    kind: kind::DEVICE_TO_HOST,
};
/// Within a device.
pub const D2D: Route = Route {
    name: "d2d",
    about: "within a device",
    dst: Home::Device,
    src: Home::Device,
    device: 0,
    kind: kind::DEVICE_TO_DEVICE,
};
/// Within a device by descriptors.
pub const INNER: Route = Route { name: "desc", kind: kind::INNER_DEVICE_TO_DEVICE, ..D2D };
/// From one device to another.
pub const P2P: Route = Route { name: "p2p", about: "device 0 to device 1", device: 1, ..D2D };
/// Pageable host memory to a device.
pub const H2D_PAGEABLE: Route =
    Route { name: "h2d-pageable", about: "plain host memory to a device", src: Home::Pageable, ..H2D };
/// A device to pageable host memory.
pub const D2H_PAGEABLE: Route =
    Route { name: "d2h-pageable", about: "a device to plain host memory", dst: Home::Pageable, ..D2H };

/// Both ways at once between page-locked host memory and a device. Its fields are those of the first way.
pub const DUPLEX: Route = Route { name: "duplex", about: "both ways at once, page-locked memory", ..H2D };

impl Route {
    /// The ways that are copied at once: usually it alone.
    pub fn ways(self) -> Vec<Route> {
        if self.is_duplex() { vec![H2D, D2H] } else { vec![self] }
    }

    /// Whether it is both ways at once.
    pub fn is_duplex(&self) -> bool {
        self.name == DUPLEX.name
    }

    /// Whether one side is pageable memory.
    pub fn is_pageable(&self) -> bool {
        [self.dst, self.src].contains(&Home::Pageable)
    }

    /// Whether it goes between host and device.
    pub fn crosses(&self) -> bool {
        self.dst != self.src
    }
}
