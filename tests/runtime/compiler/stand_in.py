"""A compiler process that knows neither torch nor janusc, and does what the source of a program says.

Its kernels return what follows ``ok``; ``later`` is the same after a while. What is no message to begin with is asked
for by STAND_IN in the environment.
"""

import hashlib
import json
import os
import socket
import sys
import threading
import time

KERNEL = "def call(inputs):\n    inputs.clear()\n    return ({!r},)\n"


def use(patch):
    """Let compiler processes be such from now on."""
    from janusc.runtime.compiler import connection, jobs

    patch.setattr(connection, "_START", f"exec(open({__file__!r}).read(), {{'__name__': '__main__'}})")
    patch.setattr(jobs, "_queue", jobs._Queue())


def write_entry(folder, key, source, damaged=False):
    path = os.path.join(folder, key)
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "kernel.py"), "w") as file:
        file.write(source + "#" * damaged)
    with open(os.path.join(path, "entry.json"), "w") as file:
        json.dump({"key": key, "digests": {"kernel.py": hashlib.sha256(source.encode()).hexdigest()}}, file)


def main():
    connection = socket.socket(fileno=int(sys.argv[1]))

    def say(**message):
        connection.send(json.dumps(message).encode())

    mood = os.environ.get("STAND_IN")
    if mood == "dies":
        return
    if mood == "is broken":
        say(broken="ImportError: no module named torch")
        return
    if mood == "is silent":
        time.sleep(60)
    say(hello=os.getpid())
    while True:
        message, descriptors, *_ = socket.recv_fds(connection, 1 << 16, 1)
        if not message:
            return
        request = json.loads(message)
        with open(descriptors[0]) as file:
            file.seek(0)
            word, _, value = json.load(file)["source"].partition(" ")
        if word == "idle":  # the request comes when the process is about to leave
            os.remove(value)
            return
        say(job=request["job"], begun=True)
        if word == "dies":
            return
        if word == "hangs":
            threading.Event().wait(60)
        if word == "fails":
            say(job=request["job"], failure=value)
            continue
        if word == "later":
            time.sleep(0.4)
        folder = request["folders"][0]
        source = value if word == "source" else KERNEL.format(value)
        write_entry(folder, request["key"], source, damaged=word == "damaged")
        say(job=request["job"], folder=folder)


if __name__ == "__main__":
    main()
