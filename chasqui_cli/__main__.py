"""`python -m chasqui_cli` is `chasqui`. Nothing is imported up here, so that Ctrl-C is quiet from the first moment."""


def main() -> None:
    """Import the program and run it; interrupted at either, end as the shell expects."""
    try:
        from chasqui_cli.app import main as run

        run()
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
