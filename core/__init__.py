"""What every package stands on: errors, files and digests, schemas, command lines, processes, progress."""
