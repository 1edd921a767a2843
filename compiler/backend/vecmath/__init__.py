def expand(roots):
    return list(roots)
