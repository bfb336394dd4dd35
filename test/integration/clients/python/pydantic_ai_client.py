from anthropic import AsyncAnthropic
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.output import NativeOutput
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from driver import Place, base, chat, key, question, serve, weather

openai = OpenAIProvider(base_url=base + "/v1", api_key=key)
models = {
    "chat": OpenAIChatModel(chat, provider=openai),
    "responses": OpenAIResponsesModel(chat, provider=openai),
    "messages": AnthropicModel(chat, provider=AnthropicProvider(anthropic_client=AsyncAnthropic(base_url=base, api_key=key))),
}


async def text(model, **given):
    return (await Agent(model, **given).run(question)).output


async def stream(model):
    async with Agent(model).run_stream(question) as events:
        return "".join([part async for part in events.stream_text(delta=True, debounce_by=None)])


async def schema(model):
    return (await text(model, output_type=NativeOutput(Place))).model_dump()


features = {}
for name, one in models.items():
    features[name] = lambda model=one: text(model)
    features[f"{name} stream"] = lambda model=one: stream(model)
    features[f"{name} tools"] = lambda model=one: text(model, tools=[weather])
for name in ("chat", "responses"):
    features[f"{name} schema"] = lambda model=models[name]: schema(model)
serve(features)
