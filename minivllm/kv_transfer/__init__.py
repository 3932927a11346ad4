"""A second memory for keys and values: blocks leave the pool and come back.

    connector      what the core calls, and requests that own blocks and wait for them
    host_tier      a second pool with the same hashes, in the host's memory
    host_memory    its tensors, and the copies
    factory        makes the connector that an engine's `kv_transfer_config` names

An engine without a `kv_transfer_config` imports only the names below.

Source: vLLM `vllm/distributed/kv_transfer/`, `vllm/v1/simple_kv_offload/`.
"""

from minivllm import lazy_names

_HOMES = {"HostMemory": "host_memory", "create_connector": "factory"}
__getattr__ = lazy_names(__name__, _HOMES)
