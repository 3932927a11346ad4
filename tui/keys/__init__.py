"""The table of all commands and their keys, and the code behind the keys. Read `commands` first.

commands                            the table, and Textual's bindings made from it
time_keys, look_keys, engine_keys   the functions of the keys, by subject
windows, files                      keys that open a window or write a file
keymap, palette, signals            the user's own keys, the palette, OS signals
"""
