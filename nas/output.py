"""Standard streams whose reader may go, as in ``nas status DIR | head``: what is still said then goes nowhere."""

import io
import os
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def outliving_its_reader(stream: TextIO) -> TextIO:
    """``stream``, whose writes never raise BrokenPipeError, and show ``?`` for what its encoding lacks.

    Whoever writes, a trial in this process too, goes on: a study is worth more than its display. A stream without a
    descriptor is given back as it is.
    """
    try:
        raw = _Descriptor(stream.fileno(), "w", closefd=False)
    except (AttributeError, OSError, ValueError):
        return stream
    unbuffered = bool(getattr(stream, "write_through", False))
    return io.TextIOWrapper(
        raw if unbuffered else io.BufferedWriter(raw),
        stream.encoding,
        "replace",
        line_buffering=bool(getattr(stream, "line_buffering", False)),
        write_through=unbuffered,
    )


class _Descriptor(io.FileIO):
    """A descriptor that leads nowhere once its reader has gone, in child processes that start later too."""

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write as much as it takes; all, once nobody reads."""
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return super().write(data)
