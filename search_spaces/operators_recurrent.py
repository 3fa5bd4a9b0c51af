"""Recurrent cells and layers of them over a sequence. MODELS.md 1; Ben-Nun and Hoefler 2019, section 4.5.

``inputs`` Ci and ``width`` Ch are the numbers of x and of h; S = Ci + Ch.
"""

from collections.abc import Sequence

from search_spaces.operators import WorkDepth, elementwise
from search_spaces.operators_products import fully_connected


def lstm_cell(batch: int, inputs: int, width: int) -> WorkDepth:
    """One step (Hochreiter and Schmidhuber 1997; Gers et al. 2000): W = 8 N Ch S + 9 N Ch, D = lg S + 7.

    Four gates read [x, h] through one matrix with bias; ``c' = f c + i g``, ``h' = o tanh(c')``.
    """
    numbers = batch * width
    gates = fully_connected(batch, inputs + width, 4 * width, bias=True) + elementwise(4 * numbers)
    state = (elementwise(numbers) | elementwise(numbers)) + elementwise(numbers)
    return gates + state + elementwise(numbers, 2)


def gru_cell(batch: int, inputs: int, width: int) -> WorkDepth:
    """One step (Cho et al. 2014, eq. 5-8), reset after the product as in torch: W = 6 N Ch S + 9 N Ch, D = lg S + 8.

    Gates r, z read [x, h]; ``n = tanh(W x + b + r (U h + c))``, ``h' = (1 - z) n + z h``.
    """
    numbers = batch * width
    gates = fully_connected(batch, inputs + width, 2 * width, bias=True) + elementwise(2 * numbers)
    parts = fully_connected(batch, inputs, width, bias=True) | fully_connected(batch, width, width, bias=True)
    candidate = elementwise(numbers, 3) | elementwise(numbers)
    mixed = (elementwise(numbers) | elementwise(numbers)) + elementwise(numbers)
    return (gates | parts) + candidate + mixed


def recurrent_layers(cells: Sequence[WorkDepth], steps: int) -> WorkDepth:
    """Layers of cells, each reading the layer below and its own last step, over ``steps`` T.

    W = T sum(W_l), D = sum(D_l) + (T - 1) max(D_l): of L equal cells L T W and (L + T - 1) D, the wavefront. It holds
    where x and h enter a cell at the same depth, as in the cells above.
    """
    work = steps * sum(cell.work for cell in cells)
    depths = [cell.depth for cell in cells]
    return WorkDepth(work, sum(depths) + (steps - 1) * max(depths))
