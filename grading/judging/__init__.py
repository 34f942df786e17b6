"""What a judge needs beside its verdict: a client of an endpoint, and a ledger of what was asked and paid."""
