"""How we are known to an upstream: connections, their kinds, and the sealing of every secret at rest."""
