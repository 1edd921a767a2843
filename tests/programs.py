"""Training programs as people publish them, small: what the tests of whole steps train and the benchmarks time.

``PROGRAMS[name](T)`` gives a ``Program``: the step, its batches (the last one smaller) and what it trains. The programs
use PyTorch's names only, so that ``T`` may be fusegrad or torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


class Program:
    """``step(*batch)`` is one training step; ``state()`` everything that it leaves behind, as plain data."""

    def __init__(self, step: Callable[..., Any], batches: list[tuple], modules: list[Any], opt: Any, sched: Any = None):
        self.step, self.batches, self.modules, self.opt, self.sched = step, batches, modules, opt, sched

    def parameters(self) -> list[Any]:
        return [p for m in self.modules for p in m.parameters()]

    def state(self) -> dict[str, Any]:
        out: dict[str, Any] = {"modules": [_plain(m.state_dict()) for m in self.modules]}
        out["optimizer"] = _plain(self.opt.state_dict())
        out["gradients"] = [None if p.grad is None else _plain(p.grad) for p in self.parameters()]
        if self.sched is not None:
            out["scheduler"] = {k: _plain(v) for k, v in self.sched.state_dict().items() if not callable(v)}
        return out


def _plain(v: Any) -> Any:
    if hasattr(v, "detach"):
        return (str(v.dtype), np.array(v.detach().numpy()))
    if isinstance(v, dict):
        return {k: _plain(x) for k, x in v.items()}
    return [_plain(x) for x in v] if isinstance(v, (list, tuple)) else v


def _arrays(T: Any, seed: int, *shapes: tuple, scale: float = 1.0) -> tuple:
    rng = np.random.default_rng(seed)
    return tuple(T.from_numpy((rng.standard_normal(s) * scale).astype(np.float32)) for s in shapes)


def _classes(T: Any, seed: int, n: int, shape: tuple) -> Any:
    return T.from_numpy(np.random.default_rng(seed).integers(0, n, shape))


# ---- a GPT


def gpt(T: Any, layers: int = 2, width: int = 16, heads: int = 2, vocab: int = 11, length: int = 6, batch: int = 4,
        dropout: float = 0.1) -> Program:  # fmt: skip
    """Decoder-only transformer: AdamW in two groups, clipping, a trainer that counts its steps."""
    nn, F = T.nn, T.nn.functional

    class SelfAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.attn_dropout, self.resid_dropout = nn.Dropout(dropout), nn.Dropout(dropout)
            self.register_buffer("mask", T.tril(T.ones(length, length)).view(1, 1, length, length))
            self.n_head = heads

        def forward(self, x):
            b, t, c = x.size()
            q, k, v = self.c_attn(x).split(c, dim=2)
            k = k.view(b, t, self.n_head, c // self.n_head).transpose(1, 2)
            q = q.view(b, t, self.n_head, c // self.n_head).transpose(1, 2)
            v = v.view(b, t, self.n_head, c // self.n_head).transpose(1, 2)
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
            att = self.attn_dropout(F.softmax(att, dim=-1))
            y = (att @ v).transpose(1, 2).contiguous().view(b, t, c)
            return self.resid_dropout(self.c_proj(y))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(width), SelfAttention(), nn.LayerNorm(width)
            self.mlp = nn.ModuleDict(
                {"c_fc": nn.Linear(width, 4 * width), "c_proj": nn.Linear(4 * width, width), "act": nn.GELU(),
                 "dropout": nn.Dropout(dropout)}
            )  # fmt: skip
            m = self.mlp
            self.mlpf = lambda x: m.dropout(m.c_proj(m.act(m.c_fc(x))))

        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            return x + self.mlpf(self.ln_2(x))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.block_size = length
            self.transformer = nn.ModuleDict(
                {"wte": nn.Embedding(vocab, width), "wpe": nn.Embedding(length, width), "drop": nn.Dropout(dropout),
                 "h": nn.ModuleList([Block() for _ in range(layers)]), "ln_f": nn.LayerNorm(width)}
            )  # fmt: skip
            self.lm_head = nn.Linear(width, vocab, bias=False)
            self.apply(self._init_weights)

        def _init_weights(self, module):
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, mean=0.0, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

        def forward(self, idx, targets=None):
            b, t = idx.size()
            assert t <= self.block_size, f"Cannot forward a sequence of length {t}: the limit is {self.block_size}"
            pos = T.arange(0, t, dtype=T.long).unsqueeze(0)
            x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
            for block in self.transformer.h:
                x = block(x)
            logits = self.lm_head(self.transformer.ln_f(x))
            loss = None
            if targets is not None:
                loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
            return logits, loss

    T.manual_seed(3)
    model = GPT()
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    opt = T.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95))

    class Trainer:
        def __init__(self):
            self.iter_num = 0

        def step(self, x, y):
            logits, loss = model(x, y)
            model.zero_grad(set_to_none=True)
            loss.backward()
            T.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            self.iter_num += 1
            return loss.detach()

    sizes = [batch] * 5 + [batch - 1] * 2
    batches = [
        (_classes(T, k, vocab, (n, length)), _classes(T, k + 50, vocab, (n, length))) for k, n in enumerate(sizes)
    ]
    return Program(Trainer().step, batches, [model], opt)


# ---- a ResNet


def resnet(T: Any, blocks: tuple = (1, 1), width: int = 4, batch: int = 4, size: int = 8) -> Program:
    """Residual blocks with batch norm: SGD with Nesterov momentum and a cosine schedule that steps inside."""
    nn, F = T.nn, T.nn.functional

    class BasicBlock(nn.Module):
        expansion = 1

        def __init__(self, in_planes, planes, stride=1):
            super().__init__()
            self.conv1 = nn.Conv2d(in_planes, planes, 3, stride=stride, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(planes)
            self.conv2 = nn.Conv2d(planes, planes, 3, stride=1, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(planes)
            self.shortcut = nn.Sequential()
            if stride != 1 or in_planes != self.expansion * planes:
                self.shortcut = nn.Sequential(
                    nn.Conv2d(in_planes, self.expansion * planes, 1, stride=stride, bias=False),
                    nn.BatchNorm2d(self.expansion * planes),
                )

        def forward(self, x):
            out = F.relu(self.bn1(self.conv1(x)))
            out = self.bn2(self.conv2(out))
            out += self.shortcut(x)
            return F.relu(out)

    class ResNet(nn.Module):
        def __init__(self, num_classes=10):
            super().__init__()
            self.in_planes = width
            self.conv1 = nn.Conv2d(3, width, 3, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.layers = nn.ModuleList(
                [self._make_layer(width << k, n, 1 if k == 0 else 2) for k, n in enumerate(blocks)]
            )
            self.linear = nn.Linear(width << (len(blocks) - 1), num_classes)

        def _make_layer(self, planes, num_blocks, stride):
            layers = []
            for s in [stride] + [1] * (num_blocks - 1):
                layers.append(BasicBlock(self.in_planes, planes, s))
                self.in_planes = planes * BasicBlock.expansion
            return nn.Sequential(*layers)

        def forward(self, x):
            out = F.relu(self.bn1(self.conv1(x)))
            for layer in self.layers:
                out = layer(out)
            out = F.adaptive_avg_pool2d(out, 1)
            return self.linear(T.flatten(out, 1))

    T.manual_seed(4)
    model, criterion = ResNet(), nn.CrossEntropyLoss(label_smoothing=0.1)
    opt = T.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    sched = T.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=50)

    def step(images, labels):
        model.train()
        opt.zero_grad()
        outputs = model(images)
        loss = criterion(outputs, labels)
        loss.backward()
        opt.step()
        sched.step()
        correct = outputs.argmax(1).eq(labels).sum()
        return loss.detach(), correct

    sizes = [batch] * 5 + [batch - 1] * 2
    batches = [(*_arrays(T, k, (n, 3, size, size)), _classes(T, k, 10, (n,))) for k, n in enumerate(sizes)]
    return Program(step, batches, [model], opt, sched)


# ---- recurrent


def lstm(T: Any, length: int = 5, width: int = 6, batch: int = 4) -> Program:
    """A character model: an LSTMCell in a loop, the state carried from batch to batch, RMSprop."""
    nn, F = T.nn, T.nn.functional
    vocab = 9

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.cell = nn.Embedding(vocab, width), nn.LSTMCell(width, width)
            self.head = nn.Linear(width, vocab)

        def forward(self, tokens, state=None):
            outputs = []
            for t in range(tokens.size(1)):
                state = self.cell(self.embed(tokens[:, t]), state)
                outputs.append(self.head(state[0]))
            return T.stack(outputs, dim=1), state

    T.manual_seed(5)
    model = Model()
    opt = T.optim.RMSprop(model.parameters(), lr=1e-2)

    def step(tokens, targets):
        opt.zero_grad()
        logits, _ = model(tokens)
        loss = F.cross_entropy(logits.reshape(-1, vocab), targets.reshape(-1))
        loss.backward()
        T.nn.utils.clip_grad_value_(model.parameters(), 0.5)
        opt.step()
        return loss.detach()

    sizes = [batch] * 4 + [batch - 2] * 2
    batches = [
        (_classes(T, k, vocab, (n, length)), _classes(T, k + 9, vocab, (n, length))) for k, n in enumerate(sizes)
    ]
    return Program(step, batches, [model], opt)


# ---- a variational autoencoder


def vae(T: Any, pixels: int = 12, hidden: int = 8, latent: int = 3, batch: int = 5) -> Program:
    """Encoder, sampling, decoder; the KL weight grows during training; Adam and ExponentialLR."""
    nn, F = T.nn, T.nn.functional

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc21, self.fc22 = (
                nn.Linear(pixels, hidden), nn.Linear(hidden, latent), nn.Linear(hidden, latent),
            )  # fmt: skip
            self.fc3, self.fc4 = nn.Linear(latent, hidden), nn.Linear(hidden, pixels)

        def encode(self, x):
            h1 = F.relu(self.fc1(x))
            return self.fc21(h1), self.fc22(h1)

        def reparameterize(self, mu, logvar):
            std = T.exp(0.5 * logvar)
            eps = T.randn_like(std)
            return mu + eps * std

        def decode(self, z):
            return T.sigmoid(self.fc4(F.relu(self.fc3(z))))

        def forward(self, x):
            mu, logvar = self.encode(x.view(-1, pixels))
            return self.decode(self.reparameterize(mu, logvar)), mu, logvar

    T.manual_seed(6)
    model = VAE()
    opt = T.optim.Adam(model.parameters(), lr=1e-2)
    sched = T.optim.lr_scheduler.ExponentialLR(opt, 0.97)
    counter = {"steps": 0}

    def step(data):
        opt.zero_grad()
        recon, mu, logvar = model(data)
        bce = F.binary_cross_entropy(recon, data, reduction="sum")
        kld = -0.5 * T.sum(1 + logvar - mu.pow(2) - logvar.exp())
        loss = bce + min(1.0, 0.1 + 0.01 * counter["steps"]) * kld
        loss.backward()
        opt.step()
        sched.step()
        counter["steps"] += 1
        return loss.detach()

    sizes = [batch] * 5 + [batch - 1] * 2
    batches = [(_arrays(T, k, (n, pixels))[0].sigmoid(),) for k, n in enumerate(sizes)]
    return Program(step, batches, [model], opt, sched)


# ---- physics


def pinn(T: Any, width: int = 8, points: int = 7) -> Program:
    """u'' + u = 0 by a network: two derivatives inside of the loss."""
    nn = T.nn
    T.manual_seed(7)
    model = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
    opt = T.optim.Adam(model.parameters(), lr=1e-2)

    def residual(x):
        u = model(x)
        u_x = T.autograd.grad(u, x, grad_outputs=T.ones_like(u), create_graph=True)[0]
        u_xx = T.autograd.grad(u_x, x, grad_outputs=T.ones_like(u_x), create_graph=True)[0]
        return u_xx + u

    def step(x):
        opt.zero_grad()
        x = x.clone().requires_grad_(True)
        inside = (residual(x) ** 2).mean()
        edge = (model(T.zeros(1, 1)) - 1.0).pow(2).sum()
        loss = inside + 10.0 * edge
        loss.backward()
        opt.step()
        return loss.detach(), inside.detach()

    sizes = [points] * 4 + [points - 3] * 2
    return Program(step, [_arrays(T, k, (n, 1)) for k, n in enumerate(sizes)], [model], opt)


# ---- learning to learn


def maml(T: Any, tasks: int = 2, shots: int = 5, inner: int = 2) -> Program:
    """Sine regression: gradient steps on functional parameters, differentiated through."""
    nn, F = T.nn, T.nn.functional
    T.manual_seed(8)
    model = nn.Sequential(nn.Linear(1, 6), nn.ReLU(), nn.Linear(6, 1))
    opt = T.optim.Adam(model.parameters(), lr=1e-2)

    def apply(weights, x):
        return F.linear(F.relu(F.linear(x, weights[0], weights[1])), weights[2], weights[3])

    def step(xs, ys, xq, yq):
        meta = 0.0
        for k in range(xs.shape[0]):
            weights = list(model.parameters())
            for _ in range(inner):
                loss = F.mse_loss(apply(weights, xs[k]), ys[k])
                grads = T.autograd.grad(loss, weights, create_graph=True)
                weights = [w - 0.1 * g for w, g in zip(weights, grads)]  # noqa: B905
            meta = meta + F.mse_loss(apply(weights, xq[k]), yq[k])
        opt.zero_grad()
        meta.backward()
        opt.step()
        return meta.detach()

    def batch(seed, n):
        x, q, phase = _arrays(T, seed, (tasks, n, 1), (tasks, n, 1), (tasks, 1, 1))
        return x, T.sin(x + phase), q, T.sin(q + phase)

    return Program(step, [batch(k, n) for k, n in enumerate([shots] * 4 + [shots - 2] * 2)], [model], opt)


PROGRAMS: dict[str, Callable[..., Program]] = {
    "gpt": gpt, "resnet": resnet, "lstm": lstm, "vae": vae, "pinn": pinn, "maml": maml,
}  # fmt: skip
