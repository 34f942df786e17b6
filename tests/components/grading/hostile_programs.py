# ruff: noqa: E501
"""200 programs that attack what runs them. Each prints ``escaped`` where its attack succeeds."""

import textwrap
from collections.abc import Iterator


def hostile_programs(canary: str, port: int, pid: int) -> list[tuple[str, str]]:
    """(kind, program): attacks on the file ``canary``, on a server at ``port``, and on the process ``pid``."""
    programs = [*_exhaust(), *_network(port), *_files(canary), *_processes(pid), *_secrets(canary), *_cheats()]
    return [(kind, textwrap.dedent(program)) for kind, program in programs]


def _exhaust() -> Iterator[tuple[str, str]]:
    for fork in (
        "os.fork()",
        "os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, '-c', 'import time; time.sleep(99)'])",
    ):
        for prefix in ("", "os.setsid()\n", "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"):
            for after in ("", "    time.sleep(0.001)\n"):
                yield "forks", f"import os, signal, sys, time\n{prefix}while True:\n    {fork}\n{after}"
    for size in (20, 24, 28, 32, 36):
        yield "memory", f"kept = []\nwhile True: kept.append(bytearray(1 << {size}))"
        yield "memory", f"x = 'a' * (1 << {size})\nwhile True: x += x"
        yield (
            "memory",
            f"import mmap\nkept = []\nwhile True: kept.append(mmap.mmap(-1, 1 << {size})); kept[-1].write(b'x' * (1 << 20))",
        )
    for count in (2, 8, 15):
        yield (
            "memory",
            f"import os\nfor _ in range({count}): os.fork()\nx = bytearray(300 << 20)\nwhile True: pass"
            if count < 5
            else (
                f"import os, time\nfor _ in range({count}):\n    if os.fork() == 0:\n        x = bytearray(b'x') * (200 << 20); time.sleep(99)\ntime.sleep(99)"
            ),
        )
    for place in ("/tmp/x", "/dev/shm/x", "x", "/x", "/dev/x"):
        for mode in ("w", "a"):
            yield (
                "disk",
                f"f = open({place!r}, {mode!r})\nfor _ in range(1 << 20): f.write('x' * 4096)\nprint('escaped')",
            )
        yield "disk", f"for i in range(10 ** 6): open({place!r} + str(i), 'w').write('x' * (1 << 19))\nprint('escaped')"
    for target in ("sys.stdout", "sys.stderr", "open('/dev/stdout', 'w')", "open('/proc/self/fd/1', 'w')"):
        yield "output", f"import sys\nout = {target}\nwhile True: out.write('x' * 4096)"
    for stuck in (
        "while True: pass",
        "import time; time.sleep(99)",
        "import signal; signal.pause()",
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
        "import threading; threading.Lock().acquire(); threading.Event().wait()",
        "(lambda f: f(f))(lambda f: f(f))",
        "9 ** 9 ** 9",
        "import re; re.match('(a+)+b', 'a' * 99)",
        "import select; select.select([], [], [])",
        "sum(iter(int, 1))",
        "import itertools; list(itertools.count())",
        "str(10 ** 10 ** 8)",
    ):
        yield "stuck", stuck
        yield (
            "stuck",
            f"import signal\nfor s in range(1, 32):\n    try: signal.signal(s, signal.SIG_IGN)\n    except OSError: pass\n{stuck}",
        )


def _network(port: int) -> Iterator[tuple[str, str]]:
    for host in ("127.0.0.1", "localhost", "0.0.0.0", "::1", "8.8.8.8", "169.254.169.254"):
        yield "network", f"import socket\nsocket.create_connection(({host!r}, {port}), 2)\nprint('escaped')"
        yield (
            "network",
            f"import urllib.request\nurllib.request.urlopen('http://[{host}]:{port}' if ':' in {host!r} else 'http://{host}:{port}', timeout=2)\nprint('escaped')",
        )
    for kind in ("SOCK_RAW", "SOCK_DGRAM"):
        yield (
            "network",
            f"import socket\ns = socket.socket(socket.AF_INET, socket.{kind})\ns.sendto(b'x', ('8.8.8.8', 53))\ns.settimeout(1); s.recv(1)\nprint('escaped')",
        )
    yield "network", "import socket\nsocket.getaddrinfo('example.com', 80)\nprint('escaped')"
    yield (
        "network",
        "import socket, os\ns = socket.socket(socket.AF_UNIX)\ns.connect('/var/run/docker.sock')\nprint('escaped')",
    )
    yield "network", "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('\\0/tmp/dbus')\nprint('escaped')"


def _files(canary: str) -> Iterator[tuple[str, str]]:
    for place in (
        canary,
        f"/proc/1/root{canary}",
        f"/tmp/../..{canary}",
        "/usr/x",
        "/etc/x",
        "/bin/x",
        "/root/x",
        "/home/x",
        "/var/x",
        "/program.py",
        "/lib/x",
        "/proc/sys/kernel/hostname",
        "/proc/sys/kernel/ns_last_pid",
        "/proc/self/oom_score_adj/x",
        "/sys/x",
    ):
        yield "writes", f"open({place!r}, 'w').write('x')\nprint('escaped')"
        yield (
            "writes",
            f"import os\nos.makedirs(os.path.dirname({place!r}), exist_ok=True)\nos.open({place!r}, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)\nprint('escaped')",
        )
    for call in (
        "os.unlink('/program.py')",
        "os.rename('/usr', '/usr2')",
        "os.mknod('/tmp/disk', 0o60600, os.makedev(8, 0))",
        "os.chroot('/tmp')",
        "os.chmod('/usr/bin', 0o777)",
        "os.chown('/usr', 1, 1)",
        "os.link('/usr/bin/env', '/usr/bin/env2')",
        "os.setuid(1)",
        "os.sethostname('x') if hasattr(os, 'sethostname') else socket.sethostname('x')",
    ):
        yield "system", f"import os, socket\n{call}\nprint('escaped')"
    for call in (
        "mount(b'none', b'/tmp', b'tmpfs', 0, 0)",
        "umount(b'/tmp')",
        "umount2(b'/', 2)",
        "reboot(0x1234567)",
        "setns(3, 0)",
        "pivot_root(b'/', b'/tmp')",
        "unshare(0x20000)",
        "swapoff(b'/x')",
    ):
        yield (
            "system",
            f"import ctypes\nlibc = ctypes.CDLL(None)\nif libc.{call} == 0: print('escaped')\nraise SystemExit(1)",
        )
    for folder in ("/tmp", "/root", "/home", "/etc", "/var"):
        yield (
            "reads",
            f"import os\nnames = [n for n in os.listdir({folder!r}) if n != '.pyenv' and not n.startswith('program')]\nassert names\nprint('escaped')",
        )


def _processes(pid: int) -> Iterator[tuple[str, str]]:
    for target in (pid, f"-{pid}"):
        for signum in (9, 15, 19):
            yield "signals", f"import os\nos.kill({target}, {signum})\nprint('escaped')"
    for target in ("os.getppid()", "1", "-1", "2", "0"):
        for signum in (9, 15, 19):
            yield "signals", f"import os, time\nos.kill({target}, {signum})\ntime.sleep(0.2)"
    yield (
        "signals",
        f"import ctypes\nif ctypes.CDLL(None).ptrace(16, {pid}, 0, 0) == 0: print('escaped')\nraise SystemExit(1)",
    )
    yield "signals", f"open('/proc/{pid}/mem', 'rb').read(1)\nprint('escaped')"
    yield "signals", f"import os\nos.listdir('/proc/{pid}')\nprint('escaped')"
    for start in ("os.setsid()", "signal.signal(signal.SIGHUP, signal.SIG_IGN)", "pass"):
        yield (
            "stays",
            f"import os, signal, time\nif os.fork() == 0:\n    {start}\n    if os.fork() == 0:\n        time.sleep(600)\n    os._exit(0)",
        )
        yield (
            "stays",
            f"import os, signal, subprocess, sys\n{start}\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)",
        )


def _secrets(canary: str) -> Iterator[tuple[str, str]]:
    for source in (
        "str(os.environ)",
        "open('/proc/self/environ').read()",
        "open('/proc/1/environ').read()",
        f"open({canary!r}).read()",
        f"open('/proc/1/root{canary}').read()",
        "subprocess.run('env', capture_output=True, text=True, shell=True).stdout",
        "open('/proc/self/fd/3').read()",
        "' '.join(open(f'/proc/self/fd/{n}').read() for n in (4, 5, 6))",
    ):
        yield "secrets", f"import os, subprocess\nif 'sesame' in {source}: print('escaped')\nraise SystemExit(1)"
    for place in ("/etc/passwd", "/etc/shadow", "/root/.ssh/id_rsa", "/root/.bashrc"):
        yield "secrets", f"print(open({place!r}).read()); print('escaped')"


def _cheats() -> Iterator[tuple[str, str]]:
    """Programs that would pass without being right: they know no expected output."""
    for early in (
        "import sys; sys.exit(0)",
        "import os; os._exit(0)",
        "raise SystemExit",
        "exit()",
        "print(open('/program.py').read())",
        "import os; os.execv('/bin/true', ['true'])",
        "1/0",
        "import builtins; builtins.print = len",
        "import sys; sys.stdout = None",
        "import atexit, os; atexit.register(os._exit, 0); 1/0",
        "class print: pass",
        "import sys; sys.excepthook = lambda *a: __import__('os')._exit(0); 1/0",
        "quit(0)",
        "import signal, os; os.kill(os.getpid(), signal.SIGTERM)",
        "def (",
        "\0",
        "\ud800",
    ):
        yield "cheats", early
