from smolagents import OpenAIServerModel, ToolCallingAgent
from smolagents import tool as tool_of

from driver import asked, base, chat, key, question, serve, weather

model = OpenAIServerModel(model_id=chat, api_base=base + "/v1", api_key=key)


def tools():
    return ToolCallingAgent(tools=[tool_of(weather)], model=model, max_steps=4, verbosity_level=0).run(question)


serve(
    {
        "chat": lambda: model.generate(asked).content,
        "chat stream": lambda: "".join(part.content or "" for part in model.generate_stream(asked)),
        "chat tools": tools,
    }
)
