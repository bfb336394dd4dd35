"""Drives the WebSockets of a running server with Python's clients of OpenAI and ElevenLabs; prints what came of each as one JSON object.

Environment: BASE_URL, API_KEY, MODEL, SSL_CERT_FILE.
"""
import base64
import json
import os

from elevenlabs.client import ElevenLabs
from elevenlabs.core.api_error import ApiError
from openai import OpenAI

BASE_URL, API_KEY, MODEL = (os.environ[name] for name in ("BASE_URL", "API_KEY", "MODEL"))
found = {}

client = OpenAI(base_url=f"{BASE_URL}/v1", api_key=API_KEY)
with client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
    audio = {"input": {"transcription": {"model": MODEL}, "turn_detection": None}}
    connection.session.update(session={"type": "transcription", "audio": audio})
    connection.input_audio_buffer.append(audio=base64.b64encode(bytes(96_000)).decode())
    connection.input_audio_buffer.commit()
    for event in connection:
        if event.type == "conversation.item.input_audio_transcription.completed":
            found["transcribed"] = [event.transcript, event.usage.type, event.usage.seconds]
            break

speaker = ElevenLabs(base_url=BASE_URL, api_key=API_KEY)
words = lambda: iter(["Hello, ", "how are ", "you? I ", "am fine."])
spoken = speaker.text_to_speech.convert_realtime("af_heart", text=words(), model_id=MODEL)
found["spoken"] = b"".join(spoken).decode()
try:
    list(speaker.text_to_speech.convert_realtime("af_heart", text=words(), model_id="org/none"))
except ApiError as error:
    found["unknown"] = [error.status_code, error.body["error"]]

print(json.dumps(found))
