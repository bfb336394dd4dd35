import base64
import json
import os

from openai import AsyncOpenAI, OpenAI

from driver import (
    Place, asked, base, chat, key, parameters, polled, question, recording, rounded, secure_base, serve, vectors, weather
)

client = OpenAI(base_url=base + "/v1", api_key=key, max_retries=0, timeout=60)
tool = {"type": "function", "function": {"name": "weather", "description": "The weather", "parameters": parameters}}
flat = {"type": "function", "strict": False, **tool["function"]}


def chat_stream():
    stream = client.chat.completions.create(model=chat, messages=asked, stream=True)
    return "".join(choice.delta.content or "" for chunk in stream for choice in chunk.choices)


def chat_tools():
    called = client.chat.completions.create(model=chat, messages=asked, tools=[tool]).choices[0].message
    [call] = called.tool_calls
    result = {"role": "tool", "tool_call_id": call.id, "content": weather(**json.loads(call.function.arguments))}
    told = client.chat.completions.create(model=chat, messages=[*asked, called, result], tools=[tool])
    return told.choices[0].message.content


def chat_schema():
    parsed = client.chat.completions.parse(model=chat, messages=asked, response_format=Place)
    return parsed.choices[0].message.parsed.model_dump()


def responses_stream():
    with client.responses.stream(model=chat, input=question) as stream:
        return "".join(event.delta for event in stream if event.type == "response.output_text.delta")


def responses_tools():
    called = client.responses.create(model=chat, input=question, tools=[flat])
    [call] = [item for item in called.output if item.type == "function_call"]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": weather(**json.loads(call.arguments))}
    given = [{"role": "user", "content": question}, call.model_dump(exclude_none=True), result]
    return client.responses.create(model=chat, input=given, tools=[flat]).output_text


def chat_batch():
    body = {"model": chat, "messages": asked}
    line = {"custom_id": "one", "method": "POST", "url": "/v1/chat/completions", "body": body}
    requests = client.files.create(file=("requests.jsonl", json.dumps(line).encode()), purpose="batch")
    given = {"endpoint": "/v1/chat/completions", "completion_window": "24h"}
    made = client.batches.create(input_file_id=requests.id, **given)

    def output():
        batch = client.batches.retrieve(made.id)
        return batch.output_file_id if batch.status == "completed" else None

    lines = [json.loads(one) for one in client.files.content(polled(output)).text.splitlines()]
    return [[one["custom_id"], one["response"]["body"]["choices"][0]["message"]["content"]] for one in lines]


def transcription_stream():
    given = {"model": os.environ["HEARING"], "file": ("a.wav", recording())}
    events = list(client.audio.transcriptions.create(**given, stream=True))
    text = "".join(event.delta for event in events if event.type == "transcript.text.delta")
    assert [event.text for event in events if event.type == "transcript.text.done"] == [text]
    return text


async def transcription_realtime():
    # The synchronous client reads and writes TLS in two threads, which Python's ssl module does not support: some handshakes hang.
    secure = AsyncOpenAI(base_url=secure_base + "/v1", api_key=key)
    async with secure.realtime.connect(extra_query={"intent": "transcription"}) as connection:
        audio = {"input": {"transcription": {"model": os.environ["HEARING"]}, "turn_detection": None}}
        await connection.session.update(session={"type": "transcription", "audio": audio})
        await connection.input_audio_buffer.append(audio=base64.b64encode(bytes(96_000)).decode())
        await connection.input_audio_buffer.commit()
        async for event in connection:
            if event.type == "conversation.item.input_audio_transcription.completed":
                return event.transcript


serve(
    {
        "chat": lambda: client.chat.completions.create(model=chat, messages=asked).choices[0].message.content,
        "chat stream": chat_stream,
        "chat tools": chat_tools,
        "chat schema": chat_schema,
        "chat batch": chat_batch,
        "responses": lambda: client.responses.create(model=chat, input=question).output_text,
        "responses stream": responses_stream,
        "responses tools": responses_tools,
        "responses schema": lambda: client.responses.parse(model=chat, input=question, text_format=Place).output_parsed.model_dump(),
        "embeddings": lambda: rounded(one.embedding for one in client.embeddings.create(model=vectors, input=["one", "two"]).data),
        "speech": lambda: client.audio.speech.create(
            model=os.environ["SPEECH"], voice="af_heart", input="Hello", response_format="wav"
        ).read().decode(),
        "transcription": lambda: client.audio.transcriptions.create(
            model=os.environ["HEARING"], file=("a.wav", recording())
        ).text,
        "transcription stream": transcription_stream,
        "transcription realtime": transcription_realtime,
        "image": lambda: client.images.generate(model=os.environ["PICTURES"], prompt="a cat", size="64x64").data[0].b64_json,
    }
)
