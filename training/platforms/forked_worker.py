"""Stands for a Python interpreter: hands the command to the process of `training.platforms.preloaded`, and waits."""

import json
import os
import socket
import sys

with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    command = {"arguments": sys.argv[2:], "environment": dict(os.environ), "folder": os.getcwd()}
    text = json.dumps(command).encode()
    socket.send_fds(connection, [text[:1]], [0, 1, 2])
    connection.sendall(text[1:])
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)  # returns when the worker has ended
