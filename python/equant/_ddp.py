# SPDX-License-Identifier: Apache-2.0
"""DDPHook: gradients of PyTorch's DistributedDataParallel over Gloo, compressed.

Each parameter is cut in one segment for each rank, its owner. A rank sends every owner its compressed gradient of that
segment; the owner adds what it receives to its own gradient, in the order of ranks, compresses the mean and sends it to
all, and takes for itself what it sent, decoded. What is sent of a parameter does not depend on DDP's buckets: they
decide only when. Tensors of one dimension or few values are exchanged as they are.

A message between two ranks is a frame of several compressed segments: a head of four int64 (bytes, kind of failure, and
the rank and parameter where it happened), then, unless it tells of a failure, each segment as its length (uint32) and
its bytes. The frames of both exchanges have tags of their own in a process group of their own.
"""

import atexit
import collections
import contextlib
import ctypes
import datetime
import json
import queue
import struct
import sys
import threading
import time
import weakref

import torch
import torch.distributed as dist

from ._library import LOSSLESS, VOTES, Codec, Diverged, library_version

_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_TAGS = ((0x4551, 0x4552), (0x4553, 0x4554))  # head and body of a frame: to owners, from owners
_FRAME_BYTES = 1 << 17  # a frame is sent when it has as many
_SEGMENT_VALUES = 1 << 20  # larger segments are cut, so that sending begins early
_MEAN = 1 << 31  # in the number of a message from an owner
_NOT_FINITE, _BROKEN = 1, 2  # kinds of failure
_PAIRS = 3  # of steps that are measured, at most
_CLEAR, _BETTER = 2.0, 0.95  # ratios of times: that decides after one pair, that compression must reach after all
_made = collections.Counter()  # hooks of this process by the ranks that share them: names the next in the store
_open = weakref.WeakSet()  # hooks whose threads run
_LAST_SECONDS = 5  # that the threads get to end when the process does


class _PeerFailed(Exception):
    """Another rank told of a failure: kind, rank and number of the parameter."""


class _Stopped(Exception):
    """The hook has failed already."""


class _Parameter:
    """What the hook knows of a parameter.

    `pieces`: of those that are compressed, lists of (first value, count, rows) by owner; None: it is sent as it is.
    `message`: the number of its first message within a step.
    """

    def __init__(self, name, shape, ranks, skip_below, message):
        self.name, self.count, self.message, self.pieces = name, shape.numel(), message, None
        if len(shape) < 2 or self.count < skip_below or self.count == 0:
            return
        # Segments are whole rows, where there are enough.
        rows = shape[0] if shape[0] >= ranks else 0
        unit = self.count // rows if rows else 1
        units, each = self.count // unit, ranks * max(1, _SEGMENT_VALUES // unit)
        self.pieces = []
        for begin in range(0, units, each):
            end = min(begin + each, units)
            bounds = [begin + (end - begin) * owner // ranks for owner in range(ranks + 1)]
            self.pieces.append([(a * unit, (b - a) * unit, b - a if rows else 0) for a, b in zip(bounds, bounds[1:])])


class _Layout:
    """The parameters of a bucket: `raw`, (number, first value, count) of those that are sent as they are, `raw_bounds`
    of the ranks' segments in all of them, and `coded`, (number, first value) of the others."""

    def __init__(self, numbers, parameters, ranks):
        self.numbers, self.raw, self.coded, at, raw_count = numbers, [], [], 0, 0
        for number in numbers:
            parameter = parameters[number]
            if parameter.pieces is None:
                self.raw.append((number, at, parameter.count))
                raw_count += parameter.count
            else:
                self.coded.append((number, at))
            at += parameter.count
        self.count = at
        self.raw_bounds = [raw_count * owner // ranks for owner in range(ranks + 1)]


class _Job:
    """A bucket on its way: the gradient in float32, which becomes the mean, and the future of it."""

    def __init__(self, buffer, layout, step, is_last):
        self.gradient = buffer.float()  # the buffer itself if it is float32
        self.dtype, self.layout, self.step, self.is_last = buffer.dtype, layout, step, is_last
        parts = [self.gradient[at:at + count] for _, at, count in layout.raw]
        self.raw = torch.cat(parts) if parts else torch.empty(0)
        self.owned = threading.Event()  # this rank's segments have their means
        self.future = torch.futures.Future()
        self.done = False


class _Coder:
    """A codec of one thread, with room for its messages and sums."""

    def __init__(self, name, options, seed, most):
        self.codec = Codec(name, options, seed)
        self.capacity = self.codec.max_bytes(most)
        self.room = ctypes.create_string_buffer(max(self.capacity, 1))
        self.total = torch.empty(most)

    def encode(self, step, tensor, rank, rows, values, count, residual):
        """Returns a view of the message, which is valid until the next call."""
        written = self.codec.encode(step, tensor, rank, rows, values, count, residual, ctypes.addressof(self.room),
                                    self.capacity)
        return memoryview(self.room)[:written]


class _Outbox:
    """Collects messages to `peers`, which all get the same, into frames."""

    def __init__(self, hook, peers, exchange):
        self.hook, self.peers, self.exchange, self.frame = hook, peers, exchange, bytearray()

    def add(self, message):
        self.frame += struct.pack("<I", len(message))
        self.frame += message
        if len(self.frame) >= _FRAME_BYTES:
            self.flush()

    def flush(self):
        if self.frame:
            body, self.frame = torch.frombuffer(self.frame, dtype=torch.uint8), bytearray()
            self.hook._send(self.peers, self.exchange, body)


class _Inbox:
    """Takes messages out of the frames of one peer."""

    def __init__(self, hook, peer, exchange):
        self.hook, self.peer, self.exchange, self.frame, self.at = hook, peer, exchange, bytearray(), 0

    def message(self):
        """Returns address and length of the next one, which are valid until the next call."""
        if self.at == len(self.frame):
            self.frame, self.at = self.hook._receive(self.peer, self.exchange), 0
            self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.frame))
        length, = struct.unpack_from("<I", self.frame, self.at)
        begin = self.at + 4
        self.at = begin + length
        if self.at > len(self.frame):
            raise ValueError(f"expected a message of {length} bytes from rank {self.peer}, found {len(self.frame)} in "
                             "its frame")
        return self.address + begin, length


class DDPHook:
    """Averages the gradients of a DistributedDataParallel model, compressed; registers itself as its hook.

        hook = equant.DDPHook(ddp_model, "e-elastiquant", bits=4)

    `error_feedback`: what compression leaves out is added to the next gradient, as Karimireddy et al., ICML 2019.
    `process_group`: that of the averages, the model's by default, with the backend Gloo. The hook makes one of its own
    with the same ranks, so that its messages do not mix with others.
    `when`: "always", or "auto": the first steps are averaged by turns compressed and by allreduce, and from then on as
    is faster; rank 0 prints which, once.
    `seed`: of the random rounding. `wait_seconds`: how long this rank waits for the others to register.
    `options`: keys of the section "compressor" of a config (docs/keys.md), as bits=4.

    Gradients are float32, float16, bfloat16 or float64, in main memory. The mean has the gradients' type; it is
    computed in float32, in float64 where float64 is averaged by allreduce.
    Construct it on all ranks, after DistributedDataParallel and before the first step. Raises TypeError and ValueError,
    with the same sentence on all ranks, if a rank cannot take part or settings differ. In training, backward() raises
    RuntimeError on all ranks with a sentence when one has gradients that are not finite.
    """

    def __init__(self, ddp_model, compressor="e-elastiquant", *, error_feedback=True, process_group=None, when="auto",
                 seed=1, wait_seconds=60, **options):
        if not isinstance(ddp_model, torch.nn.parallel.DistributedDataParallel):
            raise TypeError("expected a model that DistributedDataParallel wraps for DDPHook, found "
                            f"{type(ddp_model).__name__}; try DDPHook(DistributedDataParallel(model))")
        of_model = process_group or ddp_model.process_group
        self.rank, self.ranks = dist.get_rank(of_model), dist.get_world_size(of_model)
        self._settings = {"version": library_version(), "compressor": compressor, "options": options,
                          "error_feedback": error_feedback, "when": when, "seed": seed}
        error = None
        try:
            self._prepare(ddp_model.module, of_model)
        except (TypeError, ValueError, ImportError) as problem:
            error = problem
        members = [dist.get_global_rank(of_model, rank) for rank in range(self.ranks)]
        _made[tuple(members)] += 1
        place = f"equant/{','.join(map(str, members))}/{_made[tuple(members)]}"
        self._compare_ranks(place, members, None if error is None else str(error), wait_seconds)
        self._group = self._own_group(of_model, place)
        self.step = 0
        self._compresses = True if when == "always" else None  # None: it is being measured
        self._pairs, self._pair, self._began = [], [], 0.0
        self._not_finite = 0  # in a step of allreduce: 1 + rank + ranks * number of a parameter, or 0
        self._residuals, self._layouts = {}, {}
        self._failure, self._lock, self._sent, self.sent_bytes = None, threading.Lock(), collections.deque(), 0
        self._pending = []
        self._finds_unused = ddp_model.find_unused_parameters
        try:
            ddp_model.register_comm_hook(self, _hook)
        except RuntimeError as problem:
            raise ValueError("expected a model without a communication hook for DDPHook, found one that has a hook "
                             f"({str(problem).splitlines()[0]}); wrap the module in a new DistributedDataParallel"
                             ) from problem
        self._queues, self._threads = [], []
        for work in (self._to_owners, self._own, self._from_owners):
            self._queues.append(queue.Queue())
            self._threads.append(threading.Thread(target=self._run, args=(self._queues[-1], work()), name="equant",
                                                  daemon=True))
            self._threads[-1].start()
        _open.add(self)
        if self.rank == 0 and any(parameter.dtype == torch.float64 for parameter in ddp_model.parameters()):
            print("equant: gradients of float64 are rounded to float32 before they are compressed", file=sys.stderr)

    def _prepare(self, module, group):
        """Checks what the rank can see by itself; sets the parameters and the residuals' need."""
        settings = self._settings
        backend = _backend(group)
        if backend != "gloo":
            raise ValueError(f"expected a process group with the backend gloo for DDPHook, found {backend}; try "
                             'process_group=torch.distributed.new_group(backend="gloo")')
        if settings["when"] not in ("auto", "always"):
            raise ValueError(f'expected "auto" or "always" as when of DDPHook, found {settings["when"]!r}')
        if not isinstance(settings["error_feedback"], bool):
            raise TypeError("expected True or False as error_feedback of DDPHook, found "
                            f"{settings['error_feedback']!r}")
        if not isinstance(settings["seed"], int) or not 0 <= settings["seed"] < 2**64:
            raise ValueError(f"expected a whole number of 0 to 2^64 - 1 as seed of DDPHook, found {settings['seed']!r}")
        codec = Codec(settings["compressor"], settings["options"], settings["seed"])
        if settings["error_feedback"]:
            _require_contraction(codec, settings["compressor"])
        skip_below = settings["options"].get("skip_below", 1024)
        for name, part in module.named_modules():
            if getattr(part, "sparse", False) and isinstance(part, (torch.nn.Embedding, torch.nn.EmbeddingBag)):
                raise TypeError(f"expected dense gradients of the module {name} for DDPHook, found sparse=True; try "
                                "sparse=False")
        self.parameters, self._numbers, message = [], {}, 0
        for name, parameter in module.named_parameters():
            if not parameter.requires_grad:
                continue
            _require_gradient(f"the parameter {name}", parameter)
            self._numbers[id(parameter)] = len(self.parameters)
            known = _Parameter(name, parameter.shape, self.ranks, skip_below, message)
            message += self.ranks * len(known.pieces or ())
            self.parameters.append(known)
        if message >= _MEAN:
            raise ValueError(f"expected at most {_MEAN} messages in a step of DDPHook, found {message}; use fewer "
                             "ranks")
        self._most = max([count for parameter in self.parameters for piece in parameter.pieces or ()
                          for _, count, _ in piece], default=0)
        self._kept_alive = module  # id() names a parameter while it lives

    def _compare_ranks(self, place, members, error, wait_seconds):
        """Raises ValueError on all ranks if one of them cannot take part, has other settings, or is missing."""
        store = dist.distributed_c10d._get_default_store()
        mine = dict(self._settings, parameters=sum(p.count for p in getattr(self, "parameters", [])), ranks=self.ranks)
        try:
            text = json.dumps({"error": error} if error else mine, sort_keys=True, default=repr)
        except (TypeError, ValueError) as problem:
            text = json.dumps({"error": str(problem)})
        store.set(f"{place}/{members[self.rank]}", text)
        end, of_ranks, missing = time.monotonic() + wait_seconds, [], []
        for rank, member in enumerate(members):
            key = f"{place}/{member}"
            try:
                store.wait([key], datetime.timedelta(seconds=max(0.5, end - time.monotonic())))
                of_ranks.append(json.loads(store.get(key)))
            except RuntimeError:  # not in time, or the store is gone
                of_ranks.append(None)
                missing.append(rank)
        # The process of rank 0 may have the store, and ends after a sentence: all have read when all have said so.
        try:
            store.set(f"{place}/{members[self.rank]}/read", "1")
            store.wait([f"{place}/{members[rank]}/read" for rank in range(self.ranks) if rank not in missing],
                       datetime.timedelta(seconds=5))
        except RuntimeError:
            pass  # what was to be read is here
        if missing:
            raise ValueError(f"expected all {self.ranks} ranks to make a DDPHook, found none on {_ranks(missing)} "
                             f"after {wait_seconds} s; make it on all ranks, after DistributedDataParallel, or give "
                             "more wait_seconds")
        for rank, of_rank in enumerate(of_ranks):
            if "error" in of_rank:
                raise ValueError(f"rank {rank}: {of_rank['error']}")
        for rank, of_rank in enumerate(of_ranks):
            for key in of_rank:
                if of_rank[key] != of_ranks[0][key]:
                    raise ValueError(
                        f"expected the same {key} of DDPHook on all ranks, found {json.dumps(of_ranks[0][key])} on "
                        f"rank 0 and {json.dumps(of_rank[key])} on rank {rank}; give all ranks the same arguments")

    def _own_group(self, group, place):
        """Returns a process group of the same ranks and timeout, which PyTorch does not list: new_group() counts calls,
        and ranks that are not in `group` would count fewer."""
        backend = group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group
        timeout = getattr(getattr(backend, "options", None), "_timeout", dist.default_pg_timeout)
        store = dist.PrefixStore(f"{place}/gloo", dist.distributed_c10d._get_default_store())
        return dist.ProcessGroupGloo(store, self.rank, self.ranks, timeout=timeout)

    # The hook itself, in the thread of autograd.

    def _on_bucket(self, bucket):
        if self._failure is not None:
            raise self._failure
        try:
            return self._average(bucket)
        except Exception as error:
            self._fail(error)  # others wait for this rank
            raise

    def _average(self, bucket):
        """Returns the future of a bucket's mean."""
        buffer, is_last = bucket.buffer(), bucket.is_last()
        _require_gradient("a bucket", buffer)
        if bucket.index() == 0:
            self._begin_step()
        layout = self._layout_of(bucket)
        if buffer.numel() != layout.count:
            raise ValueError(f"expected {layout.count} gradients in bucket {bucket.index()}, found {buffer.numel()}; "
                             "report it with the versions of PyTorch and equant")
        if self._now_compresses():
            job = _Job(buffer, layout, self.step, is_last)
            with self._lock:
                if self._failure is not None:
                    raise self._failure
                self._pending.append(job)
            future = job.future
            for jobs in self._queues:
                jobs.put(job)
        else:
            future = self._allreduce(buffer, layout, is_last)
        return future.then(lambda found: self._end(found, is_last))

    def _end(self, found, is_last):
        value = found.value()
        if isinstance(value, Exception):
            raise value
        if is_last and self._compresses is None and self.step > 1:
            self._pair.append(time.monotonic() - self._began)
        return value[0] if isinstance(value, list) else value

    def _layout_of(self, bucket):
        try:
            numbers = [self._numbers[id(parameter)] for parameter in bucket.parameters()]
        except KeyError:
            raise ValueError(f"expected parameters that the model had when DDPHook was made, found others in bucket "
                             f"{bucket.index()}; make the hook after the model is complete") from None
        known = self._layouts.get(bucket.index())
        if known is None or known.numbers != numbers:
            known = self._layouts[bucket.index()] = _Layout(numbers, self.parameters, self.ranks)
        return known

    def _begin_step(self):
        self._began = time.monotonic()
        if self._compresses is None and len(self._pair) == 2:
            self._decide()
        self.step += 1

    def _now_compresses(self):
        """While it is measured: the first step, which is not counted, and then every second one."""
        return self.step == 1 or self.step % 2 == 0 if self._compresses is None else self._compresses

    def _decide(self):
        pair = torch.tensor(self._pair, dtype=torch.float64)
        self._pair = []
        self._group.allreduce([pair], _maximum()).wait()
        self._pairs.append(pair.tolist())
        compressed, plain = (min(seconds) for seconds in zip(*self._pairs))
        ratio = compressed / plain
        if 1 / _CLEAR < ratio < _CLEAR and len(self._pairs) < _PAIRS:
            return
        self._compresses = ratio < _BETTER
        if self.rank == 0:
            done = f"compresses with {self._settings['compressor']}" if self._compresses else "leaves them to allreduce"
            print(f"equant: from the backward pass's first gradients to the last mean it takes {compressed:.3f} s "
                  f"compressed, {plain:.3f} s by allreduce: DDPHook {done}", file=sys.stderr)

    def _allreduce(self, buffer, layout, is_last):
        """Returns the future of the exact mean, to which what earlier steps left out is added.

        Ranks tell each other of gradients that are not finite with the last bucket of a step: all of them have begun
        all sums by then, so that none waits for one that another rank has given up.
        """
        dtype = buffer.dtype
        gradient = buffer if dtype in (torch.float32, torch.float64) else buffer.float()
        for number, at in layout.coded:
            residual = None
            if not self._waits(gradient[at:at + self.parameters[number].count]):
                residual = self._residuals.pop(number, None)
            if residual is not None:
                for piece in self.parameters[number].pieces:
                    begin, count, _ = piece[self.rank]  # what is left of means
                    residual[begin:begin + count] *= self.ranks
                gradient[at:at + len(residual)] += residual
        gradient /= self.ranks
        try:
            self._require_all_finite(gradient, layout)
        except _PeerFailed as error:
            _, rank, number = error.args
            self._not_finite = 1 + rank + self.ranks * number
        told = None
        if is_last:  # before the sum, whose end must not wait for something that has not begun
            worst = torch.tensor([self._not_finite])
            told = self._group.allreduce([worst], _maximum())
        work = self._group.allreduce([gradient])

        def end(found):
            if told is not None:
                told.wait()
                if worst.item() > 0:
                    number, rank = divmod(worst.item() - 1, self.ranks)
                    self._fail(_PeerFailed(_NOT_FINITE, rank, number))
                    raise self._failure
            return found.value()[0].to(dtype)
        return work.get_future().then(end)

    # Sending and receiving, by all threads.

    def _send(self, peers, exchange, body):
        head = torch.tensor([body.numel(), 0, 0, 0])
        with self._lock:
            if self._failure is not None:
                raise _Stopped
            for peer in peers:
                for part, tag in zip((head, body), _TAGS[exchange]):
                    with _answering(peer):
                        self._sent.append((self._group.send([part], peer, tag), part, peer))
            self.sent_bytes += (32 + body.numel()) * len(peers)

    def _receive(self, peer, exchange):
        """Returns the bytes of the next frame."""
        head_tag, body_tag = _TAGS[exchange]
        head = torch.zeros(4, dtype=torch.int64)
        with _answering(peer):
            self._group.recv([head], peer, head_tag).wait()
            size, kind, rank, number = head.tolist()
            if kind != 0:
                raise _PeerFailed(kind, rank, number)
            frame = bytearray(size)
            self._group.recv([torch.frombuffer(frame, dtype=torch.uint8)], peer, body_tag).wait()
            return frame

    def _forget_sent(self, keep):
        """Waits until at most `keep` of what was sent has not been received, and lets go of its memory."""
        while True:
            with self._lock:
                if len(self._sent) <= keep or self._failure is not None:
                    return
                work, _, peer = self._sent.popleft()
            with _answering(peer):
                work.wait()

    # The three threads. Each is a function that makes what the thread keeps and returns what it does for a job.

    def _run(self, jobs, work):
        while True:
            job = jobs.get()
            if job is None:
                return
            if self._failure is None:
                try:
                    work(job)
                except BaseException as error:  # backward() raises it
                    self._fail(error)

    def _coder(self):
        settings = self._settings
        return _Coder(settings["compressor"], settings["options"], settings["seed"], self._most)

    def _waits(self, values):
        """Returns whether what was left out stays where it is: for zeros where parameters may be unused. DDP drops the
        mean of one that no rank has used, so that what was left out waits for one that is applied."""
        return self._finds_unused and not values.any()

    def _residual(self, number, values):
        """The address of what is kept of a parameter: in others' segments of the gradient, in one's own of the mean.
        None if nothing is kept, or if it waits."""
        if not self._settings["error_feedback"] or self._waits(values):
            return None
        with self._lock:
            if number not in self._residuals:
                self._residuals[number] = torch.zeros(self.parameters[number].count)
            return self._residuals[number].data_ptr()

    def _to_owners(self):
        coder = self._coder()
        others = [(self.rank + i) % self.ranks for i in range(1, self.ranks)]
        outboxes = {peer: _Outbox(self, [peer], 0) for peer in others}

        def work(job):
            if not _is_finite(job.raw):
                for number, at, count in job.layout.raw:
                    self._require_finite(job.gradient[at:at + count], number)
            bounds = job.layout.raw_bounds
            for peer in others:
                if bounds[peer] < bounds[peer + 1]:
                    outboxes[peer].add(_bytes_of(job.raw[bounds[peer]:bounds[peer + 1]]))
            for number, at in job.layout.coded:
                parameter = self.parameters[number]
                if coder.codec.properties & LOSSLESS:
                    self._require_finite(job.gradient[at:at + parameter.count], number)
                residual = self._residual(number, job.gradient[at:at + parameter.count])
                gradient = job.gradient.data_ptr() + 4 * at
                for index, piece in enumerate(parameter.pieces):
                    for peer in others:
                        begin, count, rows = piece[peer]
                        if count > 0:
                            outboxes[peer].add(self._encode(
                                coder, number, job.step, parameter.message + index * self.ranks + peer, rows,
                                gradient + 4 * begin, count, residual and residual + 4 * begin))
            for outbox in outboxes.values():
                outbox.flush()
            self._forget_sent(16 * self.ranks)
        return work

    def _own(self):
        coder = self._coder()
        inboxes = [_Inbox(self, peer, 0) for peer in range(self.ranks)]
        outbox = _Outbox(self, [peer for peer in range(self.ranks) if peer != self.rank], 1)
        # Products are rounded before they are added, as the library does, whatever processor it is.
        share, votes = 1 / self.ranks, coder.codec.properties & VOTES

        def mean_of_raw(job):
            begin, end = job.layout.raw_bounds[self.rank:self.rank + 2]
            if begin == end:
                return
            own, total = job.raw[begin:end], torch.zeros(end - begin)
            received = torch.empty(end - begin)
            for rank, inbox in enumerate(inboxes):
                if rank == self.rank:
                    total += own * share
                else:
                    _copy(inbox.message(), received)
                    total += received * share
            own.copy_(total)
            outbox.add(_bytes_of(own))

        def mean_of(job, number, message, own, segment):
            begin, count, rows = segment
            total = coder.total[:count].zero_()
            for rank, inbox in enumerate(inboxes):
                if rank != self.rank:
                    address, length = inbox.message()
                elif not votes:
                    total += own * share
                    continue
                else:  # a sign has another size than the gradient
                    view = self._encode(coder, number, job.step, message, rows, own.data_ptr(), count, None)
                    address, length = ctypes.addressof(coder.room), len(view)
                coder.codec.decode_add(job.step, message, address, length, share, total.data_ptr(), count)
            if votes:
                coder.codec.finish_mean(total.data_ptr(), count)
            residual = self._residual(number, total)
            view = self._encode(coder, number, job.step, message | _MEAN, rows, total.data_ptr(), count,
                                residual and residual + 4 * begin)
            coder.codec.decode(job.step, message | _MEAN, ctypes.addressof(coder.room), len(view), own.data_ptr(),
                               count)
            outbox.add(view)

        def work(job):
            mean_of_raw(job)
            for number, at in job.layout.coded:
                parameter = self.parameters[number]
                for index, piece in enumerate(parameter.pieces):
                    segment = piece[self.rank]
                    if segment[1] > 0:
                        begin = at + segment[0]
                        mean_of(job, number, parameter.message + index * self.ranks + self.rank,
                                job.gradient[begin:begin + segment[1]], segment)
            outbox.flush()
            self._forget_sent(16 * self.ranks)
            job.owned.set()
        return work

    def _from_owners(self):
        codec = self._coder().codec
        inboxes = [_Inbox(self, peer, 1) for peer in range(self.ranks)]

        def work(job):
            bounds = job.layout.raw_bounds
            others = [peer for peer in range(self.ranks) if peer != self.rank]
            for peer in others:
                if bounds[peer] < bounds[peer + 1]:
                    _copy(inboxes[peer].message(), job.raw[bounds[peer]:bounds[peer + 1]])
            for number, at in job.layout.coded:
                parameter = self.parameters[number]
                for index, piece in enumerate(parameter.pieces):
                    for peer in others:
                        begin, count, _ = piece[peer]
                        if count > 0:
                            address, length = inboxes[peer].message()
                            codec.decode(job.step, parameter.message + index * self.ranks + peer | _MEAN, address,
                                         length, job.gradient.data_ptr() + 4 * (at + begin), count)
            while not job.owned.wait(1):
                if self._failure is not None:
                    return
            begin = 0
            for _, at, count in job.layout.raw:
                job.gradient[at:at + count] = job.raw[begin:begin + count]
                begin += count
            if job.is_last:  # a process that ends after its step would take with it what others have yet to receive
                self._forget_sent(0)
            self._finish(job, job.gradient.to(job.dtype))
        return work

    def _encode(self, coder, number, step, message, rows, values, count, residual):
        try:
            return coder.encode(step, message, self.rank, rows, values, count, residual)
        except Diverged as error:
            raise _PeerFailed(_NOT_FINITE, self.rank, number) from error

    def _require_finite(self, values, number):
        if not _is_finite(values):
            raise _PeerFailed(_NOT_FINITE, self.rank, number)

    def _require_all_finite(self, gradient, layout):
        """Checks each parameter in the gradient of a bucket as _require_finite() does."""
        if not _is_finite(gradient):
            for number, at in [part[:2] for part in layout.raw] + layout.coded:
                self._require_finite(gradient[at:at + self.parameters[number].count], number)

    def _finish(self, job, value):
        with self._lock:
            if job.done:
                return
            job.done = True
            if job in self._pending:
                self._pending.remove(job)
        job.future.set_result(value)

    def _fail(self, error):
        """Ends the hook: backward() raises a sentence on this rank and, by a frame to each, on all others."""
        kind, rank, number = _BROKEN, self.rank, 0
        if isinstance(error, _Stopped):
            return
        if isinstance(error, _PeerFailed):
            kind, rank, number = error.args
        if kind == _NOT_FINITE:
            found = FloatingPointError(
                f"expected finite gradients in DDPHook, found NaN, infinite or too large values on rank {rank} in the "
                f"parameter {self.parameters[number].name} at step {self.step}; try a smaller learning rate, clipping, "
                "or torch.autograd.set_detect_anomaly(True)")
        elif isinstance(error, _PeerFailed):
            found = ConnectionError(f"expected that rank {rank} exchanges gradients in DDPHook, found that it failed "
                                    f"at step {self.step}; see what that rank printed")
        else:
            found = error if isinstance(error, Exception) else RuntimeError(repr(error))
        with self._lock:
            if self._failure is not None:
                return
            self._failure = found
            head = torch.tensor([0, kind, rank, number])
            for peer in range(self.ranks):
                for tag, _ in _TAGS:
                    if peer != self.rank:
                        try:
                            self._sent.append((self._group.send([head], peer, tag), head, peer))
                        except RuntimeError:
                            pass  # that rank has ended: nobody waits there
            pending = list(self._pending)
        for job in pending:
            self._finish(job, found)

    def close(self):
        """Ends the hook's threads; the model cannot be trained any more."""
        closed = RuntimeError("expected a DDPHook that is open, found that close() was called; make a new one for a "
                              "new DistributedDataParallel")
        with self._lock:
            busy = len(self._pending) > 0
            if self._failure is None and not busy:
                self._failure = closed
        if busy:
            self._fail(closed)
        for jobs in self._queues:
            jobs.put(None)

    # Checkpoints.

    def state_dict(self):
        """Returns this rank's state between two steps; each rank saves its own.

        With it and DDP's model, optimizer and data as they were, a run goes on as if it had not been interrupted, bit
        for bit, where the exchange is compressed; after a choice of allreduce as exactly as allreduce is repeated.
        """
        if self._failure is not None:
            raise self._failure
        with self._lock:
            if self._pending:
                raise RuntimeError("expected no gradients on their way at DDPHook.state_dict(), found "
                                   f"{len(self._pending)} buckets; call it after backward()")
            residuals = {self.parameters[number].name: residual.clone() for number, residual in self._residuals.items()}
        return {"settings": json.dumps(self._settings, sort_keys=True), "rank": self.rank, "ranks": self.ranks,
                "step": self.step, "compresses": self._compresses, "pairs": [list(pair) for pair in self._pairs],
                "pair": list(self._pair), "residuals": residuals}

    def load_state_dict(self, state):
        """Continues from state_dict() of the same rank, with the same settings, before the first step."""
        expected = ("settings", "rank", "ranks", "step", "compresses", "pairs", "pair", "residuals")
        if not isinstance(state, dict) or any(key not in state for key in expected):
            raise ValueError("expected what DDPHook.state_dict() returned, found "
                             f"{sorted(state) if isinstance(state, dict) else type(state).__name__}; try the saved "
                             "state of the hook")
        if (state["rank"], state["ranks"]) != (self.rank, self.ranks):
            raise ValueError(f"expected the state of rank {self.rank} of {self.ranks} for DDPHook, found that of rank "
                             f"{state['rank']} of {state['ranks']}; save and load it on each rank, with as many ranks")
        mine, found = self._settings, json.loads(state["settings"])
        for key in mine:
            if key != "version" and json.dumps(found.get(key), sort_keys=True) != json.dumps(mine[key], sort_keys=True):
                raise ValueError(f"expected a state of DDPHook with {key} {json.dumps(mine[key])}, found "
                                 f"{json.dumps(found.get(key))}; make the hook with the settings of the saved run")
        numbers = {parameter.name: number for number, parameter in enumerate(self.parameters)}
        residuals = {}
        for name, residual in state["residuals"].items():
            if name not in numbers or residual.numel() != self.parameters[numbers[name]].count:
                raise ValueError(f"expected a state of this model for DDPHook, found {residual.numel()} values of "
                                 f"{name}; load it with the model of the saved run")
            residuals[numbers[name]] = residual.to(torch.float32).clone()
        with self._lock:
            self._residuals, self.step, self._compresses = residuals, state["step"], state["compresses"]
            self._pairs, self._pair = [list(pair) for pair in state["pairs"]], list(state["pair"])


@atexit.register
def _end_threads():
    """Ends the threads before the interpreter: one that it stopped in Gloo would end the process by SIGABRT. A rank
    that waits for this one learns that it ends."""
    hooks, end = list(_open), time.monotonic() + _LAST_SECONDS
    for hook in hooks:
        hook.close()
    for hook in hooks:
        for thread in hook._threads:
            thread.join(max(0, end - time.monotonic()))


@contextlib.contextmanager
def _answering(peer):
    """Turns what PyTorch says of a broken connection into a sentence."""
    try:
        yield
    except RuntimeError as error:
        text = str(error).splitlines()[0]
        raise ConnectionError(f"expected that rank {peer} exchanges gradients in DDPHook, found that it does not "
                              f"answer ({text}); see what that rank printed") from error


def _hook(hook, bucket):
    return hook._on_bucket(bucket)


def _maximum():
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.MAX
    return options


def _ranks(ranks):
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


def _bytes_of(tensor):
    """A view of a contiguous tensor's bytes, without NumPy."""
    return memoryview((ctypes.c_char * (tensor.numel() * tensor.element_size())).from_address(tensor.data_ptr()))


def _is_finite(values):
    """Whether all values are. A sum is that only of finite ones, and twenty times as fast as isfinite() of each, which
    is left for sums that overflow."""
    return bool(torch.isfinite(values.sum())) or bool(torch.isfinite(values).all())


def _copy(message, tensor):
    address, length = message
    if length != 4 * tensor.numel():
        raise ValueError(f"expected {4 * tensor.numel()} bytes of small tensors, found {length}")
    ctypes.memmove(tensor.data_ptr(), address, length)


def _backend(group):
    """The name of the backend for tensors in main memory."""
    name = dist.get_backend(group)
    if hasattr(dist, "get_backend_config"):  # "cpu:gloo,cuda:nccl"
        by_device = dict(part.split(":") for part in str(dist.get_backend_config(group)).split(",") if ":" in part)
        name = by_device.get("cpu", name)
    return name


def _require_gradient(what, tensor):
    if tensor.layout != torch.strided:
        raise TypeError(f"expected dense gradients of {what} for DDPHook, found {tensor.layout}; try sparse=False")
    if tensor.dtype not in _DTYPES:
        raise TypeError(f"expected float32, float16, bfloat16 or float64 in {what} for DDPHook, found {tensor.dtype}; "
                        "try .float()")
    if tensor.device.type != "cpu":
        raise TypeError(f"expected {what} in main memory for DDPHook, found it on the device {tensor.device}; try "
                        ".cpu(), or train without this hook")


def _require_contraction(codec, name):
    """Raises ValueError if what the compressor leaves out of typical values is larger than they: it would grow."""
    values = torch.randn(1 << 16, generator=torch.Generator().manual_seed(1)) * 1e-3
    residual = torch.zeros_like(values)
    capacity = codec.max_bytes(len(values))
    room = ctypes.create_string_buffer(capacity)
    codec.encode(0, 0, 0, 256, values.data_ptr(), len(values), residual.data_ptr(), ctypes.addressof(room), capacity)
    share = float(residual.square().sum() / values.square().sum())
    if share >= 1:
        raise ValueError("expected a compressor for error feedback in DDPHook, which leaves out less than it gets, "
                         f"found {name}, which leaves {share:.2f} of the squares; try error_feedback=False, or more "
                         "bits")
