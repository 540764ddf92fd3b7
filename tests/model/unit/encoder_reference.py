# SPDX-License-Identifier: Apache-2.0
# Our encoder against BERT and DistilBERT in plain operations of Python's torch: logits and gradients, with weights from
# a safetensors file that is written here.
#
#   encoder_reference.py ENCODER_TOOL [transformers | FOLDER]
#
# With the word transformers, small networks of Hugging Face's package are the reference, where it is installed; with a
# FOLDER that its save_pretrained() has written, by hand, the network of that folder.
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    from torch.nn import functional as F
except ImportError:
    print("[eqt-skip] python3-torch is not installed")
    sys.exit(0)

LOGITS, GRADIENTS = 2e-5, 2e-4  # largest differences, relative to the largest value of a tensor: float32's rounding

BERT = {"model_type": "bert", "vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3,
        "intermediate_size": 40, "max_position_embeddings": 16, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
        "hidden_act": "gelu"}
DISTILBERT = {"model_type": "distilbert", "vocab_size": 50, "dim": 24, "n_layers": 2, "n_heads": 3, "hidden_dim": 40,
              "max_position_embeddings": 16, "activation": "gelu"}


def shapes_of(family, classes):
    """Shape of each parameter, by the names of Hugging Face's classifiers."""
    h, wide = 24, 40
    bert = family == "bert"
    shapes = {}

    def affine(name, rows, columns):
        shapes[name + ".weight"] = (rows, columns)
        shapes[name + ".bias"] = (rows,)

    def norm(name):
        shapes[name + ".weight"] = shapes[name + ".bias"] = (h,)

    first = family + ".embeddings."
    shapes[first + "word_embeddings.weight"] = (50, h)
    shapes[first + "position_embeddings.weight"] = (16, h)
    if bert:
        shapes[first + "token_type_embeddings.weight"] = (2, h)
    norm(first + "LayerNorm")
    for i in range(2):
        layer = f"bert.encoder.layer.{i}." if bert else f"distilbert.transformer.layer.{i}."
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense") \
                if bert else ("attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin"):
            affine(layer + name, h, h)
        norm(layer + ("attention.output.LayerNorm" if bert else "sa_layer_norm"))
        affine(layer + ("intermediate.dense" if bert else "ffn.lin1"), wide, h)
        affine(layer + ("output.dense" if bert else "ffn.lin2"), h, wide)
        norm(layer + ("output.LayerNorm" if bert else "output_layer_norm"))
    affine("bert.pooler.dense" if bert else "pre_classifier", h, h)
    affine("classifier", classes, h)
    return shapes


def reference(family, w, tokens, mask, head):
    """The formulas of the papers, one text and one head at a time."""
    bert = family == "bert"

    def affine(x, name):
        return x @ w[name + ".weight"].T + w[name + ".bias"]

    def norm(x, name):
        mean = x.mean(-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(-1, keepdim=True)
        return (x - mean) / torch.sqrt(variance + 1e-12) * w[name + ".weight"] + w[name + ".bias"]

    def gelu(x):
        return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))

    names = [("attention.self.query", "attention.q_lin"), ("attention.self.key", "attention.k_lin"),
             ("attention.self.value", "attention.v_lin"), ("attention.output.dense", "attention.out_lin"),
             ("attention.output.LayerNorm", "sa_layer_norm"), ("intermediate.dense", "ffn.lin1"),
             ("output.dense", "ffn.lin2"), ("output.LayerNorm", "output_layer_norm")]
    first = family + ".embeddings."
    results = []
    for text, seen in zip(tokens, mask):
        length = len(text)
        x = w[first + "word_embeddings.weight"][text] + w[first + "position_embeddings.weight"][:length]
        if bert:
            x = x + w[first + "token_type_embeddings.weight"][0]
        x = norm(x, first + "LayerNorm")
        for i in range(2):
            layer = f"bert.encoder.layer.{i}." if bert else f"distilbert.transformer.layer.{i}."
            q, k, v, o, n1, wide, narrow, n2 = (layer + (a if bert else b) for a, b in names)
            queries, keys, values = affine(x, q), affine(x, k), affine(x, v)
            mixed = []
            for j in range(3):
                part = slice(8 * j, 8 * j + 8)
                scores = queries[:, part] @ keys[:, part].T / math.sqrt(8)
                allowed = seen.bool()[None, :].expand(length, length)
                if head == "next_token":
                    allowed = allowed & torch.tril(torch.ones(length, length)).bool()
                scores = scores.masked_fill(~allowed, -math.inf)
                mixed.append(torch.softmax(scores, -1) @ values[:, part])
            x = norm(x + affine(torch.cat(mixed, -1), o), n1)
            x = norm(x + affine(gelu(affine(x, wide)), narrow), n2)
        if head == "next_token":
            results.append(x @ w[first + "word_embeddings.weight"].T + w["next_token.bias"])
            continue
        pooled = affine(x[0], "bert.pooler.dense" if bert else "pre_classifier")
        results.append(affine(torch.tanh(pooled) if bert else torch.relu(pooled), "classifier"))
    return torch.stack(results)


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        values = tensor.detach().numpy().astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def ours(tool, config, weights, tokens, mask, targets, outputs, head):
    """Logits and gradients by name, flat."""
    with tempfile.TemporaryDirectory() as folder:
        batch, out = folder + "/batch", folder + "/out"
        with open(batch, "w") as file:
            numbers = [tokens.shape[0], tokens.shape[1], outputs] + \
                [int(n) for part in (tokens, mask, targets) for n in part.flatten()]
            file.write(" ".join(map(str, numbers)))
        made = subprocess.run([tool, config, weights, batch, head, out], capture_output=True, text=True)
        if made.returncode != 0:
            raise SystemExit(made.stderr)
        return np.fromfile(out, "<f4"), made.stdout.split()


def difference(found, expected, least=1e-6):
    """Largest, relative to the largest expected value, or to `least` if that is more."""
    return float(np.abs(found - expected).max() / max(least, np.abs(expected).max()))


def check(tool, family, head, renamed=False):
    generator = torch.Generator().manual_seed(5)
    outputs = 4 if head == "classes" else 50
    shapes = shapes_of(family, 4)
    if head == "next_token":
        shapes = {n: s for n, s in shapes.items() if "classifier" not in n and "pooler" not in n}
        shapes["next_token.bias"] = (50,)
    w = {n: (torch.randn(s, generator=generator) * 0.3 + (1 if "orm.weight" in n else 0)).requires_grad_()
         for n, s in shapes.items()}
    tokens = torch.randint(1, 50, (5, 11), generator=generator)
    mask = torch.ones(5, 11, dtype=torch.long)
    for i, kept in enumerate([11, 7, 2, 9, 3]):
        mask[i, kept:] = 0
        tokens[i, kept:] = 0
    targets = torch.tensor([0, 1, 2, 3, 1])
    if head == "next_token":
        targets = torch.where(mask.bool(), torch.randint(0, 50, (5, 11), generator=generator), torch.tensor(-100))
    logits = reference(family, w, tokens, mask, head)
    F.cross_entropy(logits.reshape(-1, outputs), targets.flatten()).backward()
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/config.json", "w") as file:
            json.dump(BERT if family == "bert" else DISTILBERT, file)
        saved = dict(w)
        if renamed:  # as models converted from TensorFlow, with a head for another task and a buffer
            saved = {n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
                     .removeprefix("bert."): t for n, t in w.items()}
            saved["cls.predictions.bias"] = torch.zeros(50)
            saved["embeddings.position_ids"] = torch.zeros(1, 16)
        write_safetensors(folder + "/model.safetensors", saved)
        found, names = ours(tool, folder + "/config.json", folder + "/model.safetensors", tokens, mask, targets,
                            outputs, head)
    compare(f"{family}, {head}", found, names, logits.detach().numpy().flatten(),
            {name: t.grad.numpy().flatten() for name, t in w.items()})


def compare(what, found, names, logits, gradients):
    """Fails unless ours are within the tolerances of the expected logits and gradients (by name)."""
    worst = difference(found[:logits.size], logits)
    assert worst < LOGITS, f"{what}: logits differ by {worst}"
    assert sorted(names) == sorted(gradients), (what, sorted(names), sorted(gradients))
    at, worst_gradient = logits.size, 0.0
    # Some are 0 but for rounding: a key's bias adds the same to all scores of a token.
    largest = max(float(np.abs(values).max()) for values in gradients.values())
    for name in names:
        expected = gradients[name]
        worst_gradient = max(worst_gradient, difference(found[at: at + expected.size], expected, 1e-3 * largest))
        assert worst_gradient < GRADIENTS, f"{what}: the gradient of {name} differs by {worst_gradient}"
        at += expected.size
    assert at == found.size, (what, at, found.size)
    print(f"{what}: largest difference of logits {worst:.1e}, of gradients {worst_gradient:.1e}")


def check_transformers(tool, folder):
    """The network of a folder, on batches of texts of 1 token to as many as it takes, the last one filled up."""
    from transformers import AutoModelForSequenceClassification
    network = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    outputs = network.config.num_labels
    generator = torch.Generator().manual_seed(5)
    for length in sorted({1, 2, 7, 40, network.config.max_position_embeddings}):
        if length > network.config.max_position_embeddings:
            continue
        tokens = torch.randint(5, network.config.vocab_size, (3, length), generator=generator)
        kept = torch.tensor([length, (length + 1) // 2, 1])
        mask = (torch.arange(length)[None, :] < kept[:, None]).long()
        tokens = tokens * mask
        targets = torch.randint(0, outputs, (3,), generator=generator)
        network.zero_grad()
        logits = network(input_ids=tokens, attention_mask=mask).logits
        F.cross_entropy(logits, targets).backward()
        gradients = {name: (torch.zeros_like(t) if t.grad is None else t.grad).numpy().flatten()
                     for name, t in network.named_parameters()}
        found, names = ours(tool, os.path.join(folder, "config.json"), os.path.join(folder, "model.safetensors"), tokens,
                            mask, targets, outputs, "classes")
        compare(f"{folder}, {length} tokens", found, names, logits.detach().numpy().flatten(), gradients)


def check_small_transformers(tool):
    """BERT and DistilBERT as transformers itself makes, initializes and saves them."""
    try:
        import transformers
    except ImportError:
        print("[eqt-skip] Python's package transformers is not installed")
        return
    for family, numbers in (("bert", BERT), ("distilbert", DISTILBERT)):
        torch.manual_seed(5)
        config = transformers.AutoConfig.for_model(**numbers, num_labels=4)
        network = transformers.AutoModelForSequenceClassification.from_config(config)
        with torch.no_grad():  # biases and norms begin with 0 and 1, which would hide mistakes
            for parameter in network.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
        with tempfile.TemporaryDirectory() as folder:
            network.save_pretrained(os.path.join(folder, family), safe_serialization=True)
            check_transformers(tool, os.path.join(folder, family))


if __name__ == "__main__":
    torch.set_num_threads(1)
    if len(sys.argv) > 2:
        if sys.argv[2] == "transformers":
            check_small_transformers(sys.argv[1])
        else:
            check_transformers(sys.argv[1], sys.argv[2])
        sys.exit(0)
    for head in ("classes", "next_token"):
        check(sys.argv[1], "bert", head)
        check(sys.argv[1], "distilbert", head)
    check(sys.argv[1], "bert", "classes", renamed=True)
