"""Plain indexing, without a workspace, and one head dimension at a time."""

from minivllm.runtime.attention.partial import attend, merge


class TorchAttentionBackend:
    def _attend_decodes(self, cache, query, metadata, output, log_sum_exp):
        for bucket in metadata.decodes:
            num_seqs = bucket.mask.shape[0]
            keys, values = self._read(cache, bucket.block_ids, num_seqs, bucket.padding)
            queries = query[bucket.rows][:, :, None]
            found, lse = attend(queries, keys, values, self._scale, mask=bucket.mask)
            log_sum_exp[bucket.rows] = lse[:, :, 0]
            output[bucket.rows] = found[:, :, 0]

    def _attend_spans(self, cache, query, metadata, output, log_sum_exp):
        for span in metadata.spans:
            keys, values = self._read(cache, span.block_ids, 1)
            keys, values = keys[:, :, : span.num_tokens], values[:, :, : span.num_tokens]
            queries = query[span.rows].permute(1, 0, 2)[None]
            found, lse = attend(queries, keys, values, self._scale)
            merge(output, log_sum_exp, span.rows, found[0].permute(1, 0, 2), lse[0].permute(1, 0))

    def _write(self, cache, key, value, metadata):
        slots = cache.view(-1, *cache.shape[2:])
        rows = slice(None) if metadata.written_rows is None else metadata.written_rows
        slots[metadata.written_slots, : key.shape[1]] = key[rows]
        slots[metadata.written_slots, key.shape[1] :] = value[rows]

    def _read(self, cache, block_ids, num_seqs, padding=None):
        tokens = cache[block_ids].flatten(0, 1)
        if padding is not None:
            tokens[padding] = 0.0
        tokens = tokens.unflatten(0, (num_seqs, -1))
        keys, values = tokens.chunk(2, dim=2)
        return keys.transpose(1, 2), values.transpose(1, 2)
