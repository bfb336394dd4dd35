import os
import pathlib
import subprocess
import sys

from driver import base, chat, key, serve


def edit():
    file = pathlib.Path(os.environ["EDIT_FILE"])
    flags = ["--yes-always", "--no-git", "--no-check-update", "--no-show-release-notes", "--analytics-disable"]
    flags += ["--no-show-model-warnings", "--no-auto-lint", "--no-detect-urls", "--no-pretty", "--edit-format", "whole"]
    command = [sys.executable, "-m", "aider", "--model", f"openai/{chat}", *flags, "--message", os.environ["EDIT_REQUEST"], file.name]
    env = {**os.environ, "OPENAI_API_BASE": base + "/v1", "OPENAI_API_KEY": key, "HOME": str(file.parent)}
    ran = subprocess.run(command, cwd=file.parent, env=env, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL)
    if ran.returncode != 0:
        raise RuntimeError(ran.stdout + ran.stderr)
    sys.stderr.write(ran.stdout)
    return file.read_text()


serve({"chat edit": edit})
