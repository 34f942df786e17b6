"""Stands for a Python interpreter: hands its command to the process of `training.platforms.preloaded`, and waits."""

import json
import os
import socket
import sys

OPEN = "/proc/self/fd"
files = [int(number) for number in os.listdir(OPEN) if os.path.exists(f"{OPEN}/{number}")]  # the listing's is closed
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    command = {"arguments": sys.argv[2:], "environment": dict(os.environ), "folder": os.getcwd(), "files": files}
    text = json.dumps(command).encode()
    socket.send_fds(connection, [len(text).to_bytes(4)], files)
    connection.sendall(text)
    connection.recv(1)  # returns when the worker has ended
