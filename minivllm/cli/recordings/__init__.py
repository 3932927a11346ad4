"""The commands that look at an engine from outside, or at its recording: `attach`, `replay`,
`shot`, `once` and `export`.
"""
