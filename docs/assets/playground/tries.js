// Three things to try: each fills the form and runs both sides. The page opens with the first one filled in.

export const TRIES = [
  { title: "A first server", trace: "long-and-short", options: { batching: "static", kv_cache_allocator: "contiguous" } },
  { title: "Small blocks", trace: "memory-pressure", options: { block_size: 4, num_gpu_blocks_override: 80 } },
  { title: "Another victim", trace: "memory-pressure", options: { num_gpu_blocks_override: 16 }, both: true, replace: ["running[-1]", "running[0]"] },
];
