"""The table of all commands and their keys, and the code behind the keys. Read `commands` first.

commands                                       the table, and Textual's bindings made from it
time_keys, look_keys, engine_keys, race_keys   the functions of the keys, by subject
keymap, signals                                the user's own keys, OS signals
"""
