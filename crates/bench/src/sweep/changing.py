# The cases of `changing.rs`, under the same names.
MOST = 300


def counter():
    n = 0

    def step():
        nonlocal n
        n = n % MOST + 1
        return n

    return step


def changing_network(name, model, x, y, axis):
    n = counter()

    def infer():
        with torch.no_grad():
            return model(x.narrow(axis, 0, n()))

    t(name + "_infer", infer)
    opt, n = torch.optim.Adam(model.parameters(), 1e-3), counter()

    def step():
        opt.zero_grad()
        o = model(x.narrow(axis, 0, n()))
        o = o.view(-1, o.shape[-1])
        loss = F.cross_entropy(o, y[: o.shape[0]])
        loss.backward()
        opt.step()
        return loss

    t(name + "_step", step)


def changing():
    x, y, wide = r(MOST, 40), r(MOST, 40), r(MOST, 784)
    with torch.no_grad():
        n, k = counter(), counter()
        t("new_add", lambda: x[: n()] + y[: k()])
        t("new_softmax", lambda: x[: n()].softmax(0))

        def chain():
            a, b = x[: n()], y[0]
            return torch.tanh(a * b + b) * torch.sigmoid(a) + a * a

        t("new_chain", chain)
        t("new_matmul", lambda: x[: n()] @ y[:40])
    labels = classes(MOST * 2)
    mlp = nn.Sequential(nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, 10))
    changing_network("new_mlp", mlp, wide, labels, 0)
    images = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 50), nn.ReLU(), nn.Linear(50, 10),
    )  # fmt: skip
    changing_network("new_cnn", images, r(MOST, 1, 20, 20), labels, 0)
    changing_network("new_gpt", GPT(2, 4, 128, MOST), torch.randint(0, 65, (2, MOST)), labels, 1)
