"""The unit tests of both environments run at once, and their tensors are small: one thread each is faster."""

import torch

torch.set_num_threads(1)
