"""Random cases for exercises, and the behaviours that run on them. Read `behaviour` first."""
