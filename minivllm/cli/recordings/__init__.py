"""Commands that show another process's engine, or a recording: `attach`, `replay`, `shot`, `once`,
`export`.
"""
