"""How much an object holds: the objects that can be reached from it, counted; the same on every machine."""

import gc
from types import FunctionType, ModuleType


def reachable(root, *apart):
    """The objects that can be reached from one object, and not from others.

    Classes, modules and what is global to a function are not gone into: every object of a kind reaches these.
    """
    seen = {}
    for start in (*apart, root):
        before = set(seen)
        stack = [start]
        while stack:
            value = stack.pop()
            if id(value) in seen or isinstance(value, (type, ModuleType)):
                continue
            seen[id(value)] = value
            if isinstance(value, FunctionType):
                stack += [value.__closure__, value.__defaults__, value.__kwdefaults__]
            else:
                stack += gc.get_referents(value)
    return [value for key, value in seen.items() if key not in before]
