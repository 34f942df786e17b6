"""What a judge needs besides its verdict: a client of an endpoint, and a ledger of requests and their cost."""
