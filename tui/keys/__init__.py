"""All commands in one table with their keys, and the code behind them. Read `commands` first.

commands                            the table, and how Textual gets it
time_keys, look_keys, engine_keys   what the keys do, by subject
windows, files                      keys that open a window or write a file
keymap, palette, signals            the user's own keys, the palette, OS signals
"""
