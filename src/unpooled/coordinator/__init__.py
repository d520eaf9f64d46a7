"""The coordinator's end of a round: asks silos, opens totals, relays messages."""
