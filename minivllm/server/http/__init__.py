"""HTTP below the routes: middleware, limits on bodies and connections, disconnected clients."""
