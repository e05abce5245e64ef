"""The CUDA driver's functions in Python, which note the launches that the compiled core makes: one by one, and as graphs."""

import ctypes

from phased.ops.native import core

POINTER, SIZE = ctypes.c_void_p, ctypes.c_size_t
START = ctypes.CFUNCTYPE(ctypes.c_int, POINTER, *[ctypes.c_uint] * 7, *[POINTER] * 3)


def unpacked(packed):
    """The arguments that the driver is given."""
    one, memory, two, size, end = (POINTER * 5).from_address(packed if isinstance(packed, int) else ctypes.addressof(packed))
    assert (one, two, end) == (1, 2, None)
    return ctypes.string_at(memory, SIZE.from_address(size).value)


class Recorder:
    """Notes launches in place of the driver. `statuses`: what it answers, in turn; then 0."""

    def __init__(self):
        self.made, self.statuses = [], []
        self.functions = [START(self.start)]

    @property
    def driver(self):
        return core.Driver([ctypes.cast(function, POINTER).value for function in self.functions])

    def status(self):
        return self.statuses.pop(0) if self.statuses else 0

    def start(self, kernel, x, y, z, block, _y, _z, shared, stream, _parameters, packed):
        status = self.status()
        if not status:
            self.made.append((kernel, (x, y, z), block, shared, stream, unpacked(packed)))
        return status


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = [
        ("function", POINTER),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("pointers", POINTER),
        ("packed", POINTER),
        ("kernel", POINTER),
        ("context", POINTER),
    ]


class GraphRecorder(Recorder):
    """Also notes graphs, whose functions answer with the next status, except those that free. `calls`: which were called."""

    GRAPH, EXECUTABLE = 71, 72
    GLOBAL, RELAXED = 0, 2  # modes of a thread: what it may do while a graph is recorded

    def __init__(self):
        super().__init__()
        self.nodes, self.calls, self.mode = [], [], self.GLOBAL
        out = ctypes.POINTER(POINTER)
        for given in (
            (self.create, out, ctypes.c_uint),
            (self.add, out, POINTER, out, SIZE, ctypes.POINTER(KernelNode)),
            (self.instantiate, out, POINTER, ctypes.c_ulonglong),
            (self.replace, POINTER, POINTER, ctypes.POINTER(KernelNode)),
            (self.start_graph, POINTER, POINTER),
            (self.destroy, POINTER),
            (self.destroy_executable, POINTER),
            (self.exchange_mode, ctypes.POINTER(ctypes.c_int)),
        ):
            function, *arguments = given
            self.functions.append(ctypes.CFUNCTYPE(ctypes.c_int, *arguments)(function))

    def called(self, name, answer=None, handle=None):
        self.calls.append(name)
        status = self.status()
        if answer is not None and not status:
            answer[0] = handle
        return status

    @staticmethod
    def launch_of(node):
        one = node[0]
        assert one.function is one.pointers is one.context is None
        return one.kernel, tuple(one.grid), tuple(one.block), one.shared, unpacked(one.packed)

    def exchange_mode(self, mode):
        self.mode, mode[0] = mode[0], self.mode
        return 0

    def create(self, graph, flags):
        assert flags == 0
        assert self.mode == self.RELAXED
        self.nodes = []
        return self.called("create", graph, self.GRAPH)

    def add(self, node, graph, after, count, launch):
        assert graph == self.GRAPH
        assert [after[i] for i in range(count)] == [100 + len(self.nodes) - 1] * bool(self.nodes)  # one after another
        self.nodes.append(self.launch_of(launch))
        return self.called("add", node, 100 + len(self.nodes) - 1)

    def instantiate(self, executable, graph, flags):
        assert (graph, flags) == (self.GRAPH, 0)
        assert self.mode == self.RELAXED
        return self.called("instantiate", executable, self.EXECUTABLE)

    def replace(self, executable, node, launch):
        assert executable == self.EXECUTABLE
        status = self.called("replace")
        if not status:
            self.nodes[node - 100] = self.launch_of(launch)
        return status

    def start_graph(self, executable, stream):
        assert (executable, self.mode) == (self.EXECUTABLE, self.RELAXED)
        status = self.called("start")
        if not status:
            for kernel, grid, (block, *ones), shared, arguments in self.nodes:
                assert ones == [1, 1]
                self.made.append((kernel, grid, block, shared, stream, arguments))
        return status

    def destroy(self, graph):
        assert (graph, self.mode) == (self.GRAPH, self.RELAXED)
        self.calls.append("destroy")
        return 0

    def destroy_executable(self, executable):
        assert (executable, self.mode) == (self.EXECUTABLE, self.RELAXED)
        self.calls.append("destroy_executable")
        return 0
