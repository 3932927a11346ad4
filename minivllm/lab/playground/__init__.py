"""The site's playground: two runs of the same requests, one of them with a reader's code.

It runs in Pyodide inside a web worker (docs/assets/playground), and needs neither torch nor numpy.
Read `play` first.

fresh     imports the engine a second time, with changed code
methods   the methods of the core that a reader can change, and a module with the change in it
limit     stops a reader's endless loop, and says in which line it was
side      one run of the requests, or of a reader's arrivals, with one configuration
play      both sides: the original, and the reader's
exercise  checks an exercise in the page, with the checker's own cases
browser   what the page calls: JSON in, JSON out
"""
