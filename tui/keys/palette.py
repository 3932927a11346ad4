"""The command palette (ctrl+p): search for a command by name or help."""

from collections.abc import Awaitable, Callable
from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from minivllm.tui.draw.portable import to_ascii
from minivllm.tui.keys.commands import COMMANDS, Command, key_label


class CommandList(Provider):
    async def discover(self) -> Hits:
        for command in COMMANDS:
            yield DiscoveryHit(self._name(command), self._run(command), help=command.help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for command in COMMANDS:
            score = max(matcher.match(self._name(command)), matcher.match(command.help))
            if score > 0:
                yield Hit(
                    score,
                    matcher.highlight(self._name(command)),
                    self._run(command),
                    help=command.help,
                )

    def _run(self, command: Command) -> Callable[[], Awaitable[None]]:
        return partial(self.app.action_command, command.id)

    def _name(self, command: Command) -> str:
        name = f"{command.label} ({key_label(command)})"
        return to_ascii(name) if self.app.context.ascii else name
