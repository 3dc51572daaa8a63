"""Functions as ONNX files, for ONNX Runtime: what a workload computes, written node by node.

    python3 bench/peers/onnx_file.py FILE THREADS    loads a file and calls it once, with ones: prints the seconds since
                                                     its modules were there, and the first element of the result
"""
import sys
import time


class Value:
    """What an operation gives, by its name in the file."""

    def __init__(self, ops, name):
        self.ops, self.name = ops, name

    def __add__(self, other):
        return self.ops.node("Add", self, other)

    def __mul__(self, other):
        return self.ops.node("Mul", self, other)

    def __matmul__(self, other):
        return self.ops.node("MatMul", self, other)


class OnnxOps:
    def __init__(self):
        self.nodes, self.constants = [], []

    def value(self, x):
        if isinstance(x, Value):
            return x
        import numpy as np
        import onnx.numpy_helper
        name = f"constant{len(self.constants)}"
        self.constants.append(onnx.numpy_helper.from_array(np.asarray(x, np.float32), name))
        return Value(self, name)

    def node(self, kind, *inputs, **attributes):
        import onnx.helper
        result = Value(self, f"value{len(self.nodes)}")
        self.nodes.append(onnx.helper.make_node(kind, [self.value(x).name for x in inputs], [result.name], **attributes))
        return result

    def relu(self, x):
        return self.node("Relu", x)

    def softmax(self, x):
        return self.node("Softmax", x, axis=-1)

    def permute(self, x, axes):
        return self.node("Transpose", x, perm=list(axes))


def write(function, shapes, result_shape, path):
    """`function(ops, *values)` of inputs in f32 called input0, input1, ... to one called output."""
    import onnx.helper
    ops = OnnxOps()
    result = function(ops, *[Value(ops, f"input{i}") for i in range(len(shapes))])
    ops.nodes.append(onnx.helper.make_node("Identity", [result.name], ["output"]))

    def info(name, shape):
        return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    graph = onnx.helper.make_graph(ops.nodes, "function", [info(f"input{i}", shape) for i, shape in enumerate(shapes)],
                                   [info("output", result_shape)], ops.constants)
    # Of versions that runtimes of some years read.
    onnx.save(onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 17)]), path)


def session(path, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def main():
    import numpy as np
    import onnxruntime # noqa: F401
    begin = time.perf_counter()
    loaded = session(sys.argv[1], int(sys.argv[2]))
    result = loaded.run(None, {x.name: np.ones(x.shape, np.float32) for x in loaded.get_inputs()})[0]
    first = result.flat[0]
    print(time.perf_counter() - begin, first)


if __name__ == "__main__":
    main()
