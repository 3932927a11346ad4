"""Random cases for exercises, and how a behaviour asks for them and reports what happens. Read
`behaviour` first.
"""
