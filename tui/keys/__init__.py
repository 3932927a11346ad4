"""Every command in one table with its key, and what runs behind it. Read `commands` first.

commands                            the table, and how Textual gets it
time_keys, look_keys, engine_keys   what the keys do, by subject
windows, files                      keys that open a window, keys that write a file
keymap, palette, signals            a person's own keys, the palette, signals from outside
"""
