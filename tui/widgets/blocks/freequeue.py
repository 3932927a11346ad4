"""Free queue: the free blocks, in the order in which they will be reused.

The content of a free block can be hit until the block reaches the front of the queue and is
allocated. So the order of the queue is the eviction policy.
"""

from itertools import islice

from minivllm.tui.draw.lines import Line, Span, line, packed
from minivllm.tui.draw.selection import block
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.blocks.cells import CACHED
from minivllm.tui.widgets.frame.panel import Panel


class FreeQueue(Panel):
    HELP_TITLE = "Free queue"
    HELP_TEXT = (
        "Free blocks in the order in which they will be allocated, next first. Blocks"
        " marked ░ are still in the prefix cache: a prompt with the same beginning can reuse"
        " them. If they are allocated first, their content is evicted."
    )

    def title(self, model: DashboardModel, width: int) -> str:
        return "Free queue, next first"

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        queue = model.fold.free_queue
        if not queue:
            return [line(width, ("no block is free", "warn"))]
        # Read only the blocks that may fit: a pool can have a hundred thousand free ones.
        shown = enumerate(islice(queue, width * height))
        items = ((_item(model, block_id, is_next=at == 0),) for at, block_id in shown)
        return packed(items, width, height, head=(("next ", "muted"),), total=len(queue))


def _item(model: DashboardModel, block_id: int, is_next: bool) -> Span:
    weight = ("*" if is_next else "") + ("!" if block_id in model.ages.changed else "")
    if model.fold.blocks[block_id].hash is None:
        return str(block_id), "text" + weight, block(block_id)
    text = f"{CACHED}{block_id}{model.last_owner_letter(block_id) or ''}"
    return text, "cached" + weight, block(block_id)
