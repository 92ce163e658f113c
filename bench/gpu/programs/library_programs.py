"""Programs as users of the field's libraries write them: Lightning, transformers, accelerate, torchvision, torchmetrics.

The libraries are imported where they are used: one that is missing or slow to import harms its own programs alone."""

import importlib
import io
import os
import signal
import tempfile
import time

import torch
import torch.utils.data

from loop import BATCH, LENGTH, WARM_UP_STEPS, WIDTH, Skip, Training

VOCABULARY = 1000
SENTENCES = ["the quick brown fox jumps over the lazy dog and runs away from all the other dogs of the village",
             "a quick red fox jumped over a lazy dog and ran away from most other dogs of that old village"]
FEED = " ".join(f"breaking{number % 89} news, from the wire{number % 31}:" for number in range(600))


def library(name):
    try:
        return importlib.import_module(name)
    except Exception as why:  # One that is installed may still not work with this PyTorch.
        raise Skip(f"{name}: {why!r:.200}") from why


class Driven:
    """The run of a loop that is a library's own: the library says when a step begins. Its first steps warm up."""

    def __init__(self, run):
        self.warming = WARM_UP_STEPS
        self.steps = run.steps(lambda: None)

    def goes_on(self):
        """Called where a step begins: whether there is to be one."""
        if self.warming:
            self.warming -= 1
            return True
        return next(self.steps, None) is not None


class Rows(torch.utils.data.Dataset):
    """Ready samples without end, a few of them in turn."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return 1 << 20

    def __getitem__(self, number):
        return self.rows[number % len(self.rows)]


def activations():
    return Rows(torch.randn(64, LENGTH, WIDTH))


# Lightning.

def fit(run, observe=None, validation=None, **options):
    """A Trainer with a small module. `observe` is called at the end of each batch."""
    lightning = library("pytorch_lightning")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = Training().model

        def training_step(self, batch, _):
            return self.model(batch).square().mean()

        def validation_step(self, batch, _):
            self.log("val_loss", self.model(batch).square().mean())

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-4, foreach=False)

    class Steps(lightning.Callback):
        def on_train_start(self, *_):
            # Lightning has its own way with this signal.
            signal.signal(signal.SIGTERM, lambda *_: run.stopped.set())

        def on_train_batch_start(self, trainer, *_):
            if not driven.goes_on():
                trainer.should_stop = True

        def on_train_batch_end(self, *_):
            if observe and not run.without:
                observe()

    driven = Driven(run)
    trainer = lightning.Trainer(accelerator="auto", devices=1, max_epochs=-1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                                enable_model_summary=False, num_sanity_val_steps=0, callbacks=[Steps()], **options)
    trainer.fit(Module(), torch.utils.data.DataLoader(activations(), batch_size=BATCH), validation)


def lightning_train(run):
    fit(run)


def lightning_metric(run):
    """A metric of torchmetrics over text, which is Python all through."""
    metric = library("torchmetrics.text").CharErrorRate()
    fit(run, observe=lambda: score_text(metric))


def score_text(metric):
    until = time.perf_counter() + 0.015
    while time.perf_counter() < until:
        metric.update(SENTENCES[:1], SENTENCES[1:])  # MARK lightning_metric


class HeldOut(torch.utils.data.Dataset):
    """Samples that are made when they are asked for."""

    def __init__(self, run):
        self.run = run

    def __len__(self):
        return 32

    def __getitem__(self, number):
        if not self.run.without:
            reconstruct(number)
        return torch.zeros(LENGTH, WIDTH)


def reconstruct(seed):
    state = seed
    for _ in range(110_000):
        state = (state * 1_103_515_245 + 12_345) & 0x7FFFFFFF  # MARK lightning_validation
    return state


def lightning_validation(run):
    """Every 25 batches a validation whose samples are computed in the loop's own process."""
    fit(run, validation=torch.utils.data.DataLoader(HeldOut(run), batch_size=BATCH), val_check_interval=25)


# transformers.

def tiny_gpt2():
    os.environ["HF_HUB_OFFLINE"] = "1"
    transformers = library("transformers")
    config = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=256, n_embd=256, n_layer=4, n_head=4, bos_token_id=None, eos_token_id=None)
    torch.manual_seed(0)
    return transformers, transformers.GPT2LMHeadModel(config)


def train_gpt2(run, collate):
    """transformers' Trainer with a model that has learned nothing."""
    transformers, model = tiny_gpt2()
    library("accelerate")
    driven = Driven(run)

    class Steps(transformers.TrainerCallback):
        def on_step_begin(self, arguments, state, control, **_):
            if not driven.goes_on():
                control.should_training_stop = True

    rows = Rows(torch.randint(0, VOCABULARY, (64, LENGTH)))
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(folder, max_steps=1 << 20, per_device_train_batch_size=BATCH, report_to="none", save_strategy="no",
                                                   logging_strategy="no", disable_tqdm=True)
        transformers.Trainer(model, arguments, data_collator=collate, train_dataset=rows, callbacks=[Steps()]).train()


def collate_ids(rows):
    ids = torch.stack(rows)
    return {"input_ids": ids, "labels": ids}


def trainer(run):
    train_gpt2(run, collate_ids)


def trainer_collator(run):
    """The collator tokenises with a tokenizer that was trained here. Its threads are Rust's."""
    tokenizers = library("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator([FEED], tokenizers.trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["[UNK]"], show_progress=False))

    def collate(rows):
        if not run.without:
            encode_feed(tokenizer)
        return collate_ids(rows)

    train_gpt2(run, collate)


def encode_feed(tokenizer):
    until = time.perf_counter() + 0.02
    while time.perf_counter() < until:
        tokenizer.encode_batch([FEED] * 16)  # MARK trainer_collator


def generate_tokens(run, processors=()):
    """One answer of eight tokens in each step."""
    _, model = tiny_gpt2()
    model = model.cuda().eval()
    prompt = torch.randint(0, VOCABULARY, (4, 16), device="cuda")
    attention = torch.ones_like(prompt)

    def answer():
        return model.generate(prompt, attention_mask=attention, max_new_tokens=8, do_sample=False, pad_token_id=0, logits_processor=list(processors))

    for _ in run.steps(answer):
        answer()


def hf_generate(run):
    generate_tokens(run)


def hf_processor(run):
    """A logits processor of one's own that looks for repetitions in Python."""

    def process(ids, scores):
        if not run.without:
            for row, words in enumerate(ids.tolist()):
                scores[row, repeated(words)] = float("-inf")
        return scores

    generate_tokens(run, [process])


def repeated(words):
    """The last words of all near-repetitions, tried by hand for each length."""
    found = set()
    for length in range(2, len(words)):
        for first in range(len(words) - length):
            for second in range(first + 1, len(words) - length):
                if sum(a != b for a, b in zip(words[first:first + length], words[second:second + length])) < 2:  # MARK hf_processor
                    found.add(words[second + length - 1])
    return sorted(found)


# accelerate and the compiler.

def accelerate_train(run):
    """A loop as accelerate's users write it, with a metric on the device."""
    accelerator = library("accelerate").Accelerator()
    mean = library("torchmetrics").MeanMetric().to(accelerator.device)
    train = Training()
    loader = torch.utils.data.DataLoader(activations(), batch_size=BATCH)
    model, optimizer, loader = accelerator.prepare(train.model, train.optimizer, loader)
    batches = iter(loader)

    def step():
        optimizer.zero_grad()
        loss = model(next(batches)).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        mean.update(loss.detach())

    for number in run.steps(step):
        step()
        if number % 50 == 49:
            accelerator.print("loss", mean.compute().item())
            mean.reset()


def compiled(run):
    """A compiled model whose shapes do not change."""
    train = Training()
    train.model = torch.compile(train.model)
    try:
        train.step()
    except Exception as why:
        raise Skip(f"torch.compile does not work here: {why!r:.200}") from why
    for _ in run.steps(train.step):
        train.step()


# torchvision.

def jpegs(count, size, is_noise):
    """JPEG files in memory, noisy ones for slow decoding."""
    image = library("PIL.Image")
    files = []
    for number in range(count):
        pixels = os.urandom(3 * size * size) if is_noise else bytes([number % 256]) * (3 * size * size)
        file = io.BytesIO()
        image.frombytes("RGB", (size, size), pixels).save(file, "JPEG", quality=90)
        files.append(file.getvalue())
    return files


class Photos(torch.utils.data.Dataset):
    """Decodes and transforms a file for each sample."""

    def __init__(self, files, transform):
        self.files, self.transform = files, transform
        self.image = library("PIL.Image")

    def __len__(self):
        return 1 << 20

    def __getitem__(self, number):
        picture = self.image.open(io.BytesIO(self.files[number % len(self.files)])).convert("RGB")  # MARK vision_inline
        return self.transform(picture), number % 10  # MARK vision_inline


def train_resnet(run, photos, workers):
    resnet = library("torchvision.models").resnet18(num_classes=10).cuda()
    optimizer = torch.optim.SGD(resnet.parameters(), lr=1e-3, foreach=False)
    batches = iter(torch.utils.data.DataLoader(photos, batch_size=BATCH, num_workers=workers, pin_memory=True))

    def step():
        pictures, classes = next(batches)
        loss = torch.nn.functional.cross_entropy(resnet(pictures.to("cuda", non_blocking=True)), classes.to("cuda", non_blocking=True))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    for _ in run.steps(step):
        step()


def vision_inline(run):
    """Decoding and augmentation in the loop's own process."""
    transforms = library("torchvision.transforms")
    transform = transforms.Compose([transforms.RandomResizedCrop(64), transforms.RandomHorizontalFlip(), transforms.ColorJitter(0.4, 0.4, 0.4), transforms.ToTensor()])
    train_resnet(run, Photos(jpegs(16, 256, is_noise=True), transform), workers=0)


def vision_workers(run):
    """Two workers that keep up."""
    transforms = library("torchvision.transforms")
    transform = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor()])
    train_resnet(run, Photos(jpegs(16, 64, is_noise=False), transform), workers=2)
