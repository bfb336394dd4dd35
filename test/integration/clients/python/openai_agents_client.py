from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from driver import Place, base, chat, key, question, serve, weather

set_tracing_disabled(True)


async def run(make, **given):
    async with AsyncOpenAI(base_url=base + "/v1", api_key=key, max_retries=0) as client:
        return (await Runner.run(Agent(name="test", model=make(chat, client), **given), question)).final_output


async def stream(make):
    async with AsyncOpenAI(base_url=base + "/v1", api_key=key, max_retries=0) as client:
        running = Runner.run_streamed(Agent(name="test", model=make(chat, client)), question)
        events = [event.data async for event in running.stream_events() if event.type == "raw_response_event"]
        return "".join(event.delta for event in events if event.type == "response.output_text.delta")


async def schema(make):
    return (await run(make, output_type=Place)).model_dump()


features = {}
for name, make in {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}.items():
    features[name] = lambda make=make: run(make)
    features[f"{name} stream"] = lambda make=make: stream(make)
    features[f"{name} tools"] = lambda make=make: run(make, tools=[function_tool(weather)])
    features[f"{name} schema"] = lambda make=make: schema(make)
serve(features)
