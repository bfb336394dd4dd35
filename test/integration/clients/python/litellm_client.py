import json
import os

import litellm

from driver import Place, asked, base, chat, key, parameters, question, ranking, recording, rounded, serve, vectors, weather

server = {"api_base": base + "/v1", "api_key": key, "max_retries": 0}
model = {"model": f"openai/{chat}", **server}
messages = {"model": f"anthropic/{chat}", "api_base": base, "api_key": key, "max_tokens": 1000}
tools = [{"type": "function", "function": {"name": "weather", "description": "The weather", "parameters": parameters}}]


def text_of(completion):
    return completion.choices[0].message.content


def tool(given):
    called = litellm.completion(**given, messages=asked, tools=tools).choices[0].message
    [call] = called.tool_calls
    result = {"role": "tool", "tool_call_id": call.id, "content": weather(**json.loads(call.function.arguments))}
    return text_of(litellm.completion(**given, messages=[*asked, called, result], tools=tools))


def stream(given):
    return "".join(one.choices[0].delta.content or "" for one in litellm.completion(**given, messages=asked, stream=True))


def response_text(response):
    return "".join(part.text for item in response.output if item.type == "message" for part in item.content)


def rerank():
    given = {"model": f"cohere/{ranking}", "api_base": base + "/v1/rerank", "api_key": key}
    found = litellm.rerank(**given, query=question, documents=["one", "two"])
    return [[one["index"], one["relevance_score"]] for one in found.results]


serve(
    {
        "chat": lambda: text_of(litellm.completion(**model, messages=asked)),
        "chat stream": lambda: stream(model),
        "chat tools": lambda: tool(model),
        "chat schema": lambda: json.loads(text_of(litellm.completion(**model, messages=asked, response_format=Place))),
        "responses": lambda: response_text(litellm.responses(**model, input=question)),
        "messages": lambda: text_of(litellm.completion(**messages, messages=asked)),
        "messages stream": lambda: stream(messages),
        "messages tools": lambda: tool(messages),
        "embeddings": lambda: rounded(
            one["embedding"]
            for one in litellm.embedding(
                model=f"openai/{vectors}", input=["one", "two"], encoding_format="float", **server
            ).data
        ),
        "rerank": rerank,
        "speech": lambda: litellm.speech(
            model=f"openai/{os.environ['SPEECH']}", voice="af_heart", input="Hello", response_format="wav", **server
        ).read().decode(),
        "transcription": lambda: litellm.transcription(
            model=f"openai/{os.environ['HEARING']}", file=("a.wav", recording()), **server
        ).text,
        "image": lambda: litellm.image_generation(
            model=f"openai/{os.environ['PICTURES']}", prompt="a cat", size="64x64", **server
        ).data[0].b64_json,
    }
)
