import os

from elevenlabs.client import ElevenLabs

from driver import base, key, secure_base, serve

client = ElevenLabs(base_url=base, api_key=key, timeout=60)
secure = ElevenLabs(base_url=secure_base, api_key=key, timeout=60)
speech = os.environ["SPEECH"]


def streamed():
    words = iter(["Hello, ", "how are ", "you? I ", "am fine."])
    return b"".join(secure.text_to_speech.convert_realtime("af_heart", text=words, model_id=speech)).decode()


serve(
    {
        "speech": lambda: b"".join(client.text_to_speech.convert("af_heart", text="Hello", model_id=speech)).decode(),
        "speech input": streamed,
    }
)
