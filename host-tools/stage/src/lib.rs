//! The QEMU stage: set-up, boards, virtual switch, collector.
