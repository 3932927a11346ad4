"""A second memory for keys and values: blocks leave the pool and come back, here or elsewhere.

    connector      what the core calls, and requests that own blocks and wait for them
    host_tier      a second pool with the same hashes, in the host's memory
    host_memory    its tensors, and the copies
    producer       prefill apart from decode: keeps a prompt's blocks for another engine
    consumer       the other engine: asks for the blocks by their hashes
    wire           question and answer over a socket, with `block_bytes`
    factory        makes the connector that an engine's `kv_transfer_config` names

An engine without a `kv_transfer_config` imports only the names below.

Source: vLLM `vllm/distributed/kv_transfer/`, `vllm/v1/simple_kv_offload/`.
"""

from minivllm import lazy_names

_HOMES = {"BlockBytes": "block_bytes", "HostMemory": "host_memory", "create_connector": "factory"}
__getattr__ = lazy_names(__name__, _HOMES)
