"""Programs that attack what runs them. Each prints ``escaped`` where its attack succeeds."""

from collections.abc import Iterator

ESCAPED = "\nprint('escaped')"


def hostile_programs(canary: str, port: int, pid: int) -> list[tuple[str, str]]:
    """(kind, program): attacks on the file ``canary``, on a server at ``port``, and on the process ``pid``."""
    groups = (_exhaust(), _network(port), _files(canary), _system(), _processes(pid), _secrets(canary), _cheats())
    return [named for group in groups for named in group]


def _exhaust() -> Iterator[tuple[str, str]]:
    spawn = "os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, '-c', 'import time; time.sleep(99)'])"
    for fork in ("os.fork()", "os.fork()\n    time.sleep(0.001)", spawn):
        for prefix in ("", "os.setsid()", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"):
            yield "forks", f"import os, signal, sys, time\n{prefix}\nwhile True:\n    {fork}"
    for size in (20, 28, 36):
        yield "memory", f"kept = []\nwhile True: kept.append(bytearray(1 << {size}))"
        yield "memory", f"x = 'a' * (1 << {size})\nwhile True: x += x"
    yield (
        "memory",
        ("import mmap\nkept = []\nwhile True: kept.append(mmap.mmap(-1, 1 << 28)); kept[-1].write(b'x' * (1 << 20))"),
    )
    yield (
        "memory",
        (
            "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n"
            "        x = bytearray(b'x') * (200 << 20); time.sleep(99)\ntime.sleep(99)"
        ),
    )
    for place in ("/tmp/x", "/dev/shm/x", "x", "/x", "/dev/x"):
        yield "disk", f"f = open({place!r}, 'w')\nfor _ in range(1 << 20): f.write('x' * 4096){ESCAPED}"
        yield "disk", f"for i in range(10 ** 6): open({place!r} + str(i), 'w').write('x' * (1 << 19)){ESCAPED}"
    for target in ("sys.stdout", "sys.stderr", "open('/proc/self/fd/1', 'w')"):
        yield "output", f"import sys\nout = {target}\nwhile True: out.write('x' * 4096)"
    deaf = (
        "import signal\nfor s in range(1, 32):\n    try: signal.signal(s, signal.SIG_IGN)\n    except OSError: pass\n"
    )
    for stuck in (
        "while True: pass", "import time; time.sleep(99)", "import os; os.kill(os.getpid(), 19)",
        "import threading; threading.Event().wait()", "(lambda f: f(f))(lambda f: f(f))", "9 ** 9 ** 9",
        "import re; re.match('(a+)+b', 'a' * 99)", "import itertools; list(itertools.count())",
    ):  # fmt: skip
        yield "stuck", deaf + stuck


def _network(port: int) -> Iterator[tuple[str, str]]:
    for host in ("127.0.0.1", "localhost", "::1", "8.8.8.8", "169.254.169.254"):
        yield "network", f"import socket\nsocket.create_connection(({host!r}, {port}), 2){ESCAPED}"
    for kind in ("SOCK_RAW", "SOCK_DGRAM"):
        open_socket = f"import socket\ns = socket.socket(socket.AF_INET, socket.{kind})\n"
        yield "network", open_socket + f"s.sendto(b'x', ('8.8.8.8', 53))\ns.settimeout(1); s.recv(1){ESCAPED}"
    for address in ("/var/run/docker.sock", "\\0/tmp/dbus"):
        yield "network", f"import socket\nsocket.socket(socket.AF_UNIX).connect('{address}'){ESCAPED}"


def _files(canary: str) -> Iterator[tuple[str, str]]:
    for place in (
        canary, f"/proc/1/root{canary}", f"/tmp/../..{canary}", "/usr/x", "/etc/x", "/root/x", "/home/x", "/program.py",
        "/lib/x", "/proc/sys/kernel/hostname", "/proc/self/oom_score_adj/x", "/sys/x",
    ):  # fmt: skip
        yield "writes", f"open({place!r}, 'w').write('x'){ESCAPED}"
        make = f"import os\nos.makedirs(os.path.dirname({place!r}), exist_ok=True)\n"
        yield "writes", make + f"os.open({place!r}, os.O_CREAT | os.O_WRONLY | os.O_TRUNC){ESCAPED}"
    for folder in ("/tmp", "/root", "/home", "/etc", "/var"):
        yield "reads", f"import os\nassert [n for n in os.listdir({folder!r}) if n != '.pyenv']{ESCAPED}"


def _system() -> Iterator[tuple[str, str]]:
    for call in (
        "os.unlink('/program.py')", "os.rename('/usr', '/usr2')", "os.chroot('/tmp')", "os.chmod('/usr/bin', 0o777)",
        "os.mknod('/tmp/disk', 0o60600, os.makedev(8, 0))", "os.link('/usr/bin/env', '/usr/bin/env2')", "os.setuid(1)",
        "socket.sethostname('x')",
    ):  # fmt: skip
        yield "system", f"import os, socket\n{call}{ESCAPED}"
    for call in (
        "mount(b'none', b'/tmp', b'tmpfs', 0, 0)", "umount2(b'/', 2)", "reboot(0x1234567)", "setns(3, 0)",
        "pivot_root(b'/', b'/tmp')", "unshare(0x20000)",
    ):  # fmt: skip
        yield "system", f"import ctypes\nif ctypes.CDLL(None).{call} == 0: print('escaped')\nraise SystemExit(1)"


def _processes(pid: int) -> Iterator[tuple[str, str]]:
    for target in (pid, f"-{pid}"):
        yield "signals", f"import os\nos.kill({target}, 9){ESCAPED}"
    for target in ("os.getppid()", "1", "-1", "2", "0"):
        for number in (9, 19):
            yield "signals", f"import os, time\nos.kill({target}, {number})\ntime.sleep(0.2)"
    yield "signals", f"import ctypes\nif ctypes.CDLL(None).ptrace(16, {pid}, 0, 0) == 0: print('escaped')\n1 / 0"
    yield "signals", f"open('/proc/{pid}/mem', 'rb').read(1){ESCAPED}"
    again = "    if os.fork() == 0:\n        time.sleep(600)\n    os._exit(0)"
    yield "stays", f"import os, time\nif os.fork() == 0:\n    os.setsid()\n{again}"
    child = "[sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True"
    yield "stays", f"import subprocess, sys\nsubprocess.Popen({child})"


def _secrets(canary: str) -> Iterator[tuple[str, str]]:
    for source in (
        "str(os.environ)", "open('/proc/self/environ').read()", "open('/proc/1/environ').read()",
        f"open({canary!r}).read()", f"open('/proc/1/root{canary}').read()",
        "' '.join(open(f'/proc/self/fd/{n}').read() for n in (3, 4, 5, 6))",
    ):  # fmt: skip
        yield "secrets", f"import os\nif 'sesame' in {source}: print('escaped')\nraise SystemExit(1)"
    for place in ("/etc/passwd", "/etc/shadow", "/root/.ssh/id_rsa"):
        yield "secrets", f"print(open({place!r}).read()){ESCAPED}"


def _cheats() -> Iterator[tuple[str, str]]:
    """Programs that would pass without being right: they know no expected output."""
    for early in (
        "import sys; sys.exit(0)", "import os; os._exit(0)", "exit()", "print(open('/program.py').read())",
        "import os; os.execv('/bin/true', ['true'])", "1/0", "import builtins; builtins.print = len",
        "import sys; sys.stdout = None", "import atexit, os; atexit.register(os._exit, 0); 1/0", "class print: pass",
        "import sys; sys.excepthook = lambda *a: __import__('os')._exit(0); 1/0", "\0", "\ud800",
        "import signal, os; os.kill(os.getpid(), signal.SIGTERM)",
    ):  # fmt: skip
        yield "cheats", early
