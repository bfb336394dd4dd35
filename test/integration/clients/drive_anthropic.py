"""Drives a running server with the official Anthropic client of Python; prints what came of each step as one JSON object.

Environment: BASE_URL, API_KEY, CHAT (name of a model). drive-anthropic.ts takes the same steps with the client of npm.
"""
import json
import os

from anthropic import Anthropic, AuthenticationError, NotFoundError

client = Anthropic(base_url=os.environ["BASE_URL"], api_key=os.environ["API_KEY"], max_retries=0, timeout=60)
CHAT = os.environ["CHAT"]
asked = [{"role": "user", "content": "What is the answer?"}]
prompt = {"model": CHAT, "messages": asked}
found = {}


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


def input_of(message):
    return message.usage.input_tokens + message.usage.cache_read_input_tokens


answer = client.messages.create(**prompt, max_tokens=16)
found["message"] = [text_of(answer), answer.stop_reason, input_of(answer), answer.usage.output_tokens]
found["count"] = client.messages.count_tokens(**prompt).input_tokens

with client.messages.stream(**prompt, max_tokens=16) as stream:
    parts = list(stream.text_stream)
    last = stream.get_final_message()
found["stream"] = [parts, text_of(last), last.stop_reason, input_of(last), last.usage.output_tokens]

stopped = client.messages.create(**prompt, max_tokens=16, stop_sequences=[" is"])
found["stopped"] = [text_of(stopped), stopped.stop_reason, stopped.stop_sequence]

tool = {
    "name": "weather",
    "description": "The weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
called = client.messages.create(**prompt, max_tokens=16, tools=[tool])
use = called.content[0]
found["tool"] = [use.name, use.input, called.stop_reason]
result = {"type": "tool_result", "tool_use_id": use.id, "content": "21 C"}
conversation = asked + [{"role": "assistant", "content": called.content}, {"role": "user", "content": [result]}]
found["result"] = text_of(client.messages.create(model=CHAT, max_tokens=16, messages=conversation))

thinking = {"type": "enabled", "budget_tokens": 1024}
thought = client.messages.create(**prompt, max_tokens=2048, thinking=thinking)
found["thinking"] = [thought.content[0].thinking, text_of(thought)]
conversation = asked + [{"role": "assistant", "content": thought.content}, {"role": "user", "content": "Why?"}]
found["thought"] = text_of(client.messages.create(model=CHAT, max_tokens=2048, messages=conversation))

found["models"] = sorted(model.id for model in client.models.list(limit=2))
found["model"] = client.models.retrieve(CHAT).display_name

limits = client.messages.with_raw_response.create(**prompt, max_tokens=16).headers
found["limits"] = int(limits["anthropic-ratelimit-requests-limit"]) > 0


def refusal(error, call):
    try:
        call()
    except error as refused:
        return [refused.status_code, refused.body["error"]["type"]]


found["unknown"] = refusal(NotFoundError, lambda: client.messages.create(model="no/model", max_tokens=1, messages=asked))
stranger = client.with_options(api_key="stk_unknown")
found["stranger"] = refusal(AuthenticationError, lambda: stranger.messages.create(**prompt, max_tokens=1))

print(json.dumps(found))
