#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a network of Python's as the TorchScript file that model.path names.

  scripts/export_model.py NAME --out net.pt [--classes N] [--pretrained] [--input SHAPE ...] [--how script|trace]

NAME is one of

  torchvision:resnet18      a builder of torchvision.models
  timm:resnet18             a name of timm.create_model
  transformers:bert-base-uncased[#CLASS]
                            a folder or name of Hugging Face; CLASS is AutoModelForSequenceClassification unless given
  package.module:function   a function or class of your own, on PYTHONPATH, which is called without arguments
  path/to/file.py:function  the same in a file

The module is scripted; where that fails, or with --how trace, it is traced with zeros of the shapes of --input
("3x32x32" for pictures, "int:128" for 128 tokens; each option is an input), and the file then serves samples of these
shapes only. Of a text network of transformers --input names the tokens; the mask of data.name
"text" follows by itself. A trace is taken in evaluation mode: its dropout is off, and its running statistics stay.
It is loaded again and compared with the original on random inputs before the program says that it is done.

Runs in the Python that has the network's packages: torch, and torchvision, timm or transformers where NAME needs them.
"""

import argparse
import importlib
import importlib.util
import os
import sys
import tempfile
import traceback

TOLERANCE = 1e-4  # of the largest output
EXAMPLE_TOKENS = 100  # examples have tokens below this


def refuse(sentence):
    print(f"export_model.py: {sentence}", file=sys.stderr)
    sys.exit(2)


def package(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        refuse(f"expected Python's package {name}, found: {error}; install it into this Python ({sys.executable})")


def from_torchvision(name, asked):
    models = package("torchvision").models
    builder = getattr(models, name, None)
    if not callable(builder):
        refuse(f"expected a builder of torchvision.models, found {name!r}; see dir(torchvision.models)")
    network = builder(weights="DEFAULT" if asked.pretrained else None)
    if asked.classes:
        replace_head(network, asked.classes)
    return network


def from_timm(name, asked):
    classes = {"num_classes": asked.classes} if asked.classes else {}
    return package("timm").create_model(name, pretrained=asked.pretrained, scriptable=True, **classes)


def from_transformers(name, asked):
    transformers = package("transformers")
    name, _, kind = name.partition("#")
    kind = getattr(transformers, kind or "AutoModelForSequenceClassification")
    classes = {"num_labels": asked.classes} if asked.classes else {}
    if asked.pretrained:
        network = kind.from_pretrained(name, torchscript=True, **classes)
    else:
        network = kind.from_config(transformers.AutoConfig.from_pretrained(name, torchscript=True, **classes))
    return of_texts(network) if asked.input[0].startswith("int:") else network


def of_texts(network):
    """The network for the arrays of data.name "text": tokens, and a mask that is 0 behind each text."""
    import torch

    class OfTexts(torch.nn.Module):
        takes_mask = True
        example_tokens = min(EXAMPLE_TOKENS, network.config.vocab_size)

        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, tokens, mask):
            return self.network(input_ids=tokens, attention_mask=mask)[0]

    # The program's buffers are floats: tables of numbers, such as positions, become constants.
    for module in network.modules():
        tables = [name for name, table in module.named_buffers(recurse=False) if table.dtype == torch.int64]
        for name in tables:
            table = getattr(module, name)
            delattr(module, name)
            setattr(module, name, table)
    return OfTexts()


def from_own_code(place, name):
    if place.endswith(".py"):
        if not os.path.isfile(place):
            refuse(f"expected a Python file at {place}, found none")
        spec = importlib.util.spec_from_file_location("own_network", place)
        module = importlib.util.module_from_spec(spec)
        sys.modules["own_network"] = module  # torch.jit.script looks for the source there
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, os.getcwd())
        module = package(place)
    builder = getattr(module, name, None)
    if not callable(builder):
        refuse(f"expected a function or class {name!r} in {place}, found none")
    return builder()


def replace_head(network, classes):
    """Gives the last linear layer another number of outputs."""
    import torch
    last = [(path, layer) for path, layer in network.named_modules() if isinstance(layer, torch.nn.Linear)]
    if not last:
        refuse("expected a network that ends in a linear layer for --classes, found none; leave --classes out")
    path, layer = last[-1]
    owner = network.get_submodule(path.rpartition(".")[0])
    setattr(owner, path.rpartition(".")[2], torch.nn.Linear(layer.in_features, classes, layer.bias is not None))


def build(asked):
    kind, colon, name = asked.name.partition(":")
    if not colon or not name:
        refuse(f"expected KIND:NAME, as in torchvision:resnet18, found {asked.name!r}")
    makers = {"torchvision": from_torchvision, "timm": from_timm, "transformers": from_transformers}
    if kind in makers:
        return makers[kind](name, asked)
    return from_own_code(kind, name)


def example(text, samples, example_tokens):
    """Random samples of "3x32x32", or of tokens for "int:128"."""
    import torch
    tokens = text.startswith("int:")
    try:
        shape = [int(side) for side in text[4 * tokens:].split("x")]
    except ValueError:
        shape = []
    if not shape or min(shape) < 1:
        refuse(f"expected --input like 3x32x32 or int:128, found {text!r}")
    if tokens:
        return torch.randint(1, example_tokens, [samples, *shape])
    return torch.randn([samples, *shape])


def examples(network, asked, samples):
    """An example of each argument."""
    import torch
    example_tokens = getattr(network, "example_tokens", EXAMPLE_TOKENS)
    made = [example(text, samples, example_tokens) for text in asked.input]
    if getattr(network, "takes_mask", False):
        mask = torch.ones_like(made[0])
        mask[-1, -1] = 0
        made.append(mask)
    return made


def first(output):
    """The tensor that counts of what the module returns."""
    while isinstance(output, (tuple, list)):
        output = output[0]
    return output if not isinstance(output, dict) else next(iter(output.values()))


def in_script(network, asked):
    import torch
    if asked.how != "trace":
        try:
            return torch.jit.script(network), "script"
        except Exception as error:  # whatever torch.jit.script cannot translate
            if asked.how == "script":
                refuse(f"torch.jit.script cannot translate it: {str(error).strip().splitlines()[0]}; try --how trace")
    inputs = tuple(torch.zeros_like(made) if i < len(asked.input) else made  # a mask of zeros would hide the text
                   for i, made in enumerate(examples(network, asked, 2)))
    # A trace keeps the mode that it was taken in; statistics of a batch would be wrong in evaluation.
    network.eval()
    kinds = (torch.nn.modules.batchnorm._BatchNorm, torch.nn.modules.dropout._DropoutNd)
    fixed = sorted({type(layer).__name__ for layer in network.modules() if isinstance(layer, kinds)})
    if fixed:
        print(f"export_model.py: warning: traced in evaluation mode: {', '.join(fixed)} will behave in training as in "
              "evaluation; --how script keeps both", file=sys.stderr)
    return torch.jit.trace(network, inputs, check_trace=False), "trace"


def difference(network, path, asked):
    """The largest of two outputs, relative to the largest output."""
    import torch
    network.eval()
    loaded = torch.jit.load(path).eval()
    with torch.no_grad():
        inputs = examples(network, asked, 3)
        own, other = first(network(*inputs)), first(loaded(*inputs))
    return ((own - other).abs().max() / own.abs().max().clamp_min(1e-30)).item()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("name", metavar="NAME")
    options.add_argument("--out", required=True, metavar="FILE")
    options.add_argument("--classes", type=int, default=0, metavar="N")
    options.add_argument("--pretrained", action="store_true")
    options.add_argument("--input", action="append", metavar="SHAPE")
    options.add_argument("--how", choices=["auto", "script", "trace"], default="auto")
    asked = options.parse_args()
    asked.input = asked.input or ["3x224x224"]
    folder = os.path.dirname(asked.out) or "."
    if not os.path.isdir(folder):
        refuse(f"expected a folder for --out {asked.out}, found none; make it first")
    if os.path.lexists(asked.out) and (os.path.islink(asked.out) or not os.path.isfile(asked.out)):
        refuse(f"expected a regular file or nothing at --out {asked.out}, found something else; choose another name")
    torch = package("torch")
    torch.manual_seed(1)
    network = build(asked)
    if not isinstance(network, torch.nn.Module):
        refuse(f"expected {asked.name} to be a torch.nn.Module, found {type(network).__name__}")
    network.train()  # the program switches between training and evaluation itself
    module, how = in_script(network, asked)
    with tempfile.TemporaryDirectory(prefix=".export_model.", dir=folder) as own:
        temporary = os.path.join(own, "net.pt")
        module.save(temporary)
        found = difference(network, temporary, asked)
        if not found <= TOLERANCE:
            refuse(f"expected the same outputs of the saved network, found a relative difference of {found:.3g}; "
                   "a traced network may have taken branches that depend on its input: try --how script")
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, asked.out)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    print(f"{asked.out}: {parameters} parameters, by {how}, relative difference {found:.1g}")


if __name__ == "__main__":
    try:
        main()
    except Exception as failed:  # of the libraries, or of the network's own code
        where = traceback.extract_tb(failed.__traceback__)[-1]
        what = (str(failed).strip().splitlines() or ["no reason"])[0]
        refuse(f"{type(failed).__name__}: {what} ({where.filename}, line {where.lineno})")
