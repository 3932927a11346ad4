"""The state that panels draw, folded from events. Read `model` first."""
