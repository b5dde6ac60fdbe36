"""PyTorch's .contiguous() of permuted tensors on a GPU, for bench_gpu: asked by lines of text."""
import sys
import time

try:
    import torch
    assert torch.cuda.is_available()
except Exception:  # no PyTorch, or no GPU that it can use
    print("missing", flush=True)
    sys.exit(0)

DTYPES = {"float32": torch.float32, "float64": torch.float64, "float16": torch.float16,
          "int8": torch.int8}
view = None
print("ready", flush=True)
for line in sys.stdin:
    words = line.split()
    if words[0] == "make":
        view = None
        cut = words.index("/")
        shape = [int(w) for w in words[2:cut]]
        numbers = torch.randint(-100, 100, shape, device="cuda", dtype=torch.int8)
        view = numbers.to(DTYPES[words[1]]).permute([int(w) for w in words[cut + 1:]])
        del numbers
        for _ in range(3):
            view.contiguous()
        torch.cuda.synchronize()
        print("made", flush=True)
    else:
        copies = int(words[1])
        for _ in range(2):  # another process may have had the GPU
            view.contiguous()
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        for _ in range(copies):
            view.contiguous()
        torch.cuda.synchronize()
        print((time.perf_counter_ns() - begin) / copies, flush=True)
