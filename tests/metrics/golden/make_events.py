#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes events.json: bytes of events as TensorBoard's own protocol buffers and record writer make them.

Needs the Python package tensorboard (2.21.0 made the file): python3 tests/metrics/golden/make_events.py > tests/metrics/golden/events.json
metrics/golden/events_test.cpp writes the same events by hand and compares.
"""
import io
import json

from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, types_pb2
from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

WALL = 1700000000.25
STEP = 300  # two bytes as a varint

golden = {}


def note(name, event):
    golden[name] = event.SerializeToString().hex()


def summary(step, **value):
    return event_pb2.Event(wall_time=WALL, step=step,
                           summary=summary_pb2.Summary(value=[summary_pb2.Summary.Value(**value)]))


note("version", event_pb2.Event(wall_time=WALL, file_version="brain.Event:2"))
note("restart", event_pb2.Event(wall_time=WALL, step=STEP, session_log=event_pb2.SessionLog(
    status=event_pb2.SessionLog.START)))
note("scalars", event_pb2.Event(wall_time=WALL, step=STEP, summary=summary_pb2.Summary(value=[
    summary_pb2.Summary.Value(tag="step/loss", simple_value=2.5),
    summary_pb2.Summary.Value(tag="step/seconds/data", simple_value=0.1)])))
note("histogram", summary(STEP, tag="gradient/all", histo=summary_pb2.HistogramProto(
    min=-1.5, max=2.0, num=7, sum=3.25, sum_squares=11.0, bucket_limit=[-1.0, 1.0, 2.5], bucket=[1, 4, 2])))
note("image", summary(STEP, tag="samples", image=summary_pb2.Summary.Image(
    height=2, width=3, colorspace=1, encoded_image_string=b"\x89PNG")))
text = tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=["# a\n\u00e4".encode()])
text.tensor_shape.dim.add(size=1)
note("text", summary(STEP, tag="config", tensor=text, metadata=summary_pb2.SummaryMetadata(
    plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name="text"),
    data_class=summary_pb2.DATA_CLASS_TENSOR)))


def hparams(tag, **data):
    content = plugin_data_pb2.HParamsPluginData(version=0, **data).SerializeToString()
    return summary(0, tag=tag, tensor=metadata.NULL_TENSOR, metadata=summary_pb2.SummaryMetadata(
        plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name="hparams", content=content)))


for name, kind, value in [("setting_number", "number_value", 0.5), ("setting_flag", "bool_value", True),
                          ("setting_text", "string_value", "qsgd")]:
    start = plugin_data_pb2.SessionStartInfo(start_time_secs=WALL)
    setattr(start.hparams["a.b"], kind, value)
    note(name, hparams("_hparams_/session_start_info", session_start_info=start))
note("success", hparams("_hparams_/session_end_info", session_end_info=plugin_data_pb2.SessionEndInfo(
    status=api_pb2.STATUS_SUCCESS, end_time_secs=WALL)))

framed = io.BytesIO()
RecordWriter(framed).write(bytes.fromhex(golden["version"]))
golden["framed_version"] = framed.getvalue().hex()
print(json.dumps(golden, indent=1))
