"""Free queue: which blocks are reused next, in order.

Free is not evicted: a cached block keeps its content, and can still be hit, until it comes to the
left end and is handed out. So this row, read from the left, is the whole of the cache's policy.
"""

from itertools import islice

from minivllm.tui.letters import hue
from minivllm.tui.lines import Line, Row
from minivllm.tui.model import DashboardModel
from minivllm.tui.widgets.blockmap import CACHED
from minivllm.tui.widgets.panel import Panel


class FreeQueue(Panel):
    """Block ids in the order of their reuse, over as many lines as there are."""

    HELP_TITLE = "Free queue"
    HELP_TEXT = (
        "Blocks that nobody holds, in the order in which they will be handed out, the next one first. Those marked ░ are "
        "still in the prefix cache: a prompt that begins alike takes them out of the middle, and being handed out evicts them."
    )

    def title(self, model: DashboardModel, width: int) -> str:
        return f"Free queue  {len(model.fold.free_queue):,}, reused from the left"

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        blocks, queue = model.fold.blocks, model.fold.free_queue
        if not queue:
            return [Row(width).put("no block is free", "warn").line()]
        rows: list[Line] = []
        row = Row(width).put("next ", "muted")
        shown = 0
        for block_id in islice(queue, width * height):
            cached = blocks[block_id].hash is not None
            letter = model.last_owner_letter(block_id) if cached else None
            text = f"{CACHED}{block_id}{letter or ''}" if cached else str(block_id)
            more = f" + {len(queue) - shown:,} more"
            last_row = len(rows) == height - 1
            if len(text) + 1 + (len(more) if last_row else 0) > row.room and len(queue) > shown + 1:
                if last_row:
                    row.put(more, "muted")
                    break
                rows.append(row.line())
                row = Row(width).put("     ")
            style = ("cached" if cached else "text") + ("*" if shown == 0 else "")
            row.put(text, style + ("!" if block_id in model.changed else "")).put(" ")
            shown += 1
        rows.append(row.line())
        return rows
