"""Schemathesis guesses no name of a model: these hooks give its cases values that exist, so that a share of them is served,
and count what was answered.

Every inference operation gets an example that is served as it stands. Of the cases that fit the description, three in four ask
for a model that is there, with files that can be read; the fourth is left as it was made. Three in four of all come with one key
alone, and inference with that of an account of its own: what is made up elsewhere ends limits, funds and whole accounts.

Environment: KEY, INFERRING_KEY (of two accounts), CHAT, VECTORS, SPEECH, HEARING, PICTURES, RANKING (names of models), DEPLOYS (JSON: their deployments, by name),
VOICE (id), FILE (id of a batch's input), RESPONSE (id of one in the background), CALLBACK (URL), TALLY (where the counts are written, as JSON).
"""
import atexit
import base64
import io
import json
import os
import struct
import wave
import zlib

import schemathesis
from schemathesis.transport.serialization import Binary

NAMES = ("CHAT", "VECTORS", "SPEECH", "HEARING", "PICTURES", "RANKING")
CHAT, VECTORS, SPEECH, HEARING, PICTURES, RANKING = (os.environ[name] for name in NAMES)
DEPLOYS = json.loads(os.environ["DEPLOYS"])
JSON, FORM = "application/json", "multipart/form-data"


def recording():
    """A second of silence."""
    sound = io.BytesIO()
    with wave.open(sound, "wb") as made:
        made.setnchannels(1)
        made.setsampwidth(2)
        made.setframerate(16000)
        made.writeframes(b"\0\0" * 16000)
    return sound.getvalue()


def picture():
    """Grey, of 64 by 64 pixels."""

    def part(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = part(b"IHDR", struct.pack(">IIBBBBB", 64, 64, 8, 0, 0, 0, 0))
    rows = part(b"IDAT", zlib.compress((b"\0" + b"\x80" * 64) * 64))
    return b"\x89PNG\r\n\x1a\n" + head + rows + part(b"IEND", b"")


WAV, PNG = recording(), picture()


def uri(kind, data):
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


# What a body needs to be served, by operation: the rest stays as it was made.
BODIES = {
    "POST /v1/completions": {"model": CHAT},
    "POST /v1/compat/chat/completions": {"model": CHAT},
    "POST /v1/messages": {"model": CHAT},
    "POST /v1/messages/count_tokens": {"model": CHAT},
    "POST /v1/compat/embeddings": {"model": VECTORS},
    "POST /v1/compat/audio/speech": {"model": SPEECH, "voice": "af_heart"},
    "POST /v1/text-to-speech/{voice_id}": {"model_id": SPEECH},
    "POST /v1/text-to-speech/{voice_id}/stream": {"model_id": SPEECH},
    "POST /v1/compat/images/generations": {"model": PICTURES},
    "POST /v1/compat/images/variations": {"model": PICTURES, "image": Binary(PNG)},
    "POST /v1/compat/images/edits": {"model": PICTURES, "image": Binary(PNG), "mask": Binary(PNG)},
    "POST /v1/compat/audio/transcriptions": {"model": HEARING, "file": Binary(WAV)},
    "POST /v1/compat/audio/translations": {"model": HEARING, "file": Binary(WAV)},
    "POST /v1/voices/add": {"files": Binary(WAV), "audio": None},
    "POST /v1/batches": {"input_file_id": os.environ["FILE"], "endpoint": "/v1/chat/completions"},
}
# What else an example needs.
EXAMPLES = {
    "POST /v1/completions": {"prompt": "Hello"},
    "POST /v1/compat/chat/completions": {"messages": [{"role": "user", "content": "Hello"}]},
    "POST /v1/messages": {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 16},
    "POST /v1/messages/count_tokens": {"messages": [{"role": "user", "content": "Hello"}]},
    "POST /v1/compat/embeddings": {"input": ["one", "two"]},
    "POST /v1/compat/audio/speech": {"input": "Hello"},
    "POST /v1/text-to-speech/{voice_id}": {"text": "Hello"},
    "POST /v1/text-to-speech/{voice_id}/stream": {"text": "Hello"},
    "POST /v1/compat/images/generations": {"prompt": "a cat"},
    "POST /v1/compat/images/variations": {},
    "POST /v1/compat/images/edits": {"prompt": "a hat"},
    "POST /v1/compat/audio/transcriptions": {},
    "POST /v1/compat/audio/translations": {},
    "POST /v1/voices/add": {"name": "Example"},
}
NATIVE = "POST /v1/inference/{model_name}"
NATIVE_OF_DEPLOYMENT = "POST /v1/inference/deploy/{deploy_id}"
# Asked in turn by native inference, each with what its task needs.
TASKS = (
    (CHAT, {"input": "Hello"}),
    (VECTORS, {"inputs": ["one", "two"], "image": None}),
    (RANKING, {"queries": ["one"], "documents": ["two", "three"]}),
    (SPEECH, {"text": "Hello", "output_format": "wav", "voice_id": "af_heart", "preset_voice": None}),
    (HEARING, {"audio": uri("audio/wav", WAV)}),
    (PICTURES, {"prompt": "a cat", "image": None}),
)
# Whose cases come as that account.
INFERRING = {"inference", "voices", "models", "files", "batches"}
# In paths.
IDS = {
    "voice_id": os.environ["VOICE"],
    "file_id": os.environ["FILE"],
    "response_id": os.environ["RESPONSE"],
    "model_name": CHAT,
    "variantKey": "default",
}

tally = {}
turns = {}


@schemathesis.hook
def before_load_schema(context, raw_schema):
    for path, methods in raw_schema["paths"].items():
        for method, operation in methods.items():
            label = f"{method.upper()} {path}"
            kinds = operation.get("requestBody", {}).get("content", {})
            # The description's own name what nobody here has; those of inference are replaced by what is served.
            for told in (kinds, *(answer.get("content", {}) for answer in operation["responses"].values())):
                for kind in told.values():
                    kind.pop("example", None)
            if label in (NATIVE, NATIVE_OF_DEPLOYMENT):
                kinds[JSON]["example"] = TASKS[0][1]
                name = {"name": CHAT, "deploy": DEPLOYS[CHAT]}["name" if label == NATIVE else "deploy"]
                operation["parameters"][0]["example"] = name
            elif label in EXAMPLES:
                for kind in kinds.values():
                    # A file's own bytes are put in before the call.
                    needed = {**BODIES[label], **EXAMPLES[label]}
                    kind["example"] = {
                        key: "x" if isinstance(value, Binary) else value
                        for key, value in needed.items()
                        if value is not None
                    }
                for parameter in operation.get("parameters", []):
                    if parameter["name"] == "voice_id":
                        parameter["example"] = "af_heart"


@schemathesis.hook
def before_call(context, case, kwargs):
    label = case.operation.label
    turn = turns[label] = turns.get(label, 0) + 1
    infers = INFERRING.intersection(case.operation.tags or [])
    case.headers["Authorization"] = f"Bearer {os.environ['INFERRING_KEY' if infers else 'KEY']}"
    if turn % 4 == 0:
        return
    # Two keys that differ are refused before anything else is looked at.
    for carrier in ("xi-api-key", "x-api-key"):
        case.headers.pop(carrier, None)
    if case.meta is not None and case.meta.generation.mode.is_negative:
        return
    if label in (NATIVE, NATIVE_OF_DEPLOYMENT):
        native(case, label, turn - 1)
        return
    if label in BODIES and isinstance(case.body, dict):
        body = {**case.body, **BODIES[label]}
        if "models" in body:
            body["models"] = [CHAT]
        case.body = {key: value for key, value in body.items() if value is not None or key not in BODIES[label]}
    for name in case.path_parameters or {}:
        # What is deleted once is there for no later case, so speech is asked of a voice that nobody can delete.
        if name in IDS and not label.startswith("DELETE"):
            case.path_parameters[name] = "af_heart" if "text-to-speech" in label else IDS[name]


def native(case, label, turn):
    model, needed = TASKS[turn % len(TASKS)]
    case.path_parameters = {"model_name": model} if label == NATIVE else {"deploy_id": DEPLOYS[model]}
    if not isinstance(case.body, dict):
        return
    body = {**case.body, **needed}
    # A guess is an address of nobody; called are those of ours, where a stream cannot be asked for as well.
    if body.pop("webhook", None) is not None and turn % 2 == 0:
        body["webhook"] = os.environ["CALLBACK"]
        body.pop("stream", None)
    case.body = {key: value for key, value in body.items() if value is not None}


@schemathesis.hook
def after_call(context, case, response):
    label = case.operation.label
    tags = case.operation.tags or ["other"]
    one = tally.setdefault(label, {"group": tags[0], "statuses": {}, "unexplained": 0})
    status = str(response.status_code)
    one["statuses"][status] = one["statuses"].get(status, 0) + 1
    # The interface plans for it where it says when to come again.
    if response.status_code == 503 and "retry-after" not in response.headers:
        one["unexplained"] += 1


@atexit.register
def write():
    with open(os.environ["TALLY"], "w", encoding="utf-8") as file:
        json.dump(tally, file)
