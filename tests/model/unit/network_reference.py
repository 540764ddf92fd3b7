# SPDX-License-Identifier: Apache-2.0
# Our MobileNets, EfficientNet-Lite0 and vision transformers against networks of Python's torch: names and shapes of
# parameters and buffers, outputs and gradients, with weights that Python draws and saves.
#
#   network_reference.py NETWORK_TOOL [libraries]   with the word libraries, the networks of torchvision and timm are
#                                                   the reference, where these are installed; else those below
#   network_reference.py speed MODEL BATCH STEPS    pictures a second that training the network below takes, of 224
#                                                   pixels a side, on one thread
import copy
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    print("[eqt-skip] python3-torch is not installed")
    sys.exit(0)

# Largest differences, relative to the largest value of all logits, or of a tensor's gradient: float32's rounding,
# which batch normalization over few values multiplies. ReLU6 adds to gradients what one value on the other side of a
# kink changes, which depends on the processor's roundings: edge_of() measures it where it matters.
EVALUATED, TRAINED, GRADIENTS = 1e-5, 1e-4, 1e-3


def rounded(channels):
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest + 8 if nearest < 0.9 * channels else nearest


class Add(nn.Module):
    """Adds the input of what the subclass has as `body`, if `adds`."""

    def through(self, x, body, adds):
        return x + body(x) if adds else body(x)


def unit(i, o, kernel=1, stride=1, groups=1, activation=None, norm=nn.BatchNorm2d):
    layers = [nn.Conv2d(i, o, kernel, stride, kernel // 2, groups=groups, bias=False), norm(o)]
    return nn.Sequential(*layers, *([activation()] if activation else []))


class V2Block(Add):
    def __init__(self, i, o, stride, factor):
        super().__init__()
        wide = i * factor
        widen = [unit(i, wide, activation=nn.ReLU6)] if factor > 1 else []
        self.adds = stride == 1 and i == o
        self.conv = nn.Sequential(*widen, unit(wide, wide, 3, stride, wide, nn.ReLU6),
                                  nn.Conv2d(wide, o, 1, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        return self.through(x, self.conv, self.adds)


class MobileNetV2(nn.Module):
    def __init__(self, classes, width, small):
        super().__init__()
        channels = rounded(32 * width)
        layers = [unit(3, channels, 3, 1 if small else 2, 1, nn.ReLU6)]
        for factor, o, count, stride in ((1, 16, 1, 1), (6, 24, 2, 1 if small else 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                         (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
            for n in range(count):
                layers.append(V2Block(channels, rounded(o * width), stride if n == 0 else 1, factor))
                channels = rounded(o * width)
        last = rounded(1280 * max(1, width))
        layers.append(unit(channels, last, activation=nn.ReLU6))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0), nn.Linear(last, classes))

    def forward(self, x):
        return self.classifier(self.features(x).mean([2, 3]))


class Squeeze(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.fc1 = nn.Conv2d(channels, rounded(channels // 4), 1)
        self.fc2 = nn.Conv2d(rounded(channels // 4), channels, 1)

    def forward(self, x):
        return x * F.hardsigmoid(self.fc2(F.relu(self.fc1(x.mean([2, 3], keepdim=True)))))


def slow_norm(channels):
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


class V3Block(Add):
    def __init__(self, i, kernel, wide, o, squeezes, activation, stride):
        super().__init__()
        self.adds = stride == 1 and i == o
        self.block = nn.Sequential(
            *([unit(i, wide, activation=activation, norm=slow_norm)] if wide != i else []),
            unit(wide, wide, kernel, stride, wide, activation, slow_norm),
            *([Squeeze(wide)] if squeezes else []), unit(wide, o, norm=slow_norm))

    def forward(self, x):
        return self.through(x, self.block, self.adds)


class MobileNetV3Small(nn.Module):
    def __init__(self, classes, width, small):
        super().__init__()
        channels, early = rounded(16 * width), 1 if small else 2
        layers = [unit(3, channels, 3, early, 1, nn.Hardswish, slow_norm)]
        relu, swish = nn.ReLU, nn.Hardswish
        for kernel, wide, o, squeezes, activation, stride in (
                (3, 16, 16, True, relu, early), (3, 72, 24, False, relu, 2), (3, 88, 24, False, relu, 1),
                (5, 96, 40, True, swish, 2), (5, 240, 40, True, swish, 1), (5, 240, 40, True, swish, 1),
                (5, 120, 48, True, swish, 1), (5, 144, 48, True, swish, 1), (5, 288, 96, True, swish, 2),
                (5, 576, 96, True, swish, 1), (5, 576, 96, True, swish, 1)):
            o = rounded(o * width)
            layers.append(V3Block(channels, kernel, rounded(wide * width), o, squeezes, activation, stride))
            channels = o
        layers.append(unit(channels, 6 * channels, activation=swish, norm=slow_norm))
        self.features = nn.Sequential(*layers)
        hidden = rounded(1024 * width)
        self.classifier = nn.Sequential(nn.Linear(6 * channels, hidden), swish(), nn.Dropout(0),
                                        nn.Linear(hidden, classes))

    def forward(self, x):
        return self.classifier(self.features(x).mean([2, 3]))


class LiteBlock(Add):
    def __init__(self, i, kernel, o, stride, factor):
        super().__init__()
        wide = i * factor
        self.adds = stride == 1 and i == o
        filters = nn.Conv2d(wide, wide, kernel, stride, kernel // 2, groups=wide, bias=False)
        narrow = nn.Conv2d(wide, o, 1, bias=False)
        if factor > 1:
            self.conv_pw, self.bn1 = nn.Conv2d(i, wide, 1, bias=False), nn.BatchNorm2d(wide)
            self.conv_dw, self.bn2 = filters, nn.BatchNorm2d(wide)
            self.conv_pwl, self.bn3 = narrow, nn.BatchNorm2d(o)
        else:
            self.conv_dw, self.bn1 = filters, nn.BatchNorm2d(wide)
            self.conv_pw, self.bn2 = narrow, nn.BatchNorm2d(o)

    def body(self, x):
        if hasattr(self, "conv_pwl"):
            x = F.relu6(self.bn1(self.conv_pw(x)))
            x = F.relu6(self.bn2(self.conv_dw(x)))
            return self.bn3(self.conv_pwl(x))
        x = F.relu6(self.bn1(self.conv_dw(x)))
        return self.bn2(self.conv_pw(x))

    def forward(self, x):
        return self.through(x, self.body, self.adds)


class EfficientNetLite0(nn.Module):
    def __init__(self, classes, _width, small):
        super().__init__()
        self.conv_stem, self.bn1 = nn.Conv2d(3, 32, 3, 1 if small else 2, 1, bias=False), nn.BatchNorm2d(32)
        stages, channels = [], 32
        for kernel, o, count, stride, factor in (
                (3, 16, 1, 1, 1), (3, 24, 2, 1 if small else 2, 6), (5, 40, 2, 2, 6), (3, 80, 3, 2, 6),
                (5, 112, 3, 1, 6), (5, 192, 4, 2, 6), (3, 320, 1, 1, 6)):
            blocks = []
            for n in range(count):
                blocks.append(LiteBlock(channels, kernel, o, stride if n == 0 else 1, factor))
                channels = o
            stages.append(nn.Sequential(*blocks))
        self.blocks = nn.Sequential(*stages)
        self.conv_head, self.bn2 = nn.Conv2d(320, 1280, 1, bias=False), nn.BatchNorm2d(1280)
        self.classifier = nn.Linear(1280, classes)

    def forward(self, x):
        x = self.blocks(F.relu6(self.bn1(self.conv_stem(x))))
        return self.classifier(F.relu6(self.bn2(self.conv_head(x))).mean([2, 3]))


class Parts(nn.Module):
    """Modules by their names."""

    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)


class Vit(nn.Module):
    def __init__(self, classes, side, small, hidden, heads):
        super().__init__()
        patch, self.heads = 4 if small else 16, heads
        self.cls_token = nn.Parameter(torch.zeros(1, 1, hidden))
        self.pos_embed = nn.Parameter(torch.zeros(1, (side // patch) ** 2 + 1, hidden))
        self.patch_embed = Parts(proj=nn.Conv2d(3, hidden, patch, patch))
        self.blocks = nn.Sequential(*[
            Parts(norm1=nn.LayerNorm(hidden, eps=1e-6),
                  attn=Parts(qkv=nn.Linear(hidden, 3 * hidden), proj=nn.Linear(hidden, hidden)),
                  norm2=nn.LayerNorm(hidden, eps=1e-6),
                  mlp=Parts(fc1=nn.Linear(hidden, 4 * hidden), fc2=nn.Linear(4 * hidden, hidden)))
            for _ in range(12)])
        self.norm, self.head = nn.LayerNorm(hidden, eps=1e-6), nn.Linear(hidden, classes)

    def attention(self, block, x):
        """One head at a time."""
        q, k, v = block.attn.qkv(x).chunk(3, -1)
        width = x.shape[-1] // self.heads
        mixed = []
        for a in range(self.heads):
            part = slice(a * width, (a + 1) * width)
            scores = q[..., part] @ k[..., part].transpose(1, 2) / width ** 0.5
            mixed.append(torch.softmax(scores, -1) @ v[..., part])
        return block.attn.proj(torch.cat(mixed, -1))

    def forward(self, x):
        x = self.patch_embed.proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.pos_embed
        for block in self.blocks:
            x = x + self.attention(block, block.norm1(x))
            x = x + block.mlp.fc2(F.gelu(block.mlp.fc1(block.norm2(x))))
        return self.head(self.norm(x)[:, 0])


CONVOLUTIONAL = {"mobilenet_v2": MobileNetV2, "mobilenet_v3_small": MobileNetV3Small,
                 "efficientnet_lite0": EfficientNetLite0}
VITS = {"vit_tiny": (192, 3), "vit_small": (384, 6)}


def network_of(model, side, classes, width=1.0):
    small = side <= 64
    if model in VITS:
        return Vit(classes, side, small, *VITS[model])
    return CONVOLUTIONAL[model](classes, width, small)


def library_network_of(model, classes, width=1.0):
    import timm
    import torchvision
    if model in VITS:
        return timm.create_model(model + "_patch16_224", num_classes=classes)
    if model == "efficientnet_lite0":
        return timm.create_model(model, num_classes=classes)
    if model == "mobilenet_v2":
        return torchvision.models.mobilenet_v2(num_classes=classes, width_mult=width, dropout=0)
    return torchvision.models.mobilenet_v3_small(num_classes=classes, width_mult=width, dropout=0)


def draw(network):
    """Values that hide no mistake: norms and biases begin with 1 and 0 otherwise."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, tensor in network.state_dict().items():
            if not tensor.is_floating_point():
                continue
            noise = torch.randn(tensor.shape, generator=generator)
            if name.endswith("running_var"):
                tensor.copy_(1 + 0.3 * noise.abs())
            elif tensor.dim() < 2:
                is_scale = name.endswith("weight")
                tensor.copy_((1 if is_scale else 0) + 0.2 * noise)
            else:
                fan_in = tensor[0].numel()
                tensor.copy_(noise * (1.5 / fan_in) ** 0.5)


def edge_of(exact, loss, difference):
    """The largest difference() of the float64 network's gradients when each parameter is moved up or down by 2^-20 of
    itself, about as far as float32 moves a sum of some hundred products."""
    kept = {name: (p.detach().clone(), p.grad.clone()) for name, p in exact.named_parameters()}
    edge = 0.0
    for seed in range(12):
        generator = torch.Generator().manual_seed(seed)
        exact.zero_grad()
        with torch.no_grad():
            for name, p in exact.named_parameters():
                up = torch.randint(0, 2, p.shape, generator=generator) * 2 - 1
                p.copy_(kept[name][0] * (1 + up * 2.0**-20))
        loss(exact).backward()
        for name, p in exact.named_parameters():
            edge = max(edge, difference(p.grad.numpy().flatten(), kept[name][1]))
    return edge


def check(tool, network, model, side, classes, width=1.0, pictures=4):
    draw(network)
    generator = torch.Generator().manual_seed(6)
    x = torch.randn(pictures, 3, side, side, generator=generator)
    network.eval()
    with torch.no_grad():
        evaluated = network(x)
    with tempfile.TemporaryDirectory() as folder:
        weights, batch, out = folder + "/w.pt", folder + "/batch", folder + "/out"
        torch.save(network.state_dict(), weights)
        x.permute(0, 2, 3, 1).contiguous().numpy().tofile(batch)
        made = subprocess.run([tool, model, str(side), str(classes), str(width), weights, batch, out],
                              capture_output=True, text=True)
        if made.returncode != 0:
            raise SystemExit(f"{model}: {made.stderr}")
        found = np.fromfile(out, "<f4")
    network.train()
    exact = copy.deepcopy(network).double()
    labels = torch.arange(pictures) % classes

    def loss(of):
        return F.cross_entropy(of(x.double()), labels)
    loss(exact).backward()
    trained = network(x)
    F.cross_entropy(trained, labels).backward()

    expected = {name: list(p.shape) for name, p in network.named_parameters()}
    ours = [line.split() for line in made.stdout.splitlines()]
    ours = {name: [int(n) for n in shape.split(",")] for name, shape in ours}
    assert ours == expected, (model, set(ours.items()) ^ set(expected.items()))

    def difference(values, reference, least=1e-30):
        reference = reference.detach().numpy().flatten()
        return float(np.abs(values - reference).max() / max(np.abs(reference).max(), least))

    count = evaluated.numel()
    worst = [difference(found[:count], evaluated), difference(found[count:2 * count], trained), 0.0]
    rounded = 0.0  # PyTorch's own float32
    gradients = {name: p.grad.clone() for name, p in exact.named_parameters()}
    of_float32 = {name: p.grad.numpy().flatten() for name, p in network.named_parameters()}
    # Some gradients are 0 but for rounding: a convolution's bias before a norm, or a key's.
    largest = max(float(g.abs().max()) for g in gradients.values())
    at = 2 * count
    for name in ours:
        size = gradients[name].numel()
        worst[2] = max(worst[2], difference(found[at:at + size], gradients[name], 1e-3 * largest))
        rounded = max(rounded, difference(of_float32[name], gradients[name], 1e-3 * largest))
        at += size
    assert at == found.size, (at, found.size)
    print(f"{model} at {side}, width {width}: {sum(p.numel() for p in network.parameters())} parameters, largest "
          f"differences: evaluated {worst[0]:.1e}, trained {worst[1]:.1e}, gradients {worst[2]:.1e} (PyTorch in float32 {rounded:.1e})", flush=True)
    bound = GRADIENTS + 4 * rounded
    if worst[2] >= bound:
        edge = edge_of(exact, loss, lambda values, reference: difference(values, reference, 1e-3 * largest))
        print(f"  gradients change by {edge:.1e} where parameters are moved by 2^-20", flush=True)
        bound = max(bound, 2 * edge)
    assert worst[0] < EVALUATED and worst[1] < TRAINED and worst[2] < bound, model


def measure(model, batch, steps):
    network = network_of(model, 224, 1000).train().to(memory_format=torch.channels_last)
    x = torch.randn(batch, 3, 224, 224).contiguous(memory_format=torch.channels_last)
    y, seconds = torch.arange(batch), []
    for _ in range(steps + 1):
        start = time.perf_counter()
        network.zero_grad(set_to_none=False)
        F.cross_entropy(network(x), y).backward()
        seconds.append(time.perf_counter() - start)
    median = sorted(seconds[1:])[steps // 2]
    print(f"{model}, torch {torch.__version__}: {batch / median:.1f} pictures a second, median of {steps} steps")


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "speed":
        measure(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        sys.exit(0)
    names = [*CONVOLUTIONAL, *VITS]
    if sys.argv[2:] == ["libraries"]:
        try:
            import timm  # noqa: F401
            import torchvision  # noqa: F401
        except ImportError:
            print("[eqt-skip] Python's packages torchvision and timm are not installed")
            sys.exit(0)
        for name in names:
            check(sys.argv[1], library_network_of(name, 1000), name, 224, 1000)
        for name, part in (("mobilenet_v2", 0.35), ("mobilenet_v2", 1.4), ("mobilenet_v3_small", 0.75)):
            check(sys.argv[1], library_network_of(name, 7, part), name, 224, 7, part)
        sys.exit(0)
    for name in names:
        check(sys.argv[1], network_of(name, 32, 10), name, 32, 10, pictures=8)
    check(sys.argv[1], network_of("mobilenet_v2", 64, 3, 0.5), "mobilenet_v2", 64, 3, 0.5)
    check(sys.argv[1], network_of("mobilenet_v3_small", 96, 3, 0.5), "mobilenet_v3_small", 96, 3, 0.5)
    check(sys.argv[1], network_of("efficientnet_lite0", 96, 3), "efficientnet_lite0", 96, 3)
    check(sys.argv[1], network_of("vit_tiny", 96, 3), "vit_tiny", 96, 3)
