"""Recurrent modules: RNN, LSTM, GRU and their cells."""

from __future__ import annotations

import math
import warnings
from typing import Any

import fusegrad
from fusegrad.nn import functional as F
from fusegrad.nn import init
from fusegrad.nn.module import Module
from fusegrad.nn.parameter import Parameter
from fusegrad.nn.utils.rnn import PackedSequence
from fusegrad.size_values import varies
from fusegrad.tensor import Tensor

_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


def _rnn_step(act: Any, gi: Tensor, h: tuple, w: Tensor, b: Tensor | None) -> tuple:
    return (act(gi + F.linear(h[0], w, b)),)


def _lstm_step(gi: Tensor, state: tuple, w: Tensor, b: Tensor | None, project: Tensor | None = None) -> tuple:
    h, c = state
    i, f, g, o = (gi + F.linear(h, w, b)).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    return (h if project is None else F.linear(h, project)), c


def _gru_step(gi: Tensor, state: tuple, w: Tensor, b: Tensor | None) -> tuple:
    h = state[0]
    ir, iz, inew = gi.chunk(3, -1)
    hr, hz, hnew = F.linear(h, w, b).chunk(3, -1)
    z = (iz + hz).sigmoid()
    new = (inew + (ir + hr).sigmoid() * hnew).tanh()
    return (new + z * (h - new),)


def _with_output(state: tuple) -> tuple:
    return state, state[0].clone()


class RNNBase(Module):
    """Parameters, checks and the loop over layers, directions and time."""

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        _check_settings(input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        directions = 2 if bidirectional else 1
        gates, out = _GATES[mode] * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            for direction in range(directions):
                end = f"_l{layer}" + ("_reverse" if direction else "")
                width = input_size if layer == 0 else out * directions
                shapes = [("weight_ih", (gates, width)), ("weight_hh", (gates, out))]
                if bias:
                    shapes += [("bias_ih", (gates,)), ("bias_hh", (gates,))]  # type: ignore[list-item]
                if proj_size:
                    shapes.append(("weight_hr", (proj_size, hidden_size)))
                for name, shape in shapes:
                    setattr(self, name + end, Parameter(fusegrad.empty(shape, dtype=dtype)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """All U(-1/sqrt(hidden_size), 1/sqrt(hidden_size))."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Nothing to do: kept for compatibility."""

    @property
    def all_weights(self) -> list[list[Parameter]]:
        directions = 2 if self.bidirectional else 1
        out = []
        for layer in range(self.num_layers):
            for direction in range(directions):
                end = f"_l{layer}" + ("_reverse" if direction else "")
                out.append([p for name, p in self._parameters.items() if name.endswith(end) and _layer_of(name) == end])
        return out

    def extra_repr(self) -> str:
        s = f"{self.input_size}, {self.hidden_size}"
        if self.proj_size != 0:
            s += f", proj_size={self.proj_size}"
        if self.num_layers != 1:
            s += f", num_layers={self.num_layers}"
        if self.bias is not True:
            s += f", bias={self.bias}"
        if self.batch_first is not False:
            s += f", batch_first={self.batch_first}"
        if self.dropout != 0:
            s += f", dropout={self.dropout}"
        if self.bidirectional is not False:
            s += f", bidirectional={self.bidirectional}"
        return s

    # ---- the computation --------------------------------------------------------------------------

    def _step(self, end: str) -> Any:
        """The cell of one layer and direction: (gates of the input, state) -> state."""
        w, b = getattr(self, "weight_hh" + end), getattr(self, "bias_hh" + end) if self.bias else None
        if self.mode == "LSTM":
            project = getattr(self, "weight_hr" + end) if self.proj_size else None
            return lambda gi, state: _lstm_step(gi, state, w, b, project)
        if self.mode == "GRU":
            return lambda gi, state: _gru_step(gi, state, w, b)
        act = fusegrad.relu if self.mode == "RNN_RELU" else fusegrad.tanh
        return lambda gi, state: _rnn_step(act, gi, state, w, b)

    def _direction(self, x: Tensor, end: str, state: tuple, sizes: list[int] | None, reverse: bool) -> tuple:
        """One layer in one direction: x is (T, N, *), or packed steps with `sizes`."""
        step = self._step(end)
        gates = F.linear(x, getattr(self, "weight_ih" + end), getattr(self, "bias_ih" + end) if self.bias else None)
        if sizes is not None:
            return _packed_loop(gates, step, state, sizes, reverse)
        if varies(gates.shape[0]):  # exported for any number of steps
            last, out = fusegrad.control.scan(lambda s, gi: _with_output(step(gi, s)), state, gates, reverse=reverse)
            return out, last
        steps = gates.unbind(0)
        outs = []
        for gi in reversed(steps) if reverse else steps:
            state = step(gi, state)
            outs.append(state[0])
        if reverse:
            outs.reverse()
        return fusegrad.stack(outs), state

    def _run(self, x: Tensor, states: tuple, sizes: list[int] | None) -> tuple[Tensor, tuple]:
        directions = 2 if self.bidirectional else 1
        finals: list[tuple] = []
        for layer in range(self.num_layers):
            outs = []
            for direction in range(directions):
                end = f"_l{layer}" + ("_reverse" if direction else "")
                start = tuple(s[layer * directions + direction] for s in states)
                out, final = self._direction(x, end, start, sizes, bool(direction))
                outs.append(out)
                finals.append(final)
            x = outs[0] if directions == 1 else fusegrad.cat(outs, -1)
            if self.dropout > 0 and layer < self.num_layers - 1:
                x = F.dropout(x, self.dropout, self.training)
        return x, tuple(fusegrad.stack(parts) for parts in zip(*finals, strict=False))

    def forward(self, input: Any, hx: Any = None) -> Any:
        """(T, N, *) (or (N, T, *) with batch_first, or without N, or packed) -> (outputs, last states)."""
        packed = isinstance(input, PackedSequence)
        batched, sizes = True, None
        if packed:
            x, batch_sizes, order, back = input
            sizes = batch_sizes.tolist()
            batch = sizes[0]
        else:
            if input.ndim not in (2, 3):
                raise ValueError(
                    f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.ndim}D tensor instead"
                )
            x, order, back = input, None, None
            batched = x.ndim == 3
            if not batched:
                x = x.unsqueeze(1)
            elif self.batch_first:
                x = x.transpose(0, 1)
            batch = x.shape[1]
        if x.dtype is not self.weight_ih_l0.dtype:
            raise ValueError(f"RNN input must have the dtype {self.weight_ih_l0.dtype} of the weights, got {x.dtype}")
        if x.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {x.shape[-1]}"
            )
        states = self._states(x, hx, batch, batched, order)
        out, finals = self._run(x, states, sizes)
        if back is not None:
            finals = tuple(f.index_select(1, back) for f in finals)
        if packed:
            out = PackedSequence(out, batch_sizes, order, back)
        elif not batched:
            out, finals = out.squeeze(1), tuple(f.squeeze(1) for f in finals)
        elif self.batch_first:
            out = out.transpose(0, 1)
        return out, (finals if self.mode == "LSTM" else finals[0])

    def _states(self, x: Tensor, hx: Any, batch: int, batched: bool, order: Tensor | None) -> tuple:
        """The initial states, each (layers * directions, N, width)."""
        rows = self.num_layers * (2 if self.bidirectional else 1)
        widths = [self.proj_size or self.hidden_size]
        if self.mode == "LSTM":
            widths.append(self.hidden_size)
        if hx is None:
            return tuple(fusegrad.zeros((rows, batch, w), dtype=x.dtype) for w in widths)
        states = tuple(hx) if self.mode == "LSTM" else (hx,)
        wanted = 3 if batched else 2
        for name, s in zip(("hx", "cx"), states, strict=False):
            if s.ndim != wanted:
                kind = "batched 3-D" if batched else "unbatched 2-D"
                raise RuntimeError(f"For {kind} input, {name} should also be {wanted}-D but got {s.ndim}-D tensor")
        if not batched:
            states = tuple(s.unsqueeze(1) for s in states)
        for s, w in zip(states, widths, strict=False):
            if tuple(s.shape) != (rows, batch, w):
                said = "Expected hidden size" if self.mode != "LSTM" else "Expected hidden[0] size"
                raise RuntimeError(f"{said} {(rows, batch, w)}, got {list(s.shape)}")
        return states if order is None else tuple(s.index_select(1, order) for s in states)


def _check_settings(
    input_size: int, hidden_size: int, num_layers: int, bias: bool, batch_first: bool, dropout: float, proj_size: int
) -> None:
    for name, value in (("bias", bias), ("batch_first", batch_first)):
        if not isinstance(value, bool):
            raise TypeError(f"{name} should be of type bool, got: {type(value).__name__}")
    if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        )
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={dropout} and num_layers={num_layers}",
            stacklevel=4,
        )
    for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
        if not isinstance(size, int):
            raise TypeError(f"{name} should be of type int, got: {type(size).__name__}")
        if size <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


def _layer_of(name: str) -> str:
    return name[name.index("_l") :]


def _packed_loop(gates: Tensor, step: Any, state: tuple, sizes: list[int], reverse: bool) -> tuple:
    """The loop over packed steps: in step t only the first sizes[t] sequences take part."""
    offsets = [0]
    for size in sizes:
        offsets.append(offsets[-1] + size)
    outs: list[Any] = [None] * len(sizes)
    for t in reversed(range(len(sizes))) if reverse else range(len(sizes)):
        active = tuple(s[: sizes[t]] for s in state)
        new = step(gates[offsets[t] : offsets[t + 1]], active)
        outs[t] = new[0]
        state = tuple(
            n if n.shape[0] == s.shape[0] else fusegrad.cat([n, s[sizes[t] :]]) for n, s in zip(new, state, strict=True)
        )
    return fusegrad.cat(outs), state


class RNN(RNNBase):
    """Elman network: h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu."""

    def __init__(self, *args: Any, **kwargs: Any):
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            self_nonlinearity, args = args[3], args[:3] + args[4:]
        else:
            self_nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if self_nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{self_nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__("RNN_TANH" if self_nonlinearity == "tanh" else "RNN_RELU", *args, **kwargs)
        self.nonlinearity = self_nonlinearity


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997), optionally projected (Sak et al., 2014)."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__("LSTM", *args, **kwargs)


class GRU(RNNBase):
    """Gated recurrent unit (Cho et al., 2014)."""

    def __init__(self, *args: Any, **kwargs: Any):
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(Module):
    """One step of a recurrent network."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device=None, dtype=None):
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self.weight_ih = Parameter(fusegrad.empty((num_chunks * hidden_size, input_size), dtype=dtype))
        self.weight_hh = Parameter(fusegrad.empty((num_chunks * hidden_size, hidden_size), dtype=dtype))
        if bias:
            self.bias_ih = Parameter(fusegrad.empty(num_chunks * hidden_size, dtype=dtype))
            self.bias_hh = Parameter(fusegrad.empty(num_chunks * hidden_size, dtype=dtype))
        else:
            self.register_parameter("bias_ih", None)
            self.register_parameter("bias_hh", None)
        self.reset_parameters()

    reset_parameters = RNNBase.reset_parameters

    def _prepare(self, input: Tensor, hx: Any, count: int) -> tuple[Tensor, tuple, bool]:
        n = input.ndim
        if n not in (1, 2):
            name = type(self).__name__
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.ndim}D instead")
        states = None if hx is None else (tuple(hx) if count == 2 else (hx,))
        for s in states or ():
            if s.ndim not in (1, 2):
                name = type(self).__name__
                raise ValueError(f"{name}: Expected hidden to be 1D or 2D, got {s.ndim}D instead")
        batched = n == 2
        x = input if batched else input.unsqueeze(0)
        if states is None:
            states = (fusegrad.zeros((x.shape[0], self.hidden_size), dtype=x.dtype),) * count
        elif not batched:
            states = tuple(s.unsqueeze(0) for s in states)
        return F.linear(x, self.weight_ih, self.bias_ih), states, batched

    def extra_repr(self) -> str:
        s = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            s += f", bias={self.bias}"
        return s


class RNNCell(RNNCellBase):
    """One step of an Elman network."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device=None, dtype=None
    ):
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """(N, input_size), (N, hidden_size) -> (N, hidden_size)."""
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        gi, state, batched = self._prepare(input, hx, 1)
        act = fusegrad.tanh if self.nonlinearity == "tanh" else fusegrad.relu
        (h,) = _rnn_step(act, gi, state, self.weight_hh, self.bias_hh)
        return h if batched else h.squeeze(0)

    def extra_repr(self) -> str:
        s = super().extra_repr()
        return s if self.nonlinearity == "tanh" else s + f", nonlinearity={self.nonlinearity}"


class LSTMCell(RNNCellBase):
    """One step of an LSTM."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple | None = None) -> tuple[Tensor, Tensor]:
        """(N, input_size), (h, c) -> (h, c)."""
        gi, state, batched = self._prepare(input, hx, 2)
        h, c = _lstm_step(gi, state, self.weight_hh, self.bias_hh)
        return (h, c) if batched else (h.squeeze(0), c.squeeze(0))


class GRUCell(RNNCellBase):
    """One step of a GRU."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """(N, input_size), (N, hidden_size) -> (N, hidden_size)."""
        gi, state, batched = self._prepare(input, hx, 1)
        (h,) = _gru_step(gi, state, self.weight_hh, self.bias_hh)
        return h if batched else h.squeeze(0)
