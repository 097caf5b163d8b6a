"""Its import takes until a file is there."""
import os
import sys
import time

folder = os.environ["PROCESS_TEST_DIR"]
with open(f"{folder}/{os.getpid()}", "w"):
    pass
print("loading", file=sys.stderr)
while not os.path.exists(f"{folder}/go"):
    time.sleep(0.01)
