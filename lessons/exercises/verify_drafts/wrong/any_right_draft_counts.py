"""Every draft that equals the drawn token is accepted, also after a wrong one."""

from minivllm.errors import SamplingError
from minivllm.speculation.verify import Drawn

HINT = (
    "After a wrong draft, the next row continued a text that does not exist. Can its token be"
    " compared with anything?"
)


def _final(rows: list[Drawn], drafts: list[int]) -> list[Drawn]:
    final = [rows[0]]
    for index, draft in enumerate(drafts):
        if isinstance(rows[index + 1][1], SamplingError):
            break
        if rows[index][1].token_id == draft:
            final.append(rows[index + 1])
    return final
