/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* libacl_tdt_channel.so: channels of tensors between host and device. The PyTorch adapter is linked with
 * it. */
