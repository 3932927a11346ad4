"""The site's playground: two runs of the same requests, one of them with a reader's code.

It runs in Pyodide inside a web worker (docs/assets/playground), and needs neither torch nor numpy.
Read `play` first.
"""
