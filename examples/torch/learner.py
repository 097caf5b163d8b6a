"""A classifier in PyTorch. Its arguments are numpy arrays, and its results tensors of torch."""
import numpy
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Learner:
    def __init__(self, hidden, rate):
        self.net = nn.Sequential(nn.Linear(2, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 2)).to(DEVICE)
        self.optimizer = torch.optim.Adam(self.net.parameters(), rate)

    def load(self, weights, moments):
        """Goes on with the weights, and with what Adam remembers of the gradients."""
        vector_to_parameters(torch.from_numpy(weights).to(DEVICE), self.net.parameters())
        state, at = self.optimizer.state_dict(), 0
        step, first, second = moments[0], *numpy.split(moments[1:], 2)
        for i, p in enumerate(self.net.parameters()):
            part = lambda m: torch.from_numpy(m[at:at + p.numel()]).reshape(p.shape).to(DEVICE)
            state["state"][i] = {"step": torch.tensor(step), "exp_avg": part(first), "exp_avg_sq": part(second)}
            at += p.numel()
        self.optimizer.load_state_dict(state)

    def save(self):
        state = self.optimizer.state_dict()["state"].values()
        moments = [next(iter(state))["step"].reshape(1).to(DEVICE)]
        for key in "exp_avg", "exp_avg_sq":
            moments += [s[key].reshape(-1) for s in state]
        return {"weights": parameters_to_vector(self.net.parameters()), "moments": torch.cat(moments)}

    def fit(self, x, y):
        loss = nn.functional.cross_entropy(self.net(torch.from_numpy(x).to(DEVICE)), torch.from_numpy(y).to(DEVICE))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return {"loss": loss.item(), "device": torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU"}

    def classify(self, x):
        with torch.no_grad():
            return {"y": self.net(torch.from_numpy(x).to(DEVICE)).argmax(1)}
