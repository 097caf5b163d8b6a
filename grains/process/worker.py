"""The Python side of package process. It reads calls from descriptor 3 and answers on descriptor 4; frame.go says what a frame is.

The variable frames has descriptor 3, from which this text was read, and folder the entry of sys.path for the working directory. Arguments are numpy arrays where numpy has been imported by the
script, else memoryviews; both have shape and tolist().
"""
import array
import functools
import importlib
import inspect
import json
import linecache
import math
import mmap
import os
import random
import struct
import sys
import threading
import time
import traceback
import types

if folder is not None:
    sys.path.insert(0, folder)

CALL, RESULT, FAILURE, BEAT, SHARED = 1, 2, 3, 4, 5
LARGE = 64 << 10  # bytes: the tensors of a larger result lie in shared memory
FORMATS = {"float32": "f", "float64": "d", "int32": "i", "int64": "q", "uint8": "B", "bool": "?"}
NUMPY = {"<f4": "float32", "<f8": "float64", "<i4": "int32", "<i8": "int64", "|u1": "uint8", "|b1": "bool"}
DTYPES = {("f", 4): "float32", ("d", 8): "float64", ("i", 4): "int32", ("l", 4): "int32", ("l", 8): "int64", ("q", 8): "int64",
          ("B", 1): "uint8", ("c", 1): "uint8", ("?", 1): "bool"}
MAX_TEXT = 16 << 10  # bytes of a message, and of a traceback: frame.go has room for both

# Finds the module script in the processes that multiprocessing starts by spawn and forkserver. They get this text, too, before the functions
# that they run, which are known by their module and name.
SCRIPT = """
import sys

class Script:
    def __reduce__(self):
        return exec, (code, {"code": code, "source": source})

    def find_spec(self, name, path=None, target=None):
        if name == "script":
            from importlib.util import spec_from_loader
            return spec_from_loader(name, self, origin="script.py")
        if name in ("multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver"):
            from multiprocessing import spawn
            prepare = spawn.get_preparation_data
            spawn.get_preparation_data = lambda name: {"script": self, **prepare(name)}

    def create_module(self, spec):
        pass

    def exec_module(self, module):
        module.__file__ = "script.py"
        exec(compile(source, "script.py", "exec"), module.__dict__)

    def get_source(self, name):
        return source

sys.meta_path.insert(0, Script())
"""

def number(v):
    """Is what json makes of a value that it does not know: a scalar of numpy or torch."""
    if hasattr(v, "item") and getattr(v, "size", 1) in (0, 1) or hasattr(v, "numel") and v.numel() == 1:
        return v.item()
    raise TypeError(f"{type(v).__name__} is no value of JSON: {type(v).__module__}.{type(v).__name__} inside a list or a dict; only a key of the result may be an array")


encode = json.JSONEncoder(allow_nan=False, ensure_ascii=False, default=number).encode


sending = threading.Lock()  # guards descriptor 4
working = False  # a call runs
starting = True  # the object is not made yet
limit = 0  # of the frame of a result
shares = False  # descriptor 5 is memory that the parent reads, too
memory = None  # a mapping of it, as large as the largest result so far
placed = None  # the array of place


class TooLarge(Exception):
    """A result is beyond the limit. Its argument is the length of the frame."""


def detach():
    """Runs in a forked child: the frames and the memory are its parent's."""
    global shares, memory, placed
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (3, 4, 5) if shares else (3, 4):
        os.dup2(null, fd, inheritable=False)
    os.close(null)
    shares, memory, placed = False, None, None
    layout.cache_clear()


def fill(n):
    """Returns how many bytes fill n up to a multiple of 8."""
    return -n % 8


def share(size):
    """Reports whether there is shared memory of that size."""
    global shares, memory
    if shares and (memory is None or len(memory) < size):
        try:
            size += -size % (1 << 20)
            os.posix_fallocate(5, 0, size)  # a page that is not there would be a signal later
            memory = mmap.mmap(5, size)
            memory.madvise(mmap.MADV_DONTFORK)  # a forked process that goes on here must not write there
        except (OSError, ValueError, AttributeError):
            shares = False
    return shares


def place(shape, dtype):
    """Returns the array for the first tensor of a result, which the next result overwrites. A large one is in shared memory."""
    global placed
    if placed is None or placed.shape != shape or placed.dtype != dtype:
        size = math.prod(shape) * dtype.itemsize
        placed = sys.modules["numpy"].ndarray(shape, dtype, memory if LARGE < size < limit and share(size) else None)
    return placed


@functools.lru_cache(1)  # the next step is as the last one
def layout(kind, text, sizes):
    """Returns the beginning of a frame, and where its tensors lie: in which memory, None for behind the beginning, and from where on."""
    text += b" " * fill(4 + len(text))
    begin = at = 9 + len(text)
    places = []
    for n in sizes:
        places.append(at)
        at += n + fill(n)
    size = at - 4
    if kind == RESULT and size > limit:
        raise TooLarge(size)
    room = head = bytearray(at if at <= LARGE else begin)
    if at > LARGE:
        room = None
        if kind == RESULT and at > begin and share(at - begin):
            kind, size, room, places = SHARED, begin - 4, memory, [p - begin for p in places]
    struct.pack_into("<IBI", head, 0, size, kind, len(text))
    head[9:begin] = text
    return memoryview(head), room and memoryview(room), places


def send(kind, text):
    head, _, _ = layout.__wrapped__(kind, text, ())
    with sending:
        write([head])


def write(parts):
    """Writes bytes to descriptor 4, without a copy of them."""
    while parts:
        try:
            n = os.writev(4, parts[:512])  # it takes 1024 at most
        except OSError as e:  # such as EFAULT, of a mapped file that was cut: what came next would be the rest of this frame
            raise SystemExit(f"a frame could not be written: {e}") from None
        while parts and n >= len(parts[0]):
            n -= len(parts.pop(0))
        if n:
            parts[0] = parts[0][n:]


def doing():
    """Returns what the main thread does: the import of the script that it is in, or the line of the script."""
    what, where = "", ""
    frame = sys._current_frames().get(threading.main_thread().ident)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_find_and_load" and code.co_filename == "<frozen importlib._bootstrap>":
            what = f"importing {frame.f_locals['name']}"
        elif not where and code.co_filename == "script.py":
            where = f"script.py, line {frame.f_lineno}, in {code.co_name}"
        frame = frame.f_back
    return (what or where)[:200]


def beat(every):
    """Sends signs of life while a call runs. Those of a start come each second, and say what it does."""
    while starting or every:
        time.sleep(min(every or 1, 1) if starting else every)
        if working:
            send(BEAT, encode({"doing": doing() if starting else ""}).encode())


@functools.lru_cache(1)  # the header of the next step is that of the last one
def parse(text, numpy):
    """Returns the header of a call, and of its tensors name, type, shape, number of elements, and where they begin and end."""
    header, at, tensors = json.loads(text.decode()), 4 + len(text), []
    for d in header.get("tensors") or ():
        code, shape = FORMATS[d["dtype"]], tuple(d["shape"] or ())
        count = math.prod(shape)
        at += fill(at)
        end = at + count * struct.calcsize(code)
        tensors.append((d["name"], numpy.dtype(d["dtype"]) if numpy else code, shape, count, at, end))
        at = end
    return header, tensors


@functools.lru_cache(1)
def describe(described):
    return encode({"tensors": [dict(zip(("name", "dtype", "shape"), d)) for d in described]}).encode()


def receive():
    """Returns the header and the tensors of the next call, None at the end."""
    head = frames.read(5)
    if len(head) < 5:
        return None
    body = bytearray(int.from_bytes(head[:4], "little") - 1)
    if frames.readinto(body) < len(body):
        return None
    numpy, view, tensors = sys.modules.get("numpy"), memoryview(body), {}
    header, described = parse(bytes(view[4:4 + int.from_bytes(view[:4], "little")]), numpy)
    if header.get("values") and any(v is not None for v in header["values"].values()):
        parse.cache_clear()  # the method may change them
    for name, dtype, shape, count, at, end in described:
        if numpy is not None:
            tensors[name] = numpy.ndarray(shape, dtype, body, at)
        else:
            tensors[name] = view[at:end].cast(dtype, shape) if count else view[at:end].cast(dtype)
    return header, tensors


def plain(v, what):
    """Returns an array of another library, such as torch, jax or pandas, as one of numpy, and other values as they are. what() names it in an error."""
    numpy = sys.modules.get("numpy")
    if numpy is None or isinstance(v, numpy.generic):
        return v
    if isinstance(v, numpy.ndarray):
        if isinstance(v, numpy.ma.MaskedArray):
            raise TypeError(f"{what()} is a masked array: fill it, or send the mask beside it")
        return numpy.asarray(v)  # a matrix, for one, has two dimensions whatever it is asked for
    try:
        if hasattr(v, "detach"):  # of torch
            return v.detach().cpu().numpy()
        if hasattr(v, "__array__"):
            return numpy.asarray(v)
        return numpy.from_dlpack(v) if hasattr(v, "__dlpack__") else v
    except (TypeError, ValueError, RuntimeError) as e:
        raise TypeError(f"{what()} is a {type(v).__module__}.{type(v).__name__} of {getattr(v, 'dtype', 'no dtype')}, and no array of numpy: {e}") from None


def tensor(v, what):
    """Returns dtype, shape and the memory of an array, None for another value."""
    numpy = sys.modules.get("numpy")
    if numpy is None or type(v) is not numpy.ndarray:
        v = plain(v, what)
    if numpy is not None and isinstance(v, numpy.ndarray):
        dtype = NUMPY.get(v.dtype.str)
        if dtype is None:
            raise TypeError(f"{what()} is an array of {v.dtype}: elements are of {', '.join(FORMATS)}, little-endian")
        large = v.nbytes > 16 << 10 and v.flags.c_contiguous
        return dtype, v.shape, v.reshape(-1).view("u1").data if large else v.tobytes()
    if isinstance(v, (array.array, bytes, bytearray, memoryview)):
        v = memoryview(v)
        dtype = DTYPES.get((v.format, v.itemsize))
        if dtype is None:
            raise TypeError(f"{what()} has elements of format {v.format!r}: use {', '.join(FORMATS)}")
        return dtype, v.shape, v.tobytes()
    return None


def answer(method, result):
    if result is None:
        result = {}
    if not isinstance(result, dict):
        raise TypeError(f"{method} returned {type(result).__name__}: return a dict, whose keys are the fields of the result")
    values, described, data, written = {}, [], [], False
    for name, v in result.items():
        t = tensor(v, lambda: f"{name!r} in the result of {method}")
        if t is None:
            values[name] = v.item() if hasattr(v, "item") else v
        elif not t[1]:  # a scalar in an array
            values[name] = v.item()
        else:
            described.append((name, t[0], t[1]))
            written = written or not data and v is placed and v.base is not None
            data.append(t[2])
    text = describe(tuple(described))
    if values:
        values = encode(values)
        try:
            text = text[:-1] + b', "values": ' + values.encode() + b"}"
        except UnicodeEncodeError as e:
            near = values[max(e.start - 40, 0):e.start + 20]
            raise ValueError(f"{method} returned text that is no UTF-8, near {near!a}: return bytes") from None
    head, room, places = (layout.__wrapped__ if values else layout)(RESULT, text, tuple(map(len, data)))
    if room is None:
        with sending:
            write([head] + [memoryview(p) for d in data for p in (d, bytes(fill(len(d)))) if len(p)])
        return
    for at, d in zip(places, data):
        if at or not written:
            room[at:at + len(d)] = d
    with sending:
        write([head])


def shown(make):
    """Returns the text that make returns, or why there is none. The middle of a long one is left out."""
    try:
        text = str.encode(make(), "utf-8", "backslashreplace")
    except BaseException as e:
        return f"<no text: {type(e).__name__}>"
    if len(text) > MAX_TEXT:
        half = MAX_TEXT // 2 - 50
        text = b"%s\n... %d bytes are left out ...\n%s" % (text[:half], len(text) - 2 * half, text[-half:])
    return text.decode("utf-8", "ignore")


def fail(e):
    tb = e.__traceback__
    while tb is not None and tb.tb_next is not None and tb.tb_frame.f_code.co_filename in ("worker.py", "vectors.py"):
        tb = tb.tb_next
    trace = shown(lambda: "".join(traceback.format_exception(type(e), e, tb)))
    f = {"type": type(e).__name__[:200], "message": shown(lambda: str(e)), "traceback": trace}
    if isinstance(e, TooLarge):
        f["large"] = e.args[0]
    if hasattr(e, "raysys_env"):
        f["env"], f["shape"] = e.raysys_env, getattr(e, "raysys_shape", False)
    send(FAILURE, encode({"failure": f}).encode())


def target(start):
    """Makes the object whose methods are called."""
    random.seed(start["seed"])
    module = None
    if start["script"]:
        exec(SCRIPT, {"code": SCRIPT, "source": start["script"]})
        module = types.ModuleType("script")
        module.__file__ = "script.py"
        sys.modules["script"] = module
        linecache.cache["script.py"] = (len(start["script"]), None, start["script"].splitlines(True), "script.py")
        exec(compile(start["script"], "script.py", "exec"), module.__dict__)
    make, args = module, start["args"] or {}
    vectors = types.ModuleType("vectors")
    if start["envs"]:
        exec(compile(start["vectors"], "vectors.py", "exec"), vectors.__dict__)
    if start["gym"]:
        make = vectors.gym_maker(start, args)
    elif start["new"]:
        where, _, name = start["new"].rpartition(":")
        new = getattr(importlib.import_module(where) if where else module, name)
        make = lambda: new(**args)
        try:
            if "seed" in inspect.signature(new).parameters and not start["envs"]:
                args.setdefault("seed", start["seed"])
        except (TypeError, ValueError):
            pass  # it has no signature
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(start["seed"])
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(start["seed"])
    if start["envs"]:
        return vectors.vector(start, make, plain, place)
    return make() if callable(make) else make


def main():
    global working, starting, limit, shares
    for fd in 3, 4:
        os.set_inheritable(fd, False)
    os.register_at_fork(after_in_child=detach)
    called = None
    while (call := receive()) is not None:
        working = True
        try:
            header, tensors = call
            method, values = header.get("method", ""), {**(header.get("values") or {}), **tensors}
            if not method:
                limit, shares = values["max_frame"], values["shared"]
                if shares:
                    os.set_inheritable(5, False)
                threading.Thread(target=beat, args=(values["beat"],), daemon=True).start()
                called = target(values)
                starting = False
                answer("", None)
            else:
                answer(method, getattr(called, method)(**values))
        except SystemExit:
            raise
        except BaseException as e:  # such as asyncio.CancelledError, KeyboardInterrupt
            fail(e)
        working = False


main()
