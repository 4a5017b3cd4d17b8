"""Networks of nodes and links as people have them: tables, road files, and the trips made in them."""

from irlax.routes.network import Network
from irlax.routes.read import read_network, read_trips
from irlax.routes.tables import read_nodes, read_pairs, read_trip_column
from irlax.routes.tntp import read_tntp, read_tntp_trips

__all__ = [
    "Network",
    "read_network",
    "read_nodes",
    "read_pairs",
    "read_tntp",
    "read_tntp_trips",
    "read_trip_column",
    "read_trips",
]
