"""A tiny decoder of a language model: one token after the other, with a cache of keys and values.

    ./dev python examples/python/decoder.py [TOKENS]

Every layer has a lifetime of its own (rt.boundary): its intermediates are recycled as the layer is complete, however
many tokens are made. The weights are random, so the text is nonsense; a plain NumPy program makes the same one.
"""

import sys

import numpy as np

import pto

LAYERS, WIDTH, HEADS, VOCABULARY, LONGEST = 4, 64, 4, 100, 256
HEAD = WIDTH // HEADS


@pto.kernel
def norm(x: pto.In[np.ndarray], y: pto.Out[np.ndarray]):
    np.multiply(x, 1 / np.sqrt(np.mean(x * x) + 1e-6), out=y)


@pto.kernel
def matvec(w: pto.In[np.ndarray], x: pto.In[np.ndarray], y: pto.Out[np.ndarray]):
    np.dot(w, x, out=y)


@pto.kernel
def add_matvec(w: pto.In[np.ndarray], x: pto.In[np.ndarray], y: pto.InOut[np.ndarray]):
    y += w @ x


@pto.kernel
def attend(q: pto.In[np.ndarray], keys: pto.In[np.ndarray], values: pto.In[np.ndarray], y: pto.Out[np.ndarray]):
    scores = keys @ q / np.sqrt(HEAD)
    scores = np.exp(scores - scores.max())
    np.dot(scores / scores.sum(), values, out=y)


@pto.kernel
def swish(x: pto.InOut[np.ndarray]):
    x /= 1 + np.exp(-x)


@pto.kernel
def embed(table: pto.In[np.ndarray], token: int, x: pto.Out[np.ndarray]):
    x[...] = table[token]


def model(seed=1):
    rng = np.random.default_rng(seed)

    def matrix(*shape):
        return rng.normal(0, shape[-1] ** -.5, shape)

    layers = [{"q": matrix(WIDTH, WIDTH), "k": matrix(WIDTH, WIDTH), "v": matrix(WIDTH, WIDTH), "o": matrix(WIDTH, WIDTH),
               "up": matrix(4 * WIDTH, WIDTH), "down": matrix(WIDTH, 4 * WIDTH),
               "keys": np.zeros((LONGEST, WIDTH)), "values": np.zeros((LONGEST, WIDTH))} for _ in range(LAYERS)]
    return layers, matrix(VOCABULARY, WIDTH)


def next_token(rt, layers, table, token, at):
    x = rt.temp(WIDTH)
    rt.submit(embed, table, token, x)
    for l in layers:
        with rt.boundary():
            h, q, mixed, wide = rt.temp(WIDTH), rt.temp(WIDTH), rt.empty(WIDTH), rt.temp(4 * WIDTH)
            rt.submit(norm, x, h)
            rt.submit(matvec, l["q"], h, q)                       # these three run in parallel
            rt.submit(matvec, l["k"], h, l["keys"][at])           # a row of the cache
            rt.submit(matvec, l["v"], h, l["values"][at])
            for head in range(HEADS):                             # and so do the heads
                part = slice(head * HEAD, (head + 1) * HEAD)
                rt.submit(attend, q[part], l["keys"][:at + 1, part], l["values"][:at + 1, part], mixed[part])
            rt.submit(add_matvec, l["o"], mixed, x)
            h2 = rt.temp(WIDTH)
            rt.submit(norm, x, h2)
            rt.submit(matvec, l["up"], h2, wide)
            rt.submit(swish, wide)
            rt.submit(add_matvec, l["down"], wide, x)
    logits = rt.temp(VOCABULARY)
    rt.submit(matvec, table, x, logits)
    return int(rt.read(logits).argmax())                          # control flow may depend on data


def decode(rt, tokens):
    layers, table = model()
    text = [1]
    for at in range(tokens):
        with rt.boundary():
            text.append(next_token(rt, layers, table, text[-1], at))
    return text


class Serial:
    """The same program without a runtime: each kernel is called at once."""

    def submit(self, kernel, *args):
        kernel(*args)

    def temp(self, shape):
        return np.zeros(shape)

    empty = temp

    def read(self, x):
        return x

    def boundary(self):
        import contextlib
        return contextlib.nullcontext()


if __name__ == "__main__":
    tokens = int(sys.argv[1]) if len(sys.argv) > 1 else 32
    with pto.Runtime() as rt:
        text = decode(rt, tokens)
        submitted = rt.stats()["submitted"]
    right = text == decode(Serial(), tokens)
    print(f"{submitted} tasks: {text[:12]} ... {'as the serial program' if right else 'WRONG'}")
    sys.exit(not right)
