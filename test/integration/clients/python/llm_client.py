import os
import pathlib
import subprocess
import sys
import tempfile

from driver import base, chat, key, question, serve

home = pathlib.Path(tempfile.mkdtemp())
(home / "extra-openai-models.yaml").write_text(
    f"- model_id: chat\n  model_name: {chat}\n  api_base: {base}/v1\n  api_key_name: stoker\n  supports_tools: true\n"
)
function = 'def weather(city: str) -> str:\n    "Returns the weather of a city."\n    return f"sunny in {city}"\n'


def ask(*args):
    command = [sys.executable, "-m", "llm", "prompt", "-m", "chat", "--key", key, *args, question]
    env = {**os.environ, "LLM_USER_PATH": str(home)}
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    if ran.returncode != 0:
        raise RuntimeError(ran.stderr)
    return ran.stdout.strip()


serve(
    {
        "chat": lambda: ask("--no-stream"),
        "chat stream": lambda: ask(),
        "chat tools": lambda: ask("--functions", function),
    }
)
