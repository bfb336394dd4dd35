"""Runs the features of one client: reads their names from stdin, one per line, and prints the value of each as JSON.

Environment: BASE_URL, SECURE_URL (by TLS, which clients of WebSockets require), API_KEY, and the names of the models CHAT, VECTORS, SPEECH, HEARING, PICTURES, RANKING. Lines of results start
with `mark`, because libraries print to stdout.
"""
import asyncio
import inspect
import io
import json
import os
import sys
import time
import traceback
import wave

from pydantic import BaseModel

mark = ">>> "
base, secure_base, key = os.environ["BASE_URL"], os.environ["SECURE_URL"], os.environ["API_KEY"]
chat, vectors, ranking = os.environ["CHAT"], os.environ["VECTORS"], os.environ["RANKING"]
question = "What is the answer?"
asked = [{"role": "user", "content": question}]
parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


class Place(BaseModel):
    city: str
    people: int


def weather(city: str) -> str:
    """Returns the weather of a city.

    Args:
        city: Name of the city.
    """
    return f"sunny in {city}"


def recording() -> bytes:
    """Returns one second of silence."""
    sound = io.BytesIO()
    with wave.open(sound, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(16000)
        out.writeframes(b"\0\0" * 16000)
    return sound.getvalue()


def polled(read):
    """Polls until it returns a value, at most a minute."""
    for _ in range(600):
        value = read()
        if value is not None:
            return value
        time.sleep(0.1)
    raise TimeoutError("nothing within a minute")


def rounded(found) -> list:
    return [[round(x, 3) for x in one] for one in found]


def serve(features) -> None:
    """`features`: functions by the names of features; each returns what the client returned."""
    # Clients keep connections, which belong to the loop that opened them.
    loop = asyncio.new_event_loop()
    print(mark + json.dumps({"isReady": True}), flush=True)
    for line in sys.stdin:
        try:
            value = features[line.strip()]()
            value = loop.run_until_complete(value) if inspect.isawaitable(value) else value
            result = {"value": value}
        except BaseException as error:
            traceback.print_exc()
            result = {"error": f"{type(error).__name__}: {error}"}
        print(mark + json.dumps(result), flush=True)
