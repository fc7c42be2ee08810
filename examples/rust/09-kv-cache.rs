//! 09: swap thousands of blocks of a KV cache out to the host and in again.
//!
//! A server of language models keeps keys and values of past tokens in device memory, cut into blocks of one
//! size, and a table that says which blocks belong to which request. When memory runs short the blocks of
//! some requests go to page-locked memory, and come back later, to whatever blocks are free then. The blocks
//! of a request lie all over the cache, so a swap is thousands of small copies; a batch makes them one piece
//! of work, which costs one submission.

use std::time::Instant;

use ferry::{Batch, Device, DeviceBuffer, DeviceSlice, HostBuffer, InFlight, Runtime, Stream};

const BLOCK: usize = 1024; // elements of a block, two bytes each
const BLOCKS: usize = 8192; // of the whole cache: 16 MiB
const REQUEST: usize = 3000; // of the request that is swapped

struct Cache {
    blocks: DeviceBuffer<u16>,
    stream: Stream,
}

impl Cache {
    fn new(device: &Device) -> ferry::Result<Cache> {
        Ok(Cache { blocks: device.alloc_zeroed(BLOCKS * BLOCK)?, stream: device.stream()? })
    }

    fn block(&self, number: usize) -> ferry::Result<DeviceSlice<'_, u16>> {
        self.blocks.slice(number * BLOCK..(number + 1) * BLOCK)
    }

    /// The blocks of `table` and their places in `host`, one behind the other.
    fn batch<'a>(
        &'a self,
        table: &[usize],
        host: HostBuffer<u16>,
    ) -> ferry::Result<Batch<'a, HostBuffer<u16>>> {
        let mut batch = Batch::new(host);
        for (place, number) in table.iter().enumerate() {
            batch.push(self.block(*number)?, place * BLOCK..(place + 1) * BLOCK)?;
        }
        Ok(batch)
    }

    /// Returns at once. What the stream does next with these blocks comes after the swap, so they are free
    /// from here on.
    fn swap_out(&self, table: &[usize], host: HostBuffer<u16>) -> ferry::Result<InFlight<HostBuffer<u16>>> {
        Ok(self.stream.download_batch(self.batch(table, host)?)?)
    }

    fn swap_in(&self, table: &[usize], host: HostBuffer<u16>) -> ferry::Result<InFlight<HostBuffer<u16>>> {
        Ok(self.stream.upload_batch(self.batch(table, host)?)?)
    }
}

fn main() -> ferry::Result<()> {
    let runtime = Runtime::new()?;
    let cache = Cache::new(&runtime.device(0)?)?;

    // The request's blocks: scattered over the cache, none of them twice (5 and 8192 have no common factor).
    let table: Vec<usize> = (0..REQUEST).map(|i| (i * 5 + 7) % BLOCKS).collect();
    for (place, number) in table.iter().enumerate() {
        cache.stream.fill(cache.block(*number)?, place as u16)?;
    }

    // Out. The host memory travels with the copy; meanwhile the server would go on with other requests.
    let start = Instant::now();
    let token = cache.swap_out(&table, runtime.alloc_host(REQUEST * BLOCK)?)?;
    // Others take the blocks: behind the swap in the same stream, without waiting for it.
    for number in &table {
        cache.stream.fill(cache.block(*number)?, 0xffff)?;
    }
    let saved = token.wait()?;
    println!("{REQUEST} blocks out in {:?}", start.elapsed());
    for (place, block) in saved.chunks(BLOCK).enumerate() {
        assert!(
            block.iter().all(|element| *element == place as u16),
            "block {place} was not saved as it was"
        );
    }

    // In, to other blocks than before.
    let start = Instant::now();
    let new_table: Vec<usize> = (0..REQUEST).map(|i| (i * 3 + 1) % BLOCKS).collect();
    let token = cache.swap_in(&new_table, saved)?;
    cache.stream.synchronize()?;
    println!("{REQUEST} blocks in in {:?}", start.elapsed());

    // Every block of the cache: the request's are back, in their new places.
    let all = cache.stream.read_vec(&cache.blocks)?;
    let place_of = |number: usize| new_table.iter().position(|block| *block == number);
    for (number, block) in all.chunks(BLOCK).enumerate() {
        let taken = if table.contains(&number) { 0xffff } else { 0 };
        let want = place_of(number).map_or(taken, |place| place as u16);
        assert!(block.iter().all(|element| *element == want), "block {number} is not full of {want}");
    }
    assert_eq!(token.wait()?.len(), REQUEST * BLOCK);

    println!("ok: {REQUEST} blocks out and in, two submissions");
    Ok(())
}
