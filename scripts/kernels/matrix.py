"""The kernels the probes are tried on, and what each must be able to do."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Kernel:
    name: str
    # Only versions of this series; the newest of all where it is empty.
    series: str
    # Where it is looked for: the newest of what they all have is taken.
    suites: tuple
    # Kinds of probes on functions that must work, best first. None: gpuwhy must refuse, in a sentence.
    flavours: tuple
    # Probes that cannot work there, and the state they must be in.
    absent: dict = field(default_factory=lambda: {"xid": "no NVIDIA driver"})
    # Only when asked for by name.
    asked: bool = False


KERNELS = (
    # No attach cookies (5.15): `check` must say so.
    Kernel("5.10", "5.10", ("bullseye-security", "bullseye"), ()),
    Kernel("6.1", "6.1", ("bookworm-security", "bookworm"), ("single",)),
    Kernel("6.12", "6.12", ("trixie-security", "trixie", "bookworm-security", "bookworm-backports"), ("multi", "single")),
    Kernel("newest", "", ("sid", "forky"), ("session", "multi", "single")),
    # Release candidates.
    Kernel("next", "", ("experimental",), ("session", "multi", "single"), asked=True),
)

# What a disk needs that Debian builds as modules, in the order they are put in.
MODULES = ("virtio", "virtio_ring", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk")


def chosen(names):
    """Those that were asked for, or all that need not be."""
    if not names:
        return [kernel for kernel in KERNELS if not kernel.asked]
    known = {kernel.name: kernel for kernel in KERNELS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"no such kernel: {' '.join(unknown)}; there are {' '.join(known)}")
    return [known[name] for name in names]
