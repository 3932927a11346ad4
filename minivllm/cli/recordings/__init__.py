"""Commands for recordings, and engines elsewhere: `attach`, `replay`, `shot`, `once`, `export`."""
