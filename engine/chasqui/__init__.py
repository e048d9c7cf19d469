"""The engine behind the cockpit. Names are resolved on first use, so `import chasqui` costs nothing."""
