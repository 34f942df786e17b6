"""What a run writes while it trains: step metrics, samples, and the ledger of its targets."""
