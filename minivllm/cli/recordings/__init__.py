"""Commands that show an engine from outside or its recording: `attach`, `replay`, `shot`, `once`
and `export`.
"""
