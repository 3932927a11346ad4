"""Random cases for exercises, and the behaviours to check on them. Read `behaviour` first."""
