"""What an answer says: its text read to the end, and two readings compared exactly."""
