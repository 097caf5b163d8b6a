"""Methods of the tests."""
import array
import asyncio
import multiprocessing
import os
import random
import signal
import sys
import time


try:
    BaseExceptionGroup
except NameError:  # before Python 3.11
    class BaseExceptionGroup(BaseException):
        def __str__(self):
            return f"{self.args[0]} ({len(self.args[1])} sub-exception)"


class Mute(Exception):
    def __str__(self):
        raise KeyboardInterrupt("no text")

    __repr__ = __str__


def raising(what):
    if what == "group":
        return BaseExceptionGroup("a group", [KeyboardInterrupt()])
    if what == "long":
        return ValueError("begin" + "é" * (3 << 20) + "end")
    return {
        "mute": Mute(), "half": ValueError("a \ud800 b"), "cancelled": asyncio.CancelledError("stop"), "interrupt": KeyboardInterrupt("by hand"),
        "generator": GeneratorExit(), "name": type("N" * (1 << 20), (Exception,), {})("so"),
    }[what]


def square(x):
    return x * x


def inner(how):
    """Runs in a process of multiprocessing, and starts another one."""
    p = multiprocessing.get_context(how).Process(target=square, args=(3,))
    p.start()
    p.join()
    sys.exit(10 + p.exitcode)


class Box:
    def __init__(self, seed, scale):
        self.seed, self.scale, self.n = seed, scale, 0
        print("made by", sys.argv)

    def count(self):
        self.n += 1
        return {"n": self.n}

    def draw(self):
        return {"seed": self.seed, "random": random.random(), "hash": hash("x")}

    def scaled(self, x, by=1.0, note=None):
        assert x.shape == (2, 3) and x.tolist()[1] == [4.0, 5.0, 6.0], x.tolist()
        assert note is None
        return {"y": array.array("f", [v * by * self.scale for row in x.tolist() for v in row]), "sum": sum(map(sum, x.tolist()))}

    untold = misplaced = scaled

    def kinds(self, **arrays):
        assert sorted(arrays) == ["b", "d", "e", "f", "i", "l", "u"], sorted(arrays)
        return {k: v for k, v in arrays.items() if v is not None}

    def broken(self, depth):
        if depth:
            return self.broken(depth - 1)
        raise ValueError("the box is empty: é")

    def raises(self, word):
        raise raising(word)

    def text(self, word):
        return {"word": "a \ud800 b" if word == "half" else word}

    def large(self, n):
        return {"y": bytes(n)}

    def multi(self, word):
        context = multiprocessing.get_context(word)
        p = context.Process(target=inner, args=(word,))
        p.start()
        p.join()
        with context.Pool(1) as pool:
            return {"n": 100 * p.exitcode + sum(pool.map(square, [1, 2, 3]))}

    def value(self):
        return 7

    def nan(self):
        return {"n": float("nan")}

    def strange(self):
        return {"y": array.array("h", [1])}

    def listed(self):
        return {"y": [1, 2]}

    def prints(self):
        print("a library prints this")
        sys.stdout.buffer.write(b"\x00\x01\xff binary\n")
        print("x" * 5000)
        print("no end of line", end="", flush=True)
        sys.stderr.write("a warning\n")

    def stops(self):
        os.kill(os.getpid(), signal.SIGSTOP)

    def appended(self, to):
        to.append(1)
        return {"n": len(to)}

    def works(self):
        time.sleep(4)

    def hangs(self):
        while True:
            time.sleep(1)

    def leaves(self):
        sys.stderr.write("leaving\n")
        os._exit(9)

    def forks(self):
        """A forked process must not write frames."""
        pid = os.fork()
        if pid == 0:
            os.write(4, b"garbage")
            os._exit(0)
        os.waitpid(pid, 0)

    def environ(self):
        import beside

        secrets = sorted(k for k in os.environ if k.startswith(("CONSUL_", "RAYSYS_")))
        return {"beside": beside.__name__, "secrets": ",".join(secrets), "devices": os.environ["CUDA_VISIBLE_DEVICES"], "mine": os.environ["MINE"], "dir": os.getcwd()}


def function(word):
    return {"word": word * 2}
