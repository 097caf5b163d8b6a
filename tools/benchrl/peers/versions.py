"""The versions of Python and of the packages that are its arguments; it fails where one is missing, and says which."""

import importlib.metadata
import platform
import sys

print("Python", platform.python_version())
missing = []
for name in sys.argv[1:]:
    try:
        print(name, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        missing.append(name)
if missing:
    sys.exit("this Python lacks " + ", ".join(missing))
