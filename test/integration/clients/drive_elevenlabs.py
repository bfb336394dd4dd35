"""Drives a running server with the ElevenLabs client of Python; prints what came of each step as one JSON object.

Environment: BASE_URL, API_KEY, SPEECH (name of a model).
"""
import json
import os

from elevenlabs.client import ElevenLabs
from elevenlabs.core.api_error import ApiError

client = ElevenLabs(base_url=os.environ["BASE_URL"], api_key=os.environ["API_KEY"], timeout=60)
SPEECH = os.environ["SPEECH"]
recording = ("said.wav", b"RIFF a recording", "audio/wav")
found = {}


def said(pieces):
    return b"".join(pieces).decode()


made = client.voices.ivc.create(name="Ada", description="calm", files=[recording, recording])
found["made"] = [len(made.voice_id), made.requires_verification]
found["listed"] = [[voice.name, voice.description] for voice in client.voices.get_all().voices]
found["got"] = client.voices.get(made.voice_id).name
found["updated"] = client.voices.update(made.voice_id, name="Ada at work", description="brisk").status
found["renamed"] = [client.voices.get(made.voice_id).name, client.voices.get(made.voice_id).description]

speak = client.text_to_speech
found["whole"] = said(speak.convert(made.voice_id, text="Hello", model_id=SPEECH, output_format="mp3_44100_128"))
found["stream"] = said(speak.stream("Ada at work", text="Hello", model_id=SPEECH, output_format="pcm_16000"))
found["default"] = said(speak.convert("af_heart", text="Hello", output_format="mp3_44100_128", model_id=SPEECH))
found["opus"] = said(speak.stream("af_heart", text="Hello", output_format="opus_48000_64", model_id=SPEECH))
try:
    said(speak.convert("af_heart", text="Hello", output_format="aiff_8000", model_id=SPEECH))
except ApiError as error:
    found["other format"] = error.status_code

try:
    # Left alone this client asks again after a 409, then without the form's fields.
    once = {"max_retries": 0}
    client.voices.ivc.create(name="Ada at work", description="twice", files=[recording], request_options=once)
except ApiError as error:
    found["twice"] = [error.status_code, error.body["detail"]["status"]]
found["deleted"] = client.voices.delete(made.voice_id).status
try:
    client.voices.get(made.voice_id)
except ApiError as error:
    found["gone"] = [error.status_code, error.body["detail"]["status"]]

print(json.dumps(found))
