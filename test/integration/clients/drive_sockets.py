"""Drives the WebSockets of a running server with Python's client of OpenAI or ElevenLabs; prints what came of it as one JSON object.

Usage: drive_sockets.py openai|elevenlabs. Environment: BASE_URL, API_KEY, MODEL, SSL_CERT_FILE.
"""
import asyncio
import base64
import json
import os
import sys

BASE_URL, API_KEY, MODEL = (os.environ[name] for name in ("BASE_URL", "API_KEY", "MODEL"))


async def transcribe():
    # The synchronous client of the `websockets` package sometimes hangs in its TLS handshake: docs/clients.md.
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=f"{BASE_URL}/v1", api_key=API_KEY)
    async with client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
        audio = {"input": {"transcription": {"model": MODEL}, "turn_detection": None}}
        await connection.session.update(session={"type": "transcription", "audio": audio})
        await connection.input_audio_buffer.append(audio=base64.b64encode(bytes(96_000)).decode())
        await connection.input_audio_buffer.commit()
        async for event in connection:
            if event.type == "conversation.item.input_audio_transcription.completed":
                return [event.transcript, event.usage.type, event.usage.seconds]


def speak():
    from elevenlabs.client import ElevenLabs
    from elevenlabs.core.api_error import ApiError

    speaker = ElevenLabs(base_url=BASE_URL, api_key=API_KEY)
    words = lambda: iter(["Hello, ", "how are ", "you? I ", "am fine."])
    spoken = speaker.text_to_speech.convert_realtime("af_heart", text=words(), model_id=MODEL)
    found = {"spoken": b"".join(spoken).decode()}
    try:
        list(speaker.text_to_speech.convert_realtime("af_heart", text=words(), model_id="org/none"))
    except ApiError as error:
        found["unknown"] = [error.status_code, error.body["error"]]
    return found


print(json.dumps(asyncio.run(transcribe()) if sys.argv[1] == "openai" else speak()))
