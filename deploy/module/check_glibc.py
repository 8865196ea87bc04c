#!/usr/bin/env python3
"""Fails if a library needs a newer C library than a version: check_glibc.py LIBRARY VERSION.

The names of the versions that a library needs are texts in it, such as GLIBC_2.30.
"""

import re
import sys


def main():
    library, limit = sys.argv[1], sys.argv[2]
    with open(library, "rb") as file:
        found = set(re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\0)", file.read()))
    needed = max((int(major), int(minor)) for major, minor in found)
    shown = "{}.{}".format(*needed)
    if needed > tuple(int(part) for part in limit.split(".")):
        sys.exit(f"{library} needs glibc {shown}: more than {limit}")
    print(f"built {library}, for glibc {shown} and later")


main()
