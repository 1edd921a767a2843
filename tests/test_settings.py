"""What programs for PyTorch set, ask and import before they begin: backends, devices, mixed precision."""

import importlib
import warnings

import pytest

import fusegrad as torch
from fusegrad import nn


@pytest.mark.parametrize("name", ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"])
def test_backends_are_modules(name):
    module = importlib.import_module(f"fusegrad.backends.{name}")
    assert getattr(torch.backends, name) is module
    if name != "cpu":
        assert module.is_built() is False


def test_switches_of_cudnn_are_kept():
    cudnn = torch.backends.cudnn
    assert cudnn.version() is None and not cudnn.is_available() and not cudnn.deterministic
    with cudnn.flags(enabled=False, deterministic=True):
        assert not cudnn.enabled and cudnn.deterministic
    assert cudnn.enabled and not cudnn.deterministic
    with pytest.raises(TypeError, match="unexpected keyword argument 'fast'"), cudnn.flags(fast=True):
        pass
    torch.backends.cuda.matmul.allow_tf32 = True
    assert torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False


def test_settings_are_kept_and_wrong_ones_refused():
    torch.set_float32_matmul_precision("high")
    assert torch.get_float32_matmul_precision() == "high"
    with pytest.raises(RuntimeError, match="precision"):
        torch.set_float32_matmul_precision("low")
    assert torch.get_float32_matmul_precision() == "high"
    torch.set_float32_matmul_precision("highest")
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.are_deterministic_algorithms_enabled() and torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    assert not torch.are_deterministic_algorithms_enabled()
    torch.set_default_device("cpu")
    assert torch.get_default_device() == torch.device("cpu")
    torch.set_default_tensor_type("torch.DoubleTensor")
    try:
        assert torch.ones(1).dtype is torch.float64
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)
    assert torch.ones(1).dtype is torch.float32
    with pytest.raises(TypeError, match="default type"):
        torch.set_default_tensor_type("torch.LongTensor")
    assert torch.version.cuda is None and torch.version.__version__ == torch.__version__


NO_GPU = {
    "tensor.cuda": lambda: torch.ones(2).cuda(),
    "module.cuda": lambda: nn.Linear(2, 2).cuda(),
    "to": lambda: torch.ones(2).to("cuda"),
    "module.to": lambda: nn.Linear(2, 2).to("cuda:0"),
    "device=": lambda: torch.ones(2, device="cuda"),
    "default device": lambda: torch.set_default_device("cuda"),
    "synchronize": lambda: torch.cuda.synchronize(),
}


@pytest.mark.parametrize("call", NO_GPU.values(), ids=NO_GPU)
def test_gpus_are_refused_with_the_class_of_a_torch_without_cuda(call):
    with pytest.raises(AssertionError, match="no device 'cuda"):
        call()
    with pytest.raises(RuntimeError, match="CPU"):  # what the package raised before
        call()


def test_autocast_is_off_and_says_so():
    with pytest.warns(UserWarning, match="'cuda'.*not available"), torch.autocast("cuda", dtype=torch.float16):
        assert not torch.is_autocast_enabled()
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32
    with pytest.raises(NotImplementedError, match="enabled=False"):
        torch.autocast("cpu")

    @torch.autocast("cpu", enabled=False)
    def double(x):
        return x * 2

    assert double(torch.ones(1)).item() == 2
    with pytest.raises(ValueError, match="device_type"):
        torch.amp.autocast(torch.float16)
    with pytest.warns(FutureWarning, match="torch.amp.autocast"):
        torch.cuda.amp.autocast(enabled=False)


def test_a_program_with_a_scaler_for_gpus_trains():
    torch.manual_seed(0)
    layer, x = nn.Linear(3, 1), torch.randn(4, 3)
    opt = torch.optim.SGD(layer.parameters(), lr=0.1)
    with pytest.warns(UserWarning, match="GradScaler"):
        scaler = torch.amp.GradScaler()
    before = layer.weight.detach().clone()
    loss = layer(x).square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    grad = layer.weight.grad.clone()
    scaler.step(opt)
    scaler.update()
    assert torch.equal(layer.weight, before - 0.1 * grad)
    assert scaler.get_scale() == 1.0 and scaler.state_dict() == {} and not scaler.is_enabled()


def test_scaler_on_the_cpu():
    p = nn.Parameter(torch.ones(2))
    opt = torch.optim.SGD([p], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    scaler.scale((p * torch.tensor([1.0, 2.0])).sum()).backward()
    assert p.grad.tolist() == [8.0, 16.0]
    scaler.unscale_(opt)
    assert p.grad.tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError, match="unscale_.. has already been called"):
        scaler.unscale_(opt)
    scaler.step(opt)
    with pytest.raises(RuntimeError, match="has already been called since the last update"):
        scaler.step(opt)
    with pytest.raises(RuntimeError, match="being called after step"):
        scaler.unscale_(opt)
    scaler.update()
    assert p.tolist() == [0.0, -1.0] and scaler.get_scale() == 8.0
    p.grad = torch.tensor([float("inf"), 8.0])
    scaler.step(opt)
    scaler.update()
    assert p.tolist() == [0.0, -1.0] and scaler.get_scale() == 4.0  # the step was left out
    for _ in range(2):
        p.grad = torch.zeros(2)
        scaler.step(opt)
        scaler.update()
    assert scaler.get_scale() == 8.0
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.update()
    other = torch.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 8.0 and other.state_dict() == scaler.state_dict()
    with pytest.raises(RuntimeError, match="empty"):
        other.load_state_dict({})
    a, (b, c) = scaler.scale([torch.ones(1), (torch.ones(1), torch.zeros(1))])
    assert a.item() == b.item() == 8.0 and c.item() == 0.0


def test_get_lr_outside_of_a_step_warns():
    schedulers = torch.optim.lr_scheduler
    made = {
        "StepLR": lambda o: schedulers.StepLR(o, 2),
        "ExponentialLR": lambda o: schedulers.ExponentialLR(o, 0.5),
        "PolynomialLR": lambda o: schedulers.PolynomialLR(o, 4),
        "MultiplicativeLR": lambda o: schedulers.MultiplicativeLR(o, lambda e: 0.5),
        "CosineAnnealingLR": lambda o: schedulers.CosineAnnealingLR(o, 5),
        "CosineAnnealingWarmRestarts": lambda o: schedulers.CosineAnnealingWarmRestarts(o, 5),
        "OneCycleLR": lambda o: schedulers.OneCycleLR(o, 0.1, 10),
        "CyclicLR": lambda o: schedulers.CyclicLR(o, 0.1, 1.0),
    }
    rates = {}
    for name, make in made.items():
        opt = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1, momentum=0.9)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            scheduler = make(opt)
            opt.step()
            scheduler.step()
        with pytest.warns(UserWarning, match="get_last_lr"):
            rates[name] = scheduler.get_lr()[0]
        assert scheduler.state_dict()["_is_initial"] is False
    assert rates["ExponentialLR"] == 0.1 * 0.5 * 0.5  # that of the step to come


def test_vander():
    x = torch.tensor([1.0, 2.0, 3.0])
    assert torch.vander(x).tolist() == [[1, 1, 1], [4, 2, 1], [9, 3, 1]]
    assert torch.vander(x, 2, increasing=True).tolist() == [[1, 1], [1, 2], [1, 3]]
    assert torch.vander(x, N=0).shape == (3, 0)
    with pytest.raises(RuntimeError, match="one-dimensional"):
        torch.vander(torch.ones(2, 2))
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.vander(x, N=-1)
