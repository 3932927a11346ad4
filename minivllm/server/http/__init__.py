"""HTTP below the routes: what every request has to pass, bodies and connections with bounds,
clients that go away.
"""
