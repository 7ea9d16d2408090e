"""Writes tests/monitor/golden.tfevents with TensorBoard's own messages and record writer.

Usage: event_file.py OUT
"""
import sys

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

EVENTS = [
    event_pb2.Event(wall_time=1700000000.25, file_version="brain.Event:2"),
    event_pb2.Event(wall_time=1700000000.5, step=769, session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START)),
]
SCALARS = [
    (0, "train_loss", 5.540217399597168),
    (127, "lr", 1e-05),
    (128, "loss_scale", 65536.0),
    (768, "eval_loss", float("nan")),
    (1 << 40, "elapsed_time_ms_backward_allreduce", -0.0),
]
for step, name, value in SCALARS:
    summary = summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag="Train/Samples/" + name, simple_value=value)])
    EVENTS.append(event_pb2.Event(wall_time=1700000001.0, step=step, summary=summary))

with open(sys.argv[1], "wb") as file:
    writer = RecordWriter(file)
    for event in EVENTS:
        writer.write(event.SerializeToString())
