"""`python -m chasqui_cli` is `chasqui`. Next to nothing is imported up here, so that Ctrl-C is quiet from the start."""

import gc

GC_THRESHOLD = 50_000
"""Objects made before the collector looks for cycles: it finds none in what imports make, and they make very many."""


def main() -> None:
    """Import the program and run it; interrupted at either, end as the shell expects."""
    gc.set_threshold(GC_THRESHOLD)
    try:
        from chasqui_cli.app import main as run

        run()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    finally:
        # Everything ends now; to search what was imported for cycles would cost a fifth of a short command.
        gc.freeze()


if __name__ == "__main__":
    main()
