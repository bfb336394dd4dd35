from anthropic import Anthropic

from driver import asked, base, chat, key, parameters, polled, serve, weather

client = Anthropic(base_url=base, api_key=key, max_retries=0, timeout=60)
given = {"model": chat, "max_tokens": 1000}
tools = [{"name": "weather", "description": "The weather", "input_schema": parameters}]


def stream():
    with client.messages.stream(**given, messages=asked) as events:
        return "".join(events.text_stream)


def tool():
    called = client.messages.create(**given, messages=asked, tools=tools)
    [call] = [block for block in called.content if block.type == "tool_use"]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": weather(**call.input)}
    messages = [*asked, {"role": "assistant", "content": called.content}, {"role": "user", "content": [result]}]
    return client.messages.create(**given, messages=messages, tools=tools).content[0].text


def batch():
    made = client.messages.batches.create(requests=[{"custom_id": "one", "params": {**given, "messages": asked}}])
    polled(lambda: True if client.messages.batches.retrieve(made.id).processing_status == "ended" else None)
    results = client.messages.batches.results(made.id)
    return [[one.custom_id, one.result.message.content[0].text] for one in results]


serve(
    {
        "messages": lambda: client.messages.create(**given, messages=asked).content[0].text,
        "messages stream": stream,
        "messages tools": tool,
        "messages batch": batch,
        "messages count": lambda: client.messages.count_tokens(model=chat, messages=asked).input_tokens,
    }
)
