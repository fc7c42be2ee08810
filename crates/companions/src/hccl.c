/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* libhccl.so: collective communication. The PyTorch adapter is linked with it. */
