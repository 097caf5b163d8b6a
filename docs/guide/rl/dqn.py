"""The learner of double DQN, in PyTorch. Arguments are numpy arrays; tensors of torch are results."""
import copy
import io

import numpy
import torch
from torch import nn
from torch.nn import functional

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
torch.set_num_threads(1)  # such a net is too small for more


class Learner:
    def tell(self, widths, weights, state):
        """Makes the net, and goes on as the learner that knew this."""
        layers = [part for i, o in zip(widths, widths[1:]) for part in (nn.Linear(i, o), nn.ReLU())]
        self.net = nn.Sequential(*layers[:-1]).to(DEVICE)
        for p, w in zip(self.net.parameters(), numpy.split(weights, numpy.cumsum([p.numel() for p in self.net.parameters()]))):
            p.data = torch.from_numpy(w).reshape(p.t().shape).t().contiguous().to(DEVICE)  # rl/net has a row for each input
        self.adam, self.target, self.steps = torch.optim.Adam(self.net.parameters(), 1e-3), copy.deepcopy(self.net), 0
        if state is not None:
            kept = torch.load(io.BytesIO(state.tobytes()), DEVICE)
            self.adam.load_state_dict(kept["adam"])
            self.target.load_state_dict(kept["target"])
            self.steps = kept["steps"]

    def learn(self, obs, actions, rewards, discounts, next, probabilities, size):
        arrays = obs, actions, rewards, discounts, next, probabilities
        obs, actions, rewards, discounts, next, probabilities = (torch.from_numpy(a).to(DEVICE) for a in arrays)
        with torch.no_grad():
            best = self.net(next).argmax(1, keepdim=True)
            goals = rewards + discounts * self.target(next).gather(1, best)
            shares = (size * probabilities) ** -0.2
        values = self.net(obs).gather(1, actions)
        losses = functional.huber_loss(values, goals, reduction="none") * shares / shares.max()
        loss = losses.mean()
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
        self.steps += 1
        if self.steps % 100 == 0:
            self.target.load_state_dict(self.net.state_dict())
        state = io.BytesIO()
        torch.save({"adam": self.adam.state_dict(), "target": self.target.state_dict(), "steps": self.steps}, state)
        weights = torch.cat([p.t().reshape(-1) for p in self.net.parameters()])
        return {"loss": loss.item(), "errors": (values - goals).abs().reshape(-1), "weights": weights, "state": state.getvalue()}
