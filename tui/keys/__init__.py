"""Every command in one table with its key, a person's own keys, and the palette. Read `commands` first."""
