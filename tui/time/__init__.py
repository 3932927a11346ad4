"""Where in a recording the dashboard is, and how it gets to another moment. Read `transport`
first.
"""
