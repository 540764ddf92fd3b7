# SPDX-License-Identifier: Apache-2.0
"""Weight files in both directions, and the whole network against plain PyTorch.

usage: weights_interop.py WEIGHTS_TOOL
"""

import json
import math
import os
import subprocess
import sys
import tempfile
import zipfile

try:
    import torch
except ImportError:
    print("[eqt-skip] this Python has no torch; install python3-torch")
    sys.exit(0)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
from ddp_baseline import build  # noqa: E402

TOOL = sys.argv[1]
torch.set_num_threads(1)


def tool(*arguments, code=0):
    done = subprocess.run([TOOL, *arguments], capture_output=True, text=True)
    assert done.returncode == code, f"{arguments}: exit {done.returncode}: {done.stderr}"
    return done.stderr


def torchvision_names(blocks):
    """Keys of torchvision's resnet18().state_dict() form, spelled out by its naming rule."""

    def norm(prefix):
        return [prefix + end for end in
                (".weight", ".bias", ".running_mean", ".running_var", ".num_batches_tracked")]

    names = ["conv1.weight", *norm("bn1"), "fc.weight", "fc.bias"]
    for stage, count in enumerate(blocks, 1):
        for block in range(count):
            prefix = f"layer{stage}.{block}."
            names += [prefix + "conv1.weight", prefix + "conv2.weight"]
            names += norm(prefix + "bn1") + norm(prefix + "bn2")
            if stage > 1 and block == 0:
                names += [prefix + "downsample.0.weight", *norm(prefix + "downsample.1")]
    return names


def fixed_batch():
    count = 6 * 32 * 32 * 3
    values = torch.tensor([math.sin(0.37 * i) for i in range(count)], dtype=torch.float32)
    images = values.view(6, 32, 32, 3).permute(0, 3, 1, 2).contiguous()
    return images, torch.tensor([3 * i % 10 for i in range(6)])


def read_gradients(path, slices):
    with open(path, "rb") as file:
        flat = torch.frombuffer(bytearray(file.read()), dtype=torch.float32)
    gradients = {}
    for name, (offset, shape) in slices.items():
        values = flat[offset:offset + math.prod(shape)]
        if len(shape) == 4:  # stored channels-last
            out, channels, rows, columns = shape
            values = values.view(out, rows, columns, channels).permute(0, 3, 1, 2)
        gradients[name] = values.reshape(shape)
    return gradients


def check_reading(folder, model, blocks):
    path = os.path.join(folder, model + ".pt")
    tool("save", model, "5", path)
    weights = torch.load(path, weights_only=True)  # the default of newer versions
    assert type(weights) is dict, type(weights)
    assert sorted(weights) == sorted(torchvision_names(blocks))
    assert all(tensor.is_contiguous() for tensor in weights.values())
    assert weights["bn1.num_batches_tracked"] == 1
    network = build(model)
    network.load_state_dict(weights)  # strict: every name and shape
    return network


M32, M64 = 2**32 - 1, 2**64 - 1


def mix64(x):
    x = (x + 0x9E3779B97F4A7C15) & M64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & M64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & M64
    return x ^ (x >> 31)


def dropout_mask(count, seed=1, step=0, rank=0, layer=0):
    """core/random.hpp's words of RandomPurpose::dropout, as a mask of half of the values."""
    state = mix64(mix64(seed) ^ step)
    state = mix64(state ^ (rank << 32 | 0xF0000006))
    state = mix64(state ^ layer)
    first, second = state & M32, state >> 32
    mask = []
    for index in range(count):
        h = (index * 0x9E3779B1 + first) & M32
        h = ((h ^ (h >> 16)) * 0x21F0AAAD) & M32
        h = ((h ^ (h >> 15)) + second) & M32
        h = h * 0xD35A2D97 & M32
        h ^= h >> 15
        mask.append(0.0 if (h >> 8) / 2**24 < 0.5 else 2.0)
    return mask


class KnownDropout(torch.nn.Module):
    """The dropout of the first batch of rank 0 with seed 1."""

    def forward(self, x):
        if not self.training:
            return x
        return x * torch.tensor(dropout_mask(x.numel()), dtype=x.dtype).view_as(x)


class Plain(torch.nn.Module):
    def __init__(self, features, classifier):
        super().__init__()
        self.features, self.classifier = features, classifier

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


def vgg11():
    layers, channels = [], 3
    for width in (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"):
        if width == "M":
            layers.append(torch.nn.MaxPool2d(2))
        else:
            layers += [torch.nn.Conv2d(channels, width, 3, padding=1),
                       torch.nn.BatchNorm2d(width), torch.nn.ReLU()]
            channels = width
    return Plain(torch.nn.Sequential(*layers),
                 torch.nn.Sequential(KnownDropout(), torch.nn.Linear(512, 512), torch.nn.ReLU(),
                                     torch.nn.Linear(512, 10)))


def alexnet():
    from torch.nn import Conv2d, MaxPool2d, ReLU
    return Plain(torch.nn.Sequential(
        Conv2d(3, 64, 11, stride=4, padding=5), ReLU(), MaxPool2d(2),
        Conv2d(64, 192, 5, padding=2), ReLU(), MaxPool2d(2),
        Conv2d(192, 384, 3, padding=1), ReLU(), Conv2d(384, 256, 3, padding=1), ReLU(),
        Conv2d(256, 256, 3, padding=1), ReLU(), MaxPool2d(2)), torch.nn.Linear(256, 10))


def check_plain(folder, model, network):
    path = os.path.join(folder, model + ".pt")
    tool("save", model, "5", path)
    network.load_state_dict(torch.load(path))  # strict: every name and shape
    check_same_network(folder, model, network)


def check_same_network(folder, model, network):
    """Python's weights in C++ give Python's loss, evaluation and gradient."""
    path, out = os.path.join(folder, "python.pt"), os.path.join(folder, "out")
    torch.save(dict(network.state_dict()), path)
    tool("load", model, path, out)
    with open(out + ".json") as file:
        ours = json.load(file)

    # float64, so that only one side rounds
    network = network.double()
    images, labels = fixed_batch()
    images = images.double()
    network.eval()
    with torch.no_grad():
        logits = network(images)
    loss_sum = torch.nn.functional.cross_entropy(logits, labels, reduction="sum").item()
    assert math.isclose(ours["loss_sum"], loss_sum, rel_tol=1e-4), (ours["loss_sum"], loss_sum)
    assert ours["correct"] == (logits.argmax(1) == labels).sum().item()
    network.train()
    loss = torch.nn.functional.cross_entropy(network(images), labels)
    loss.backward()
    assert math.isclose(ours["loss"], loss.item(), rel_tol=1e-5), (ours["loss"], loss.item())
    gradients = read_gradients(out + ".f32", ours["slices"])
    parameters = dict(network.named_parameters())
    assert list(gradients) == list(parameters), "layout order"
    whole = math.sqrt(sum(parameter.grad.norm().item() ** 2 for parameter in parameters.values()))
    for name, parameter in parameters.items():
        # A bias before a normalization has no gradient but rounding's.
        scale = max(parameter.grad.norm().item(), 1e-3 * whole)
        difference = (gradients[name] - parameter.grad).norm() / scale
        assert difference < 1e-3, f"{name}: relative difference {difference:.2e}"


def check_refusals(folder, network):
    path = os.path.join(folder, "refused.pt")
    weights = {name: tensor.float() if tensor.is_floating_point() else tensor
               for name, tensor in network.state_dict().items()}

    def refused(content, *words):
        if content is not None:
            torch.save(content, path)
        message = tool("load", "resnet20", path, os.path.join(folder, "none"), code=3)
        assert message.count("\n") == 1, message
        assert all(word in message for word in words), message

    refused({**weights, "extra.weight": torch.zeros(1)}, "extra.weight")
    refused({k: v for k, v in weights.items() if k != "fc.bias"}, "fc.bias")
    refused({**weights, "conv1.weight": weights["conv1.weight"][:, :1].clone()},
            "conv1.weight", "[16, 3, 3, 3]", "[16, 1, 3, 3]")
    refused({**weights, "bn1.weight": torch.ones(16, dtype=torch.int64)}, "bn1.weight")
    refused({**weights, "bn1.bias": torch.full((16,), math.nan)}, "bn1.bias")
    refused({"weights": weights}, '"weights" with a dict', "torch.save(model.state_dict(), path)")
    refused([1, 2, 3], "dict")
    refused(network, "torch.save(model.state_dict(), path)")
    refuse_overreach(path, weights, refused)
    for name in [k for k in weights if k.endswith("num_batches_tracked")]:
        del weights[name]  # older files have none
    torch.save(weights, path)
    tool("load", "resnet20", path, os.path.join(folder, "none"))


def refuse_overreach(path, weights, refused):
    """A pickle that claims more than a record has: fc.bias, 10 floats in a record of 1."""
    torch.save({**weights, "fc.bias": torch.ones(1)}, path)
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    pickle_name = next(name for name in content if name.endswith("data.pkl"))
    # "K" pushes a byte: the storage's length 1, then (offset 0, sizes (1,), strides (1,)).
    start = content[pickle_name].rindex(b"fc.bias")
    head, tail = content[pickle_name][:start], content[pickle_name][start:]
    content[pickle_name] = head + tail.replace(b"K\x01", b"K\x0a", 2)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    refused(None, "fc.bias", "part")


def check_forms(folder, network):
    """Every usual way to save one network is read, and gives the same parameters."""
    path, out = os.path.join(folder, "form.pt"), os.path.join(folder, "form")
    state = network.float().state_dict()
    adam = torch.optim.Adam(network.parameters())
    network(fixed_batch()[0]).sum().backward()
    adam.step()
    state = network.state_dict()
    wrapped = {"module." + name: tensor for name, tensor in state.items()}
    # No tensor is contiguous, and all share one storage.
    pool = torch.cat([tensor.flatten().float() for tensor in state.values()])
    views, begin = {}, 0
    for name, tensor in state.items():
        if tensor.is_floating_point():
            views[name] = pool[begin:begin + tensor.numel()].view(tensor.shape)
        begin += tensor.numel()
    strided = {name: tensor.transpose(0, -1).contiguous().transpose(0, -1)
               for name, tensor in state.items()}
    last = {name: tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4
            else tensor for name, tensor in state.items()}
    forms = {
        "state_dict()": state,
        "dict": dict(state),
        "checkpoint": {"state_dict": state, "epoch": 3, "best": 0.5, "optimizer": adam.state_dict(),
                       "arch": "resnet20", "none": None, "shape": torch.Size([1, 2])},
        "tutorial's checkpoint": {"epoch": 3, "model_state_dict": state},
        "model": {"model": state, "seen": [1, (2, -3, 2**40, True)]},
        "DDP": wrapped,
        "checkpoint of DDP": {"state_dict": wrapped},
        "parameters": {**state, **dict(network.named_parameters())},
        "views": {**state, **views},
        "strides": strided,
        "channels last": last,
        "float64": {name: tensor.double() if tensor.is_floating_point() else tensor
                    for name, tensor in state.items()},
    }
    assert not strided["fc.weight"].is_contiguous() and not last["conv1.weight"].is_contiguous()

    def parameters_of(content, **options):
        torch.save(content, path, **options)
        tool("load", "resnet20", path, out)
        with open(out + ".f32", "rb") as gradient, open(out + ".json") as facts:
            return gradient.read() + facts.read().encode()

    expected = parameters_of(dict(state))
    for name, content in forms.items():
        assert parameters_of(content) == expected, name
    for name in ("state_dict()", "checkpoint", "strides"):
        for options in ({"pickle_protocol": 4}, {"_use_new_zipfile_serialization": False}):
            assert parameters_of(forms[name], **options) == expected, (name, options)
    for kind in (torch.float16, torch.bfloat16):
        rounded = {name: tensor.to(kind) if tensor.is_floating_point() else tensor
                   for name, tensor in state.items()}
        again = {name: tensor.float() if tensor.is_floating_point() else tensor
                 for name, tensor in rounded.items()}
        assert parameters_of(rounded) == parameters_of(again), kind
    print(len(forms), "forms of one network are read as one")


def main():
    with tempfile.TemporaryDirectory() as folder:
        for model, blocks in (("resnet20", [3, 3, 3]), ("resnet18", [2, 2, 2, 2])):
            network = check_reading(folder, model, blocks)
            check_same_network(folder, model, network)
        check_plain(folder, "vgg11", vgg11())
        check_plain(folder, "alexnet", alexnet())
        network = check_reading(folder, "resnet20", [3, 3, 3])
        check_refusals(folder, network)
        check_forms(folder, network)
    print("ok")


main()
