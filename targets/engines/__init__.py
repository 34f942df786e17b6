"""Run the tasks of a preparation: in this process, in a pool of processes, or on Ray Data."""
