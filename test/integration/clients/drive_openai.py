"""Drives a running server with the official OpenAI client of Python; prints what came of each step as one JSON object.

Environment: BASE_URL, API_KEY, CHAT, VECTORS, SPEECH, HEARING, PICTURES (names of models), ENGINE (what holds chats that say
"hold python" until it is asked for /release/python). drive-openai.ts takes the same steps with the client of npm.
"""
import io
import json
import os
import struct
import time
import urllib.request
import wave
import zlib

from openai import NotFoundError, OpenAI
from pydantic import BaseModel

client = OpenAI(base_url=os.environ["BASE_URL"] + "/v1/openai", api_key=os.environ["API_KEY"], max_retries=0, timeout=60)
CHAT, VECTORS = os.environ["CHAT"], os.environ["VECTORS"]
SPEECH, HEARING, PICTURES = os.environ["SPEECH"], os.environ["HEARING"], os.environ["PICTURES"]
asked = [{"role": "user", "content": "What is the answer?"}]
found = {}


class Place(BaseModel):
    city: str
    people: int


answer = client.chat.completions.create(model=CHAT, messages=asked, max_tokens=16)
found["chat"] = [answer.choices[0].message.content, answer.usage.completion_tokens]

stream = client.chat.completions.create(
    model=CHAT, messages=asked, max_tokens=16, stream=True, stream_options={"include_usage": True}
)
text, tokens = "", 0
for chunk in stream:
    text += "".join(choice.delta.content or "" for choice in chunk.choices)
    tokens = chunk.usage.completion_tokens if chunk.usage else tokens
found["stream"] = [text, tokens]

asked_once = {"model": CHAT, "input": "What is the answer?", "max_output_tokens": 16}
response = client.responses.create(**asked_once, store=True)
found["response"] = [response.output_text, response.status, response.usage.output_tokens]
with client.responses.stream(**asked_once) as events:
    said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    found["responses"] = [said, events.get_final_response().output_text]
after = client.responses.create(**asked_once, previous_response_id=response.id)
found["continued"] = after.previous_response_id == response.id
read = client.responses.retrieve(response.id)
found["read"] = [read.output_text, [item.type for item in client.responses.input_items.list(response.id)]]
client.responses.delete(response.id)

tool = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
called = client.chat.completions.create(model=CHAT, messages=asked, tools=[tool], tool_choice="auto")
call = called.choices[0].message.tool_calls[0]
found["tool"] = [call.function.name, json.loads(call.function.arguments), called.choices[0].finish_reason]

parsed = client.chat.completions.parse(model=CHAT, messages=asked, response_format=Place)
found["schema"] = [parsed.choices[0].message.parsed.city, parsed.choices[0].message.parsed.people]

found["completion"] = client.completions.create(model=CHAT, prompt="The answer", max_tokens=8).choices[0].text
found["models"] = sorted(model.id for model in client.models.list())

# The client asks for base64 by itself and reads it back.
vectors = client.embeddings.create(model=VECTORS, input=["one", "two"])
found["vectors"] = [[round(x, 3) for x in one.embedding] for one in vectors.data]

found["speech"] = client.audio.speech.create(model=SPEECH, voice="af_heart", input="Hello", response_format="wav").read().decode()

sound = io.BytesIO()
with wave.open(sound, "wb") as recording:
    recording.setnchannels(1)
    recording.setsampwidth(2)
    recording.setframerate(16000)
    recording.writeframes(b"\0\0" * 16000)
found["transcription"] = client.audio.transcriptions.create(model=HEARING, file=("a.wav", sound.getvalue())).text
found["translation"] = client.audio.translations.create(model=HEARING, file=("a.wav", sound.getvalue())).text

found["picture"] = client.images.generate(model=PICTURES, prompt="a cat", size="64x64").data[0].b64_json


def part(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


grey = b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", 64, 64, 8, 0, 0, 0, 0))
grey += part(b"IDAT", zlib.compress((b"\0" + b"\x80" * 64) * 64)) + part(b"IEND", b"")
image = ("a.png", grey, "image/png")
found["edited"] = client.images.edit(model=PICTURES, image=image, prompt="a hat", size="64x64").data[0].b64_json
found["varied"] = client.images.create_variation(model=PICTURES, image=image, size="64x64").data[0].b64_json


def line(number, content, **change):
    body = {"model": CHAT, "messages": [{"role": "user", "content": content}], "max_tokens": 8, **change}
    return json.dumps({"custom_id": f"c{number}", "method": "POST", "url": "/v1/chat/completions", "body": body})


def upload(lines):
    return client.files.create(file=("requests.jsonl", "\n".join(lines).encode()), purpose="batch")


def begin(file):
    return client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"of": "tests"}
    )


def until(batch, is_there):
    """Bounded by the test that runs this."""
    while not is_there(batch):
        time.sleep(0.1)
        batch = client.batches.retrieve(batch.id)
    return batch


def lines_of(file_id):
    # No file where there is no line for it.
    return [] if file_id is None else [json.loads(one) for one in client.files.content(file_id).text.splitlines()]


file = upload([line(1, "one"), line(2, "two", temperature=9), line(3, "three")])
found["file"] = [file.filename, file.purpose, client.files.retrieve(file.id).bytes == file.bytes]
found["content"] = client.files.content(file.id).read().decode().splitlines()[0] == line(1, "one")
done = until(begin(file), lambda batch: batch.status in ("completed", "failed", "expired"))
counts = done.request_counts
found["batch"] = [done.status, counts.total, counts.completed, counts.failed, done.metadata]
found["output"] = [
    [one["custom_id"], one["response"]["body"]["choices"][0]["message"]["content"]] for one in lines_of(done.output_file_id)
]
found["errors"] = [[one["custom_id"], one["response"]["status_code"]] for one in lines_of(done.error_file_id)]

# Cancelled while its first lines are held: every line has an answer, or is told that it was not begun.
slow = upload([line(number, "hold python") for number in range(200)])
batch = begin(slow)
until(batch, lambda batch: batch.status == "in_progress")
cancelling = client.batches.cancel(batch.id)
found["cancelling"] = cancelling.status
urllib.request.urlopen(os.environ["ENGINE"] + "/release/python", timeout=30).read()
cancelled = until(cancelling, lambda batch: batch.status != "cancelling")
ran, missed = lines_of(cancelled.output_file_id), lines_of(cancelled.error_file_id)
found["cancelled"] = [cancelled.status, len(ran) + len(missed), {one["error"]["code"] for one in missed} <= {"batch_cancelled"}]
found["batches"] = [one.id for one in client.batches.list(limit=1)][:2] == [batch.id, done.id]

found["files"] = sorted(one.filename for one in client.files.list(purpose="batch", limit=1) if one.id in (file.id, slow.id))
found["deleted"] = [client.files.delete(file.id).deleted, client.files.delete(slow.id).deleted]
try:
    client.files.retrieve(file.id)
except NotFoundError as error:
    found["gone"] = error.status_code

try:
    client.chat.completions.create(model="nobody/nothing", messages=asked)
except NotFoundError as error:
    found["unknown"] = [error.status_code, error.code]

print(json.dumps(found))
