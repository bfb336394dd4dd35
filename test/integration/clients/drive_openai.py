"""Drives a running server with the official OpenAI client of Python; prints what came of each step as one JSON object.

Environment: BASE_URL, API_KEY, CHAT, VECTORS, SPEECH, HEARING, PICTURES (names of models).
"""
import io
import json
import os
import wave

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

try:
    client.chat.completions.create(model="nobody/nothing", messages=asked)
except NotFoundError as error:
    found["unknown"] = [error.status_code, error.code]

print(json.dumps(found))
