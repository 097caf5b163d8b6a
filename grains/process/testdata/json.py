raise ImportError("a file in the working directory has taken the place of Python's own")
