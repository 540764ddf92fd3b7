#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The lines of python/README.md for timm, Lightning and Hugging Face's Trainer, each on two ranks of Gloo.

    trainers_test.py       starts the ranks by torch.distributed.run; a trainer that is not installed is skipped
    trainers_test.py NAME  is one of them
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch
import torch.distributed as dist

import equant

STEPS = 4


def data():
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(2 * STEPS * 8, 3, 32, 32, generator=generator)
    return inputs, (inputs.mean((1, 2, 3)) > 0).long()


def network():
    torch.manual_seed(2)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 32), torch.nn.ReLU(),
                               torch.nn.Linear(32, 2))


def require_trained(hook, model):
    """The hook had every step, and the ranks have the same parameters."""
    assert hook.step == STEPS, f"{hook.step} of {STEPS} steps reached the hook"
    assert hook.sent_bytes > 0, "nothing was sent"
    for parameter in model.parameters():
        found = [torch.empty_like(parameter) for _ in range(2)]
        dist.all_gather(found, parameter.detach().contiguous())
        assert torch.equal(*found), "ranks have different parameters"


def of_timm():
    """What train.py does with a task: it is not in timm's package."""
    import timm
    from timm.task import ClassificationTask
    dist.init_process_group("gloo")
    torch.manual_seed(2)
    model = timm.create_model("resnet10t", num_classes=2)
    task = ClassificationTask(model=model, criterion=torch.nn.CrossEntropyLoss(), device=torch.device("cpu"),
                              verbose=False)
    task.prepare_distributed(device_ids=None, broadcast_buffers=True)
    model = task.get_trainable_module()
    hook = equant.DDPHook(model, "e-elastiquant", when="always")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, labels = data()
    for step in range(STEPS):
        batch = slice(8 * (2 * step + dist.get_rank()), 8 * (2 * step + dist.get_rank() + 1))
        optimizer.zero_grad()
        task(inputs[batch], labels[batch])["loss"].backward()
        optimizer.step()
    require_trained(hook, model)


def of_lightning():
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = network()

        def on_train_start(self):
            self.hook = equant.DDPHook(self.trainer.strategy.model, "e-elastiquant", when="always")

        def training_step(self, batch, index):
            inputs, labels = batch
            return torch.nn.functional.cross_entropy(self.network(inputs), labels)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

        def on_train_end(self):
            require_trained(self.hook, self)

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data()), batch_size=8)
    trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, logger=False,
                                enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Module(), loader)


def of_transformers():
    import transformers
    torch.manual_seed(2)
    model = transformers.BertForSequenceClassification(transformers.BertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64))
    tokens = torch.randint(0, 100, (2 * STEPS * 8, 16), generator=torch.Generator().manual_seed(1))
    rows = [{"input_ids": row, "labels": row[0] % 2} for row in tokens]

    class Compress(transformers.TrainerCallback):
        def on_train_begin(self, arguments, state, control, **rest):
            self.hook = equant.DDPHook(trainer.model_wrapped, "e-elastiquant", when="always")

    with tempfile.TemporaryDirectory() as folder:
        trainer = transformers.Trainer(model=model, train_dataset=rows, args=transformers.TrainingArguments(
            folder, use_cpu=True, ddp_backend="gloo", per_device_train_batch_size=8, num_train_epochs=1,
            report_to=[], save_strategy="no", disable_tqdm=True))
        compress = Compress()
        trainer.add_callback(compress)
        trainer.train()
        require_trained(compress.hook, model)


def is_installed(name):
    return importlib.util.find_spec(name) is not None


class Trainers(unittest.TestCase):
    def run_ranks(self, name):
        if not is_installed(name):
            self.skipTest(f"{name} is not installed")
        environment = dict(os.environ, OMP_NUM_THREADS="1", USE_LIBUV="0", PYTHONPATH=os.pathsep.join(
            [str(pathlib.Path(equant.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]))
        run = subprocess.run([sys.executable, "-B", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                              "2", __file__, name], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             env=environment, timeout=250)
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertEqual(run.stdout.count(f"{name} trained"), 2, run.stdout)

    def test_timm(self):
        self.run_ranks("timm")

    def test_lightning(self):
        self.run_ranks("lightning")

    def test_transformers(self):
        self.run_ranks("transformers")


if __name__ == "__main__":
    names = ("timm", "lightning", "transformers")
    if not any(map(is_installed, names)):
        print(f"[eqt-skip] none of {', '.join(names)} is installed")
    elif len(sys.argv) == 2 and sys.argv[1] in names:
        globals()["of_" + sys.argv[1]]()
        print(f"{sys.argv[1]} trained", flush=True)
        dist.barrier()
        dist.destroy_process_group()
    else:
        unittest.main()
